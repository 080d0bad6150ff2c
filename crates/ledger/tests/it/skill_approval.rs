//! Settings, approval keys and audit log of skills.

use ledger::{
    AddedApprovalKey, Removed, Sealed, SkillAuditEvent, SkillAuditRow, SkillSettings, SkillSettingsChange,
    StoreKind,
};
use posthouse_time::Moment;

fn row(number: i64) -> SkillAuditRow {
    SkillAuditRow {
        at: Moment::from_millis(number),
        event: SkillAuditEvent::ForcedDraft,
        skill: format!("skill-{number}"),
        version: None,
        caller: "tenant:ten_acme".to_owned(),
        key: None,
        reason: Some("no".to_owned()),
    }
}

stories! {
    async fn a_tenant_has_the_settings_that_were_set_for_it(book) {
        book.enrols("acme", "heron").await;
        let records = book.ledger.skill_approval();
        let (acme, nobody) = ("ten_acme".into(), "ten_nobody".into());
        assert_eq!(records.skill_settings(&acme).await.unwrap(), (SkillSettings::default(), Vec::new()));
        let signed = SkillSettingsChange { signed: Some(true), ..SkillSettingsChange::default() };
        assert!(records.change_skill_settings(&acme, signed.clone()).await.unwrap());
        assert!(!records.change_skill_settings(&nobody, signed).await.unwrap());
        let of_new_row = records.skill_settings(&acme).await.unwrap().0;
        assert_eq!((&*of_new_row.store, &*of_new_row.data_store), ("ledger", "ledger"), "stored as `house`");
        let store = SkillSettingsChange { store: Some("sqlite:/x".to_owned()), ..SkillSettingsChange::default() };
        assert!(records.change_skill_settings(&acme, store).await.unwrap());
        let data = SkillSettingsChange { data_store: Some("sqlite:/y".to_owned()), ..SkillSettingsChange::default() };
        assert!(records.change_skill_settings(&acme, data).await.unwrap());
        let expected = SkillSettings {
            signed: true,
            agents_may_approve: false,
            store: "sqlite:/x".to_owned(),
            data_store: "sqlite:/y".to_owned(),
        };
        assert_eq!(records.skill_settings(&acme).await.unwrap().0, expected);
    }

    async fn the_secrets_of_an_endpoint_go_with_it_and_belong_to_its_tenant(book) {
        book.enrols("acme", "heron").await;
        book.enrols("zen", "egret").await;
        let (records, vault) = (book.ledger.skill_approval(), book.ledger.vault());
        let (acme, zen) = ("ten_acme".into(), "ten_zen".into());
        let sealed = |byte: u8| Sealed { key_id: "k".to_owned(), blob: vec![byte] };
        let secret = |kind: StoreKind, byte: u8| vec![(kind.secret_name("hmac_secret"), sealed(byte))];
        let store = |url: &str| SkillSettingsChange { store: Some(url.to_owned()), ..SkillSettingsChange::default() };
        let (here, there) = ("https://a.example", "https://b.example");
        let first = SkillSettingsChange { secrets: secret(StoreKind::Skills, 1), ..store(here) };
        assert!(records.change_skill_settings(&acme, first).await.unwrap());
        let data = SkillSettingsChange {
            data_store: Some(here.to_owned()),
            secrets: secret(StoreKind::Data, 2),
            ..SkillSettingsChange::default()
        };
        assert!(records.change_skill_settings(&acme, data).await.unwrap());
        let held = async |of, kind, url: &str| {
            let held = vault.store_secrets(of, kind, url).await.unwrap();
            held.into_iter().map(|(_, sealed)| sealed.blob[0]).collect::<Vec<_>>()
        };
        assert_eq!(held(&acme, StoreKind::Skills, here).await, [1]);
        assert_eq!(held(&acme, StoreKind::Skills, there).await, [0; 0], "a call to an earlier address gets none");
        assert_eq!(held(&zen, StoreKind::Skills, here).await, [0; 0]);
        // The same endpoint keeps its secrets, and gets new ones.
        assert!(records.change_skill_settings(&acme, store(here)).await.unwrap());
        assert_eq!(held(&acme, StoreKind::Skills, here).await, [1]);
        let newer = SkillSettingsChange { secrets: secret(StoreKind::Skills, 3), ..SkillSettingsChange::default() };
        assert!(records.change_skill_settings(&acme, newer).await.unwrap());
        assert_eq!(held(&acme, StoreKind::Skills, here).await, [3]);
        assert!(records.change_skill_settings(&acme, store(there)).await.unwrap());
        assert_eq!(held(&acme, StoreKind::Skills, there).await, [0; 0]);
        assert_eq!(held(&acme, StoreKind::Data, here).await, [2]);
    }

    async fn a_revoked_key_stays_revoked(book) {
        book.enrols("acme", "heron").await;
        book.enrols("zen", "egret").await;
        let records = book.ledger.skill_approval();
        let (acme, zen) = ("ten_acme".into(), "ten_zen".into());
        let add = async || records.add_approval_key(&acme, "k1", &[7; 32], Some("ann")).await.unwrap();
        assert_eq!(add().await, AddedApprovalKey::Added);
        assert_eq!(add().await, AddedApprovalKey::Known);
        assert!(!records.revoke_approval_key(&zen, "k1").await.unwrap());
        assert!(records.revoke_approval_key(&acme, "k1").await.unwrap());
        assert!(records.revoke_approval_key(&acme, "k1").await.unwrap());
        assert_eq!(add().await, AddedApprovalKey::Revoked);
        let (_, keys) = records.skill_settings(&acme).await.unwrap();
        assert_eq!((keys.len(), keys[0].revoked.is_some()), (1, true));
        let missing = records.add_approval_key(&"ten_nobody".into(), "k1", &[7; 32], None).await.unwrap();
        assert_eq!(missing, AddedApprovalKey::NoTenant);
    }

    async fn the_log_of_a_tenant_is_its_own_and_goes_with_it(book) {
        let heron = book.enrols("acme", "heron").await;
        book.enrols("zen", "egret").await;
        let (records, roster) = (book.ledger.skill_approval(), book.ledger.roster());
        let (acme, zen) = ("ten_acme".into(), "ten_zen".into());
        for number in 1..=3 {
            records.record_skill_audit(&acme, row(number)).await.unwrap();
        }
        assert!(records.skill_audit(&zen, None, 10).await.unwrap().is_empty());
        let newest = records.skill_audit(&acme, None, 2).await.unwrap();
        assert_eq!(newest, [(3, row(3)), (2, row(2))]);
        assert_eq!(records.skill_audit(&acme, Some(2), 2).await.unwrap(), [(1, row(1))]);
        records.add_approval_key(&acme, "k1", &[7; 32], None).await.unwrap();
        assert_eq!(roster.remove_instance(&heron).await.unwrap(), Removed::Gone);
        assert_eq!(roster.remove_tenant(&acme).await.unwrap(), Removed::Gone);
        assert!(records.skill_audit(&acme, None, 2).await.unwrap().is_empty());
        assert!(records.skill_settings(&acme).await.unwrap().1.is_empty());
    }
}
