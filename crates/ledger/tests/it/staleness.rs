//! Entries that wait too long: marked or expired by ledger time, whatever the wall clock shows.

use std::time::Duration;

use ledger::{Append, Created, DeadBot, Discriminator, Route, Seq, StaleAction, StalePolicy};
use posthouse_wire::{EntryId, InstanceId};

use crate::book::{Book, START, days, hours, on};

fn policy(after: Duration, action: StaleAction) -> Option<StalePolicy> {
    Some(StalePolicy { after, action })
}

/// An event with a place, so that its sender can be told.
fn letter(book: &Book, to: &InstanceId, word: &str, action: StaleAction) -> Append {
    let event = serde_json::json!({
        "text": word, "source": { "platform": "telegram", "chat_id": "chat-1", "chat_type": "forum", "thread_id": "7" }
    });
    Append {
        event: event.to_string().into(),
        stale: policy(hours(2), action),
        ..book.letter(to.as_str(), word)
    }
}

async fn expired(book: &Book, of: &InstanceId) -> Vec<EntryId> {
    let ended = book.ledger.inbox().expire(of, None, 100).await.unwrap();
    ended.into_iter().map(|expired| expired.entry).collect()
}

stories! {
    async fn an_entry_expires_when_its_time_has_passed_and_is_traced(book) {
        let heron = book.enrols("acme", "heron").await;
        let inbox = book.ledger.inbox();
        let due = book.keeps_letter(letter(&book, &heron, "due", StaleAction::Expire)).await;
        book.keeps_letter(letter(&book, &heron, "marked", StaleAction::Mark)).await;
        book.keeps(heron.as_str(), "plain").await;
        book.winds(hours(2) - Duration::from_millis(1));
        assert!(inbox.agents_with_expired().await.unwrap().is_empty());
        assert!(expired(&book, &heron).await.is_empty());
        assert!(inbox.expire(&heron, Some(vec![due.clone()]), 9).await.unwrap().is_empty(), "not even by its name");
        book.winds(Duration::from_millis(1));
        let late = book.keeps_letter(letter(&book, &heron, "later", StaleAction::Expire)).await;
        assert_eq!(inbox.agents_with_expired().await.unwrap(), std::slice::from_ref(&heron));
        let ended = inbox.expire(&heron, None, 100).await.unwrap();
        assert_eq!(ended.len(), 1);
        let expired = &ended[0];
        assert_eq!((&expired.entry, expired.chat.as_str(), expired.chat_type.as_str()), (&due, "chat-1", "forum"));
        assert_eq!(expired.thread.as_ref().unwrap().as_str(), "7");
        assert_eq!(book.steps(&due).await, ["accepted", "durable", "expired"]);
        assert_eq!(inbox.size(&heron).await.unwrap().entries, 3);
        // It is pruned like any entry that ended.
        book.winds(days(8));
        book.prunes().await;
        assert!(book.steps(&due).await.is_empty());
        assert!(!book.steps(&late).await.is_empty(), "dropped, and kept as a trace");
    }

    async fn the_staleness_of_an_entry_is_read_with_it(book) {
        let heron = book.enrols("acme", "heron").await;
        book.keeps_letter(letter(&book, &heron, "marked", StaleAction::Mark)).await;
        book.keeps_letter(letter(&book, &heron, "delivered", StaleAction::Deliver)).await;
        let read = async || book.ledger.inbox().unread(&heron, Seq(0), 9).await.unwrap();
        let stale = read().await[0].stale.unwrap();
        assert_eq!((stale.policy.after, stale.due), (hours(2), book.clock.instant() + hours(2)));
        assert!(read().await[1].stale.is_none(), "there is nothing to do");
        book.winds(hours(5));
        let stale = read().await[0].stale.unwrap();
        assert_eq!((stale.policy.after, stale.due), (hours(5), book.clock.instant()), "it is five hours old now");
        let entry = read().await[0].id.clone();
        book.ledger.inbox().handed_late(&heron, &entry).await.unwrap();
        assert!(book.steps(&entry).await.contains(&"marked as late"));
    }

    async fn a_step_of_the_wall_clock_expires_nothing(book) {
        let heron = book.enrols("acme", "heron").await;
        book.keeps_letter(letter(&book, &heron, "due", StaleAction::Expire)).await;
        book.clock.set(START + days(300));
        assert!(expired(&book, &heron).await.is_empty());
        book.clock.set(START - days(300));
        book.winds(hours(2));
        assert_eq!(expired(&book, &heron).await.len(), 1, "two hours have passed, whatever the wall clock shows");
    }

    async fn a_dead_letter_does_not_expire_even_after_it_was_put_back(book) {
        let heron = book.enrols("acme", "heron").await;
        let inbox = book.ledger.inbox();
        let entry = book.keeps_letter(letter(&book, &heron, "poison", StaleAction::Expire)).await;
        for _ in 0..3 {
            inbox.record_failed_delivery(&heron, &entry, ledger::FailedDelivery::Poison).await.unwrap();
        }
        book.winds(hours(3));
        assert!(expired(&book, &heron).await.is_empty());
        assert_eq!(inbox.redrive(&entry).await.unwrap(), Some(heron.clone()));
        assert!(expired(&book, &heron).await.is_empty(), "the operator wants it delivered");
        assert_eq!(book.unread(heron.as_str()).await.len(), 1);
    }

    async fn a_route_has_its_own_policy_or_that_of_its_agent(book) {
        let (heron, otter) = (book.enrols("acme", "heron").await, book.enrols("acme", "otter").await);
        book.bot("tb", true).await;
        let on = on("tb");
        let chat = Discriminator::Chat("5".into());
        book.routes("tb", "chat:5", &heron).await;
        let policies = book.ledger.staleness();
        let found = async |to: &InstanceId| {
            policies.staleness(&on, &[chat.clone(), Discriminator::Any], to).await.unwrap()
        };
        assert_eq!(found(&heron).await, None);
        let (own, agents) = (policy(hours(1), StaleAction::Mark), policy(hours(9), StaleAction::Expire));
        policies.set_agent_staleness(&heron, agents).await.unwrap();
        assert_eq!(found(&heron).await, agents);
        assert!(policies.set_route_staleness(&on, &chat, own).await.unwrap());
        assert_eq!(found(&heron).await, own);
        assert_eq!(found(&otter).await, None, "the route leads to another agent");
        assert_eq!(policies.route_policies().await.unwrap(), [(on.clone(), chat.clone(), own.unwrap())]);
        assert!(policies.set_route_staleness(&on, &chat, None).await.unwrap());
        assert_eq!(found(&heron).await, agents);
        policies.set_agent_staleness(&heron, None).await.unwrap();
        assert_eq!(policies.agent_staleness(&heron).await.unwrap(), None);
        let absent = Discriminator::Chat("6".into());
        assert!(!policies.set_route_staleness(&on, &absent, own).await.unwrap());
    }

    async fn a_route_is_created_together_with_its_policy(book) {
        let heron = book.enrols("acme", "heron").await;
        book.bot("tb", true).await;
        let (on, chat) = (on("tb"), Discriminator::Chat("5".into()));
        let route = Route {
            platform: on.platform.clone(),
            bot: on.bot.clone(),
            discriminator: chat.clone(),
            instance: heron.clone(),
            created: book.clock.now(),
            profile: None,
        };
        let own = policy(hours(1), StaleAction::Mark).unwrap();
        let (roster, policies) = (book.ledger.roster(), book.ledger.staleness());
        assert_eq!(roster.create_route_with_policy(route.clone(), own).await.unwrap(), Created::Made);
        assert_eq!(policies.staleness(&on, std::slice::from_ref(&chat), &heron).await.unwrap(), Some(own));
        let other = policy(hours(9), StaleAction::Expire).unwrap();
        assert_eq!(roster.create_route_with_policy(route, other).await.unwrap(), Created::Taken);
        assert_eq!(policies.staleness(&on, &[chat], &heron).await.unwrap(), Some(own), "it stays");
    }

    async fn the_position_of_a_feed_is_kept_with_its_bot(book) {
        book.bot("tb", true).await;
        let (on, feeds) = (on("tb"), book.ledger.event_feeds());
        assert_eq!(feeds.feed_cursor(&on).await.unwrap(), None);
        for position in ["7", "8"] {
            feeds.save_feed_cursor(&on, Some(position)).await.unwrap();
            assert_eq!(feeds.feed_cursor(&on).await.unwrap().as_deref(), Some(position));
        }
        feeds.save_feed_cursor(&on, None).await.unwrap();
        assert_eq!(feeds.feed_cursor(&on).await.unwrap(), None);
        feeds.save_feed_cursor(&on, Some("9")).await.unwrap();
        book.ledger.roster().remove_bot(&on.platform, &on.bot).await.unwrap();
        assert_eq!(feeds.feed_cursor(&on).await.unwrap(), None, "it goes with its bot");
        feeds.save_feed_cursor(&on, Some("10")).await.unwrap();
        assert_eq!(feeds.feed_cursor(&on).await.unwrap(), None, "and is not kept for a removed one");
    }

    async fn events_that_share_a_key_get_the_key_of_the_first_for_a_day(book) {
        book.bot("tb", true).await;
        let (here, feeds) = (on("tb"), book.ledger.event_feeds());
        let shared = [posthouse_wire::DedupKey::from("c1:17")];
        let first = async |key: &str| feeds.first_key(&here, &key.into(), &shared).await.unwrap().to_string();
        assert_eq!(first("Ev1").await, "Ev1");
        assert_eq!((first("Ev2").await, first("Ev1").await), ("Ev1".to_owned(), "Ev1".to_owned()));
        let elsewhere = feeds.first_key(&on("other"), &"Ev3".into(), &shared).await.unwrap();
        assert_eq!(elsewhere.as_str(), "Ev3", "keys of another bot do not count");
        book.winds(days(2));
        book.prunes().await;
        assert_eq!(first("Ev4").await, "Ev4");
    }

    async fn a_dead_bot_keeps_its_first_mark_until_its_credential_is_replaced_or_it_is_removed(book) {
        book.bot("tb", true).await;
        let on = on("tb");
        let dead = |why: &str| DeadBot { bot: on.clone(), since: book.clock.now(), why: why.to_owned() };
        let bots = book.ledger.dead_bots();
        assert!(bots.mark_dead(dead("revoked")).await.unwrap());
        assert!(bots.mark_dead(dead("again")).await.unwrap());
        assert_eq!(bots.dead_bots().await.unwrap(), [dead("revoked")]);
        assert!(bots.replace_credentials(&on, Vec::new()).await.unwrap());
        assert!(bots.dead_bots().await.unwrap().is_empty());
        assert!(bots.mark_dead(dead("revoked")).await.unwrap());
        book.ledger.roster().remove_bot(&on.platform, &on.bot).await.unwrap();
        assert!(bots.dead_bots().await.unwrap().is_empty());
        assert!(!bots.mark_dead(dead("gone")).await.unwrap());
        assert!(!bots.replace_credentials(&on, Vec::new()).await.unwrap());
    }
}
