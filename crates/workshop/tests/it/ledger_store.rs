//! The server's own store: tenants, restoring, quotas and repeats.

use skill::Status;
use workshop::{LedgerSkillStore, SkillFilter, SkillRestored, SkillStore};

use crate::conformance::{by, plain};
use crate::fixtures::{Stores, granted, refused};

#[tokio::test]
async fn tenants_have_skills_of_their_own() {
    let stores = Stores::open().await;
    let globex = LedgerSkillStore::open(&stores.ledger, "ten_globex".into(), stores.clock.clone());
    let version = granted(stores.own.store("note", "secret", by("ann")).await).version;
    let token = granted(globex.version().await);
    assert_eq!(refused(globex.load("note", Some(&version)).await).reason.code(), "skill_not_found");
    assert!(granted(globex.query(&SkillFilter::default()).await).is_empty());
    granted(globex.store("note", "own", by("bob")).await);
    granted(stores.own.store("note", "secret too", plain()).await);
    assert_eq!(granted(globex.versions("note").await).len(), 1);
    assert_ne!(granted(globex.version().await), token);
    let nobody = LedgerSkillStore::open(&stores.ledger, "ten_nobody".into(), stores.clock.clone());
    assert_eq!(refused(nobody.store("note", "x", plain()).await).reason.code(), "read_only");
}

#[tokio::test]
async fn a_deleted_skill_is_restored_with_its_history() {
    let stores = Stores::open().await;
    let store = &stores.own;
    granted(store.store("note", "one", by("ann")).await);
    granted(store.store("note", "two", plain()).await);
    granted(store.delete("note").await);
    assert_eq!(store.restore("note").await.unwrap().unwrap(), SkillRestored::Restored);
    assert_eq!(granted(store.versions("note").await).len(), 2);
    assert_eq!(granted(store.load("note", None).await).source, "two");
    granted(store.delete("note").await);
    granted(store.store("note", "three", plain()).await);
    assert_eq!(store.restore("note").await.unwrap().unwrap(), SkillRestored::NameTaken);
    for missing in ["ghost", "../x"] {
        assert_eq!(refused(store.restore(missing).await).reason.code(), "skill_not_found");
    }
}

#[tokio::test]
async fn a_tenant_without_storage_is_refused_and_can_still_read_disable_and_delete() {
    let stores = Stores::open().await;
    let store = &stores.own;
    granted(store.store("note", "text", plain()).await);
    stores.ledger.usage().set_tenant_limit(&"ten_acme".into(), Some(1)).await.unwrap();
    assert_eq!(refused(store.store("note", "new", plain()).await).reason.code(), "quota_exceeded");
    assert_eq!(
        refused(store.update_status("note", Status::Approved, None).await).reason.code(),
        "quota_exceeded"
    );
    assert_eq!(granted(store.load("note", None).await).source, "text");
    granted(store.update_status("note", Status::Disabled, None).await);
    granted(store.delete("note").await);
}

#[tokio::test]
async fn a_repeat_is_in_the_history_and_changes_nothing_else() {
    let stores = Stores::open().await;
    let store = &stores.own;
    granted(store.store("note", "# Skill: note\n", by("ann")).await);
    let (meta, token) = (granted(store.metadata("note").await), granted(store.version().await));
    stores.winds(60);
    granted(store.store("note", "# Skill: note\n", by("ann")).await);
    assert_eq!((granted(store.metadata("note").await), granted(store.version().await)), (meta, token));
    let times: Vec<i64> = granted(store.versions("note").await).iter().map(|line| line.changed_at).collect();
    assert_eq!(times.len(), 2);
    assert_eq!(times[1] - times[0], 60);
}
