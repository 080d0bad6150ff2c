use ledger::{CapabilityRecord, Sealed, Uses};

use crate::book::hours;

fn sealed(blob: &[u8]) -> Sealed {
    Sealed { key_id: "k1".to_owned(), blob: blob.to_vec() }
}

fn capability(instance: &str, keys: &[&str], blob: &[u8], uses: Uses) -> CapabilityRecord {
    CapabilityRecord {
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

    async fn the_newest_capability_of_a_kind_wins_and_what_nobody_can_name_any_more_is_gone(book) {
        let (vault, now) = (book.ledger.vault(), book.clock.now());
        let (tenant, heron, kind) = ("ten".into(), "inst_heron".into(), "line.reply_token".into());
        vault.bind(capability("inst_heron", &["a", "b"], b"old", Uses::Many)).await.unwrap();
        vault.bind(capability("inst_heron", &["a"], b"new", Uses::Many)).await.unwrap();
        vault.bind(capability("inst_heron", &[], b"nameless", Uses::Many)).await.unwrap();
        let redeemed = vault.redeem(&tenant, &heron, &"a".into(), &kind, now).await.unwrap().unwrap();
        assert_eq!(redeemed.1.blob, b"new");
        let redeemed = vault.redeem(&tenant, &heron, &"b".into(), &kind, now).await.unwrap().unwrap();
        assert_eq!(redeemed.1.blob, b"old");
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
