//! Approval in signed mode: a store never approves by itself.

use skill::{ApprovalMode, ApprovalSigningKey, ApprovalVerdict, Status, check_approval, stamp};
use workshop::{ApprovalPolicy, StoreOptions};

use crate::fixtures::{Stores, granted, refused};
use crate::recorded::{contract, text};

fn signing_key() -> ApprovalSigningKey {
    ApprovalSigningKey::from_pem(text(&contract("approval.json")["keypair"], "privateKeyPem")).unwrap()
}

#[tokio::test]
async fn in_signed_mode_only_a_signature_approves() {
    let key = signing_key();
    let keys = [key.public_key().unwrap()];
    let policy = ApprovalPolicy::Signed(keys.clone().into());
    let stores = Stores::open().await;
    for store in stores.under(&policy) {
        let passes = |body: &str| {
            matches!(check_approval(body, ApprovalMode::Signed(&keys)), ApprovalVerdict::Approved { .. })
        };
        let body = "# Skill: a\n# Status: Approved\ntext\n";
        let stored = granted(store.store("a", body, StoreOptions::default()).await);
        assert_eq!(stored.status, Status::Draft, "{}", store.implementation());
        assert_eq!(granted(store.load("a", None).await).source, "# Skill: a\n# Status: Draft\ntext\n");
        let refusal = refused(store.update_status("a", Status::Approved, None).await);
        assert_eq!(refusal.reason.class(), "ApprovalRejectedError");
        assert_eq!(granted(store.metadata("a").await).status, Status::Draft);
        // An operator sends the signed text. The status is given, because a folder keeps the previous one.
        let signed = stamp(body, &key);
        let approved = StoreOptions { status: Some(Status::Approved), ..StoreOptions::default() };
        assert_eq!(granted(store.store("a", &signed, approved.clone()).await).status, Status::Approved);
        assert_eq!(granted(store.load("a", None).await).source, signed);
        assert_eq!(granted(store.update_status("a", Status::Approved, None).await).status, Status::Approved);
        assert!(passes(&granted(store.load("a", None).await).source), "the signature is kept");
        // Another text with the same signature is a Draft again.
        let changed = signed.replace("text", "evil");
        assert_eq!(granted(store.store("a", &changed, approved).await).status, Status::Draft);
        assert!(!passes(&granted(store.load("a", None).await).source));
        granted(store.delete("a").await);
    }
}
