//! Skills in a folder: links, files of others, cut histories, folders that cannot be written.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use skill::Status;
use workshop::{SkillFilter, SkillStore, StoreOptions};

use crate::conformance::{by, plain};
use crate::fixtures::{Stores, granted, refused};

#[tokio::test]
async fn an_existing_folder_just_works() {
    let stores = Stores::open().await;
    fs::create_dir(stores.root()).unwrap();
    fs::write(stores.root().join("note.skill.md"), "# Skill: note\n# Status: Approved\n").unwrap();
    fs::write(stores.root().join("README.md"), "text").unwrap();
    fs::write(stores.root().join("note.skill"), "compiled").unwrap();
    fs::write(stores.root().join("bytes.skill.md"), [0xff, 0xfe]).unwrap();
    fs::write(stores.root().join("-x.skill.md"), "a bad name").unwrap();
    fs::create_dir(stores.root().join("folder.skill.md")).unwrap();
    let store = &stores.filesystem;
    let listed = granted(store.query(&SkillFilter::default()).await);
    assert_eq!(listed.iter().map(|skill| skill.name.as_str()).collect::<Vec<_>>(), ["note"]);
    assert_eq!((listed[0].status, &listed[0].author), (Status::Approved, &None));
    assert_eq!(granted(store.versions("note").await).len(), 1, "a line is made of the file");
    assert_eq!(refused(store.load("bytes", None).await).reason.code(), "unreadable");
    assert_eq!(refused(store.load("folder", None).await).reason.code(), "skill_not_found");
    granted(store.store("note", "# Skill: note\n# Status: Draft\n", by("ann")).await);
    assert_eq!(granted(store.metadata("note").await).status, Status::Approved, "the status is kept");
    assert_eq!(granted(store.metadata("note").await).author.as_deref(), Some("ann"));
}

#[tokio::test]
async fn a_link_is_never_followed() {
    let stores = Stores::open().await;
    let store = &stores.filesystem;
    granted(store.store("note", "text", plain()).await);
    let secret = stores.folder.path().join("secret");
    fs::write(&secret, "# Skill: secret\n").unwrap();
    symlink(&secret, stores.root().join("evil.skill.md")).unwrap();
    symlink(&secret, stores.root().join("note2.versions.jsonl")).unwrap();
    assert_eq!(refused(store.load("evil", None).await).reason.code(), "skill_not_found");
    assert_eq!(refused(store.delete("evil").await).reason.code(), "skill_not_found");
    assert_eq!(granted(store.query(&SkillFilter::default()).await).len(), 1);
    // A write takes the place of the link.
    granted(store.store("evil", "own", plain()).await);
    assert_eq!(granted(store.load("evil", None).await).source, "own");
    assert_eq!(refused(store.store("note2", "text", plain()).await).reason.code(), "read_only");
    assert_eq!(fs::read_to_string(&secret).unwrap(), "# Skill: secret\n");
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_refused_and_loses_nothing() {
    let stores = Stores::open().await;
    let store = &stores.filesystem;
    granted(store.store("note", "text", plain()).await);
    let (root, aside) = (stores.root(), stores.folder.path().join("aside"));
    fs::set_permissions(&root, fs::Permissions::from_mode(0o555)).unwrap();
    // The superuser may write everywhere, so for them a file takes the place of the folder.
    let may_write = fs::write(root.join("probe"), "").is_ok();
    if may_write {
        fs::rename(&root, &aside).unwrap();
        fs::write(&root, "").unwrap();
    }
    assert_eq!(refused(store.store("note", "new", plain()).await).reason.code(), "read_only");
    assert_eq!(refused(store.store("other", "new", plain()).await).reason.code(), "read_only");
    if may_write {
        fs::remove_file(&root).unwrap();
        fs::rename(&aside, &root).unwrap();
    } else {
        assert_eq!(
            refused(store.update_status("note", Status::Approved, None).await).reason.code(),
            "read_only"
        );
        assert_eq!(refused(store.delete("note").await).reason.code(), "read_only");
    }
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(granted(store.load("note", None).await).source, "text");
    assert_eq!(granted(store.versions("note").await).len(), 1);
    let left: Vec<_> = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().ends_with(".tmp")), "{left:?}");
}

#[tokio::test]
async fn a_line_that_a_crash_cut_is_skipped_and_spoils_no_later_one() {
    let stores = Stores::open().await;
    let store = &stores.filesystem;
    granted(store.store("note", "one", by("ann")).await);
    let history = stores.root().join("note.versions.jsonl");
    let cut = fs::read_to_string(&history).unwrap() + "{\"name\":\"note\",\"ver";
    fs::write(&history, cut).unwrap();
    granted(store.store("note", "two", plain()).await);
    assert_eq!(granted(store.versions("note").await).len(), 2);
    assert_eq!(granted(store.metadata("note").await).author.as_deref(), Some("ann"));
}

#[tokio::test]
async fn a_folder_keeps_no_metadata_bag_and_says_so() {
    let stores = Stores::open().await;
    let bag = serde_json::json!({"tags": ["red"]}).as_object().cloned();
    let options = StoreOptions { metadata_bag: bag, ..plain() };
    assert_eq!(
        refused(stores.filesystem.store("note", "x", options).await).reason.code(),
        "storage_conflict"
    );
}
