use ledger::{Sealed, ServerKey, ServerKeyKind};
use posthouse_time::Moment;

use crate::book::hours;

fn key(kind: ServerKeyKind, name: &str, now: Moment) -> ServerKey {
    let sealed = Sealed { key_id: "k1".to_owned(), blob: name.as_bytes().to_vec() };
    let (name, algorithm) = (name.to_owned(), "ES256".to_owned());
    ServerKey { kind, name, algorithm, created: now, starts: now, ends: None, sealed }
}

stories! {
    async fn the_first_key_of_a_kind_is_kept_and_a_second_beginning_changes_nothing(book) {
        let (vault, now) = (book.ledger.vault(), book.clock.now());
        let first = key(ServerKeyKind::Signing, "a", now);
        vault.begin_server_keys(first.clone()).await.unwrap();
        vault.begin_server_keys(key(ServerKeyKind::Signing, "b", now)).await.unwrap();
        vault.begin_server_keys(key(ServerKeyKind::CronMaster, "a", now)).await.unwrap();
        assert_eq!(vault.server_keys(ServerKeyKind::Signing).await.unwrap(), [first]);
        assert!(vault.server_keys(ServerKeyKind::Scheduler).await.unwrap().is_empty());
    }

    async fn a_successor_ends_its_elders_and_never_prolongs_them(book) {
        let (vault, now, kind) = (book.ledger.vault(), book.clock.now(), ServerKeyKind::Signing);
        let after = |count| Some(now + hours(count));
        let ends = async || -> Vec<Option<Moment>> {
            vault.server_keys(kind).await.unwrap().iter().map(|key| key.ends).collect()
        };
        vault.begin_server_keys(key(ServerKeyKind::CronMaster, "m", now)).await.unwrap();
        vault.succeed_server_key(key(kind, "a", now), now).await.unwrap();
        vault.succeed_server_key(key(kind, "b", now), now + hours(2)).await.unwrap();
        vault.succeed_server_key(key(kind, "c", now), now + hours(3)).await.unwrap();
        assert_eq!(ends().await, [after(2), after(3), None]);
        vault.succeed_server_key(key(kind, "d", now), now + hours(1)).await.unwrap();
        assert_eq!(ends().await, [after(1), after(1), after(1), None]);
        book.clock.set(now + hours(24));
        vault.forget_server_keys(kind).await.unwrap();
        assert_eq!(ends().await.len(), 4, "a step of the wall clock deletes nothing");
        book.clock.set(now);
        book.winds(hours(1));
        vault.forget_server_keys(kind).await.unwrap();
        assert_eq!(ends().await, [None]);
        assert!(vault.end_server_keys(kind, now).await.unwrap());
        assert!(!vault.end_server_keys(ServerKeyKind::Scheduler, now).await.unwrap());
        vault.forget_server_keys(kind).await.unwrap();
        assert!(ends().await.is_empty());
        assert_eq!(vault.server_keys(ServerKeyKind::CronMaster).await.unwrap().len(), 1);
    }

    async fn a_key_of_the_house_is_sealed_anew_where_it_lies(book) {
        let (vault, kind) = (book.ledger.vault(), ServerKeyKind::Signing);
        vault.begin_server_keys(key(kind, "a", book.clock.now())).await.unwrap();
        let others = vault.sealed_under_other_keys("k2", 10).await.unwrap();
        let (place, old) = &others[0];
        assert!(place.starts_with("house/signing/a#"), "{place}");
        let new = Sealed { key_id: "k2".to_owned(), blob: b"anew".to_vec() };
        vault.reseal(place, old, new.clone()).await.unwrap();
        assert_eq!(vault.server_keys(kind).await.unwrap()[0].sealed, new);
        assert!(vault.sealed_under_other_keys("k2", 10).await.unwrap().is_empty());
    }
}
