//! Recorded changes of status, byte by byte, through every store.

use skill::{ApprovalMode, ApprovalVerdict, Status, check_approval};
use workshop::{SkillStore, StoreOptions};

use crate::fixtures::{Stores, granted};
use crate::recorded::{contract, list, text};

#[tokio::test]
async fn vectors_header_rewrite() {
    // The recorded results of ours are those without this compatibility switch.
    let stores = Stores::open_with(|settings| settings.overwrite_keeps_status = false).await;
    for store in stores.all() {
        for case in list(&contract("header-rewrite.json")["cases"]) {
            let (id, body, ours) = (text(&case, "id"), text(&case, "body"), &case["ours"]);
            let status = case["status"].as_str().map(|word| Status::named(word).unwrap());
            if let Some(previous) = case["previous_body"].as_str() {
                granted(store.store("a", previous, StoreOptions::default()).await);
            }
            match text(&case, "call") {
                "update_status" => {
                    granted(store.store("a", body, StoreOptions::default()).await);
                    granted(store.update_status("a", status.unwrap(), None).await);
                }
                "store" => {
                    let options = StoreOptions { status, ..StoreOptions::default() };
                    granted(store.store("a", body, options).await);
                }
                "bridge_write" => {
                    let options = StoreOptions { force_draft: true, ..StoreOptions::default() };
                    granted(store.store("a", body, options).await);
                }
                other => panic!("{id}: {other}"),
            }
            let loaded = granted(store.load("a", None).await);
            let place = format!("{id} in {}", store.implementation());
            assert_eq!(loaded.source, text(ours, "source"), "{place}");
            assert_eq!(loaded.metadata.status.as_str(), text(ours, "status"), "{place}");
            let verdict = check_approval(&loaded.source, ApprovalMode::Open);
            let passes = matches!(verdict, ApprovalVerdict::Approved { .. });
            assert_eq!(Some(passes), ours["gate_ok"].as_bool(), "{place}");
            granted(store.delete("a").await);
        }
    }
}

#[tokio::test]
async fn a_folder_keeps_the_status_on_overwrite_but_a_forced_draft_beats_it() {
    let stores = Stores::open().await;
    let approved = "# Skill: a\n# Status: Approved\n";
    granted(stores.filesystem.store("a", approved, StoreOptions::default()).await);
    let kept =
        granted(stores.filesystem.store("a", "# Skill: a\n# Status: Draft\n", StoreOptions::default()).await);
    assert_eq!(kept.status, Status::Approved);
    let forced = StoreOptions { force_draft: true, ..StoreOptions::default() };
    assert_eq!(granted(stores.filesystem.store("a", approved, forced).await).status, Status::Draft);
}
