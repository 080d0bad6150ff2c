//! Stop URLs, and the tokens with which agents ask to be stopped.

use ledger::{SLEEP_TOKENS, TokenHash};

use crate::book::{START, days, hours};

fn token(number: u8) -> TokenHash {
    TokenHash([number; 32])
}

stories! {
    async fn a_token_works_while_its_agent_has_a_stop_url_and_a_credential(book) {
        let heron = book.enrols("acme", "heron").await;
        let gateway = book.gateway(&heron, "gw-1").await;
        let sleep = book.ledger.sleep();
        let later = book.clock.now() + days(1);
        assert!(!sleep.add_sleep_token(&heron, token(1), later).await.unwrap(), "it has no stop URL");
        sleep.set_stop_url(&heron, Some("https://run.example/stop")).await.unwrap();
        assert!(sleep.add_sleep_token(&heron, token(1), later).await.unwrap());
        let asker = sleep.sleep_asker(token(1)).await.unwrap().unwrap();
        assert_eq!((asker.instance, asker.stop_url.as_str()), (heron.clone(), "https://run.example/stop"));
        assert_eq!(asker.tenant.as_str(), "ten_acme");
        assert!(sleep.sleep_asker(token(2)).await.unwrap().is_none());
        book.ledger.vault().revoke(&gateway, book.clock.now()).await.unwrap();
        assert!(sleep.sleep_asker(token(1)).await.unwrap().is_none(), "its credential is revoked");
        book.gateway(&heron, "gw-2").await;
        assert!(sleep.sleep_asker(token(1)).await.unwrap().is_some());
        sleep.set_stop_url(&heron, None).await.unwrap();
        sleep.set_stop_url(&heron, Some("https://run.example/stop")).await.unwrap();
        assert!(sleep.sleep_asker(token(1)).await.unwrap().is_none(), "the tokens ended with the URL");
    }

    async fn a_replaced_token_ends_after_the_overlap_by_either_clock(book) {
        let heron = book.enrols("acme", "heron").await;
        book.gateway(&heron, "gw-1").await;
        let sleep = book.ledger.sleep();
        sleep.set_stop_url(&heron, Some("https://run.example/stop")).await.unwrap();
        for number in 0..9 {
            let until = book.clock.now() + days(1);
            assert!(sleep.add_sleep_token(&heron, token(number), until).await.unwrap());
            book.winds(hours(1));
        }
        let valid = async || {
            let mut valid = Vec::new();
            for number in 0..9 {
                valid.extend(sleep.sleep_asker(token(number)).await.unwrap().map(|_| number));
            }
            valid
        };
        assert_eq!(valid().await.len(), SLEEP_TOKENS as usize);
        assert!(valid().await.contains(&8), "the newest is one of them");
        book.clock.set(START + days(30));
        assert_eq!(valid().await, [8], "by the wall clock");
        book.clock.set(START);
        book.winds(days(2));
        assert_eq!(valid().await, [8], "by the clock of the ledger");
        book.prunes().await;
        assert_eq!(valid().await, [8]);
        book.ledger.roster().remove_instance(&heron).await.unwrap();
        assert!(valid().await.is_empty());
    }
}
