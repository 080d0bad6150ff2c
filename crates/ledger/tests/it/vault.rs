use ledger::{CapabilityRecord, Request, Sealed, Uses};
use posthouse_wire::{ActionId, EntryId, Outcome};

use crate::book::{days, hours, minutes};
use crate::outbox::{begins, request};

fn sealed(blob: &[u8]) -> Sealed {
    Sealed { key_id: "k1".to_owned(), blob: blob.to_vec() }
}

fn capability(instance: &str, keys: &[&str], blob: &[u8], uses: Uses) -> CapabilityRecord {
    CapabilityRecord {
        entry: None,
        tenant: "ten".into(),
        instance: instance.into(),
        kind: "line.reply_token".into(),
        session_keys: keys.iter().map(|key| (*key).into()).collect(),
        sealed: sealed(blob),
        expires: None,
        uses,
    }
}

stories! {
    async fn a_gateway_belongs_to_one_agent_and_has_its_newest_secret_first(book) {
        let heron = book.enrols("acme", "heron").await;
        let otter = book.enrols("umbrella", "otter").await;
        let (vault, gateway, now) = (book.ledger.vault(), "gw".into(), book.clock.now());
        let until = now + hours(24);
        assert!(vault.issue(&gateway, &heron, sealed(b"1"), now, until).await.unwrap());
        assert!(vault.issue(&gateway, &heron, sealed(b"2"), now, until).await.unwrap());
        assert!(!vault.issue(&gateway, &otter, sealed(b"3"), now, until).await.unwrap());
        let record = vault.gateway(&gateway).await.unwrap().unwrap();
        assert_eq!((&record.instance, record.tenant.as_str()), (&heron, "ten_acme"));
        let secrets: Vec<_> = record.secrets.iter().map(|s| (&s.sealed.blob[..], s.expires)).collect();
        assert_eq!(secrets, [(&b"2"[..], None), (&b"1"[..], Some(until))]);
        assert!(vault.gateways(&otter).await.unwrap().is_empty());
    }

    async fn a_revoked_gateway_has_no_secrets_and_gets_no_more(book) {
        let heron = book.enrols("acme", "heron").await;
        let (vault, gateway, now) = (book.ledger.vault(), "gw".into(), book.clock.now());
        vault.issue(&gateway, &heron, sealed(b"1"), now, now).await.unwrap();
        assert!(vault.revoke(&gateway, now).await.unwrap());
        assert!(vault.revoke(&gateway, now + hours(1)).await.unwrap());
        assert!(!vault.issue(&gateway, &heron, sealed(b"2"), now, now).await.unwrap());
        let record = vault.gateway(&gateway).await.unwrap().unwrap();
        assert_eq!((record.revoked, record.secrets.len()), (Some(now), 0), "the first time counts");
        assert!(!vault.revoke(&"unknown".into(), now).await.unwrap());
        assert_eq!(vault.gateways(&heron).await.unwrap().len(), 1);
    }

    async fn every_use_of_a_capability_or_a_bot_leaves_a_record(book) {
        let heron = book.enrols("acme", "heron").await;
        let (vault, outbox) = (book.ledger.vault(), book.ledger.outbox());
        let (tenant, kind) = ("ten_acme".into(), "line.reply_token".into());
        let (entry, action) = (EntryId::mint(1), ActionId::mint(2));
        let record = capability(heron.as_str(), &["key"], b"x", Uses::Left(1));
        vault.bind(CapabilityRecord { tenant: "ten_acme".into(), entry: Some(entry.clone()), ..record }).await.unwrap();
        let used = vault.redeem(&tenant, &heron, &"key".into(), &kind, Some(&action)).await.unwrap().unwrap();
        let uses = async || vault.credential_uses(&heron, None, 10).await.unwrap();
        let running = uses().await;
        assert_eq!((running.len(), &running[0].entry, &running[0].outcome), (1, &Some(entry), &None));
        assert!(vault.redeem(&tenant, &heron, &"key".into(), &kind, Some(&action)).await.unwrap().is_none());
        vault.end_use(&tenant, used.number, "push", "ok").await.unwrap();
        let ended = uses().await.remove(0);
        assert_eq!(ended.action, Some(action));
        assert_eq!((ended.called.as_deref(), ended.outcome.as_deref()), (Some("push"), Some("ok")));
        assert_eq!(uses().await.len(), 1, "a refused redemption is no use");

        book.winds(minutes(1));
        let of_heron = |id| Request { instance: heron.clone(), ..request(&book, id) };
        let (action, _) = begins(&book, of_heron("r1")).await;
        outbox.finish(&heron, &action, &Outcome::done(), Some(book.clock.now()), Some("sendMessage x2")).await.unwrap();
        let (action, _) = begins(&book, of_heron("r2")).await;
        outbox.finish(&heron, &action, &Outcome::failed("refused"), None, None).await.unwrap();
        let uses = vault.credential_uses(&heron, None, 10).await.unwrap();
        assert_eq!(uses.len(), 2, "an action without a call used no credential");
        assert_eq!((uses[0].kind.as_str(), uses[0].called.as_deref()), ("telegram.bot", Some("sendMessage x2")));
        let after = Some((uses[0].at, uses[0].action.clone().unwrap()));
        let older = vault.credential_uses(&heron, after, 10).await.unwrap();
        assert_eq!(older, uses[1..]);
        assert!(vault.credential_uses(&"inst_other".into(), None, 10).await.unwrap().is_empty());
        book.winds(days(8));
        book.prunes().await;
        assert!(vault.credential_uses(&heron, None, 10).await.unwrap().is_empty());
    }

    async fn the_newest_capability_of_a_kind_wins_and_what_nobody_can_name_any_more_is_gone(book) {
        let vault = book.ledger.vault();
        let (tenant, heron, kind) = ("ten".into(), "inst_heron".into(), "line.reply_token".into());
        vault.bind(capability("inst_heron", &["a", "b"], b"old", Uses::Many)).await.unwrap();
        vault.bind(capability("inst_heron", &["a"], b"new", Uses::Many)).await.unwrap();
        vault.bind(capability("inst_heron", &[], b"nameless", Uses::Many)).await.unwrap();
        let redeemed = vault.redeem(&tenant, &heron, &"a".into(), &kind, None).await.unwrap().unwrap();
        assert_eq!(redeemed.sealed.blob, b"new");
        let redeemed = vault.redeem(&tenant, &heron, &"b".into(), &kind, None).await.unwrap().unwrap();
        assert_eq!(redeemed.sealed.blob, b"old");
        assert_eq!(vault.sealed_under_other_keys("k2", 10).await.unwrap().len(), 2);
        vault.bind(capability("inst_heron", &["b", "b"], b"newer", Uses::Many)).await.unwrap();
        assert_eq!(vault.sealed_under_other_keys("k2", 10).await.unwrap().len(), 2);
        assert!(vault.sealed_under_other_keys("k1", 10).await.unwrap().is_empty());
    }

    async fn a_value_is_sealed_anew_where_it_lies_unless_it_changed_meanwhile(book) {
        let (vault, platform, bot) = (book.ledger.vault(), "telegram".into(), "tb".into());
        vault.put_credential(&platform, &bot, "token", sealed(b"1")).await.unwrap();
        let others = vault.sealed_under_other_keys("k2", 10).await.unwrap();
        let (place, old) = &others[0];
        vault.put_credential(&platform, &bot, "token", sealed(b"2")).await.unwrap();
        let new = Sealed { key_id: "k2".to_owned(), blob: b"1 anew".to_vec() };
        vault.reseal(place, old, new.clone()).await.unwrap();
        assert_eq!(vault.credentials(&platform, &bot).await.unwrap(), [("token".to_owned(), sealed(b"2"))]);
        vault.reseal(place, &sealed(b"2"), new.clone()).await.unwrap();
        assert_eq!(vault.credentials(&platform, &bot).await.unwrap(), [("token".to_owned(), new)]);
    }
}
