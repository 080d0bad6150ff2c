//! Skills in a folder: links, files of others, cut histories, interrupted writes, folders that cannot be written.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use skill::Status;
use workshop::{SkillFilter, SkillStore, StoreOptions};

use crate::conformance::{by, plain};
use crate::fixtures::{Stores, granted, refused};
use crate::privileges::was_run_without_privileges;

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
    if was_run_without_privileges("filesystem::a_folder_that_cannot_be_written_is_refused_and_loses_nothing")
    {
        return;
    }
    let stores = Stores::open().await;
    let (store, root) = (&stores.filesystem, stores.root());
    granted(store.store("note", "text", plain()).await);
    fs::set_permissions(&root, fs::Permissions::from_mode(0o555)).unwrap();
    assert_eq!(refused(store.store("note", "new", plain()).await).reason.code(), "read_only");
    assert_eq!(refused(store.store("other", "new", plain()).await).reason.code(), "read_only");
    assert_eq!(refused(store.update_status("note", Status::Approved, None).await).reason.code(), "read_only");
    assert_eq!(refused(store.delete("note").await).reason.code(), "read_only");
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(granted(store.load("note", None).await).source, "text");
    assert_eq!(granted(store.versions("note").await).len(), 1);
    assert_eq!(left_over(&stores), [""; 0]);
}

#[tokio::test]
async fn a_file_in_the_place_of_the_folder_refuses_writes() {
    let stores = Stores::open().await;
    let (store, root, aside) = (&stores.filesystem, stores.root(), stores.folder.path().join("aside"));
    granted(store.store("note", "text", plain()).await);
    fs::rename(&root, &aside).unwrap();
    fs::write(&root, "").unwrap();
    assert_eq!(refused(store.store("note", "new", plain()).await).reason.code(), "read_only");
    assert_eq!(refused(store.store("other", "new", plain()).await).reason.code(), "read_only");
    fs::remove_file(&root).unwrap();
    fs::rename(&aside, &root).unwrap();
    assert_eq!(granted(store.load("note", None).await).source, "text");
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

/// The folder of a store as a write leaves it that is interrupted at one of its steps.
struct InterruptedWrite {
    has_line: bool,
    has_text: bool,
}

impl InterruptedWrite {
    /// The write from the text `one` to the text `two`. The store is opened again afterwards.
    async fn leaves(self) -> Stores {
        let stores = Stores::open().await;
        granted(stores.filesystem.store("note", "one", by("ann")).await);
        let one = granted(stores.filesystem.metadata("note").await);
        let history = fs::read(stores.root().join("note.versions.jsonl")).unwrap();
        granted(stores.filesystem.store("note", "two", by("ann")).await);
        let two = granted(stores.filesystem.metadata("note").await);
        let text = stores.root().join("note.skill.md");
        if !self.has_text {
            let temporary = format!(".note.{}-{}.tmp", one.version, two.version);
            fs::rename(&text, stores.root().join(temporary)).unwrap();
            fs::write(&text, "one").unwrap();
        }
        if !self.has_line {
            fs::write(stores.root().join("note.versions.jsonl"), history).unwrap();
        }
        stores.reopened()
    }
}

#[tokio::test]
async fn an_interrupted_write_is_there_wholly_or_not_at_all() {
    let before = InterruptedWrite { has_line: false, has_text: false };
    let between = InterruptedWrite { has_line: true, has_text: false };
    let after = InterruptedWrite { has_line: true, has_text: true };
    for (write, text, lines) in [(before, "one", 1), (between, "two", 2), (after, "two", 2)] {
        let stores = write.leaves().await;
        let history = granted(stores.filesystem.versions("note").await);
        let loaded = granted(stores.filesystem.load("note", None).await);
        assert_eq!((loaded.source.as_str(), history.len()), (text, lines));
        assert_eq!(history.last().unwrap().version, loaded.version);
        assert_eq!(left_over(&stores), [""; 0]);
        granted(stores.filesystem.store("note", "three", plain()).await);
        assert_eq!(granted(stores.filesystem.versions("note").await).len(), lines + 1);
    }
}

#[tokio::test]
async fn a_new_skill_whose_write_was_interrupted_is_there_wholly() {
    let stores = Stores::open().await;
    granted(stores.filesystem.store("note", "one", by("ann")).await);
    let version = granted(stores.filesystem.metadata("note").await).version;
    let root = stores.root();
    fs::rename(root.join("note.skill.md"), root.join(format!(".note.new-{version}.tmp"))).unwrap();
    let stores = stores.reopened();
    assert_eq!(granted(stores.filesystem.load("note", None).await).source, "one");
    assert_eq!(granted(stores.filesystem.metadata("note").await).author.as_deref(), Some("ann"));
}

#[tokio::test]
async fn an_interrupted_write_never_replaces_what_somebody_wrote_later() {
    let stores = InterruptedWrite { has_line: true, has_text: false }.leaves().await;
    fs::write(stores.root().join("note.skill.md"), "by hand").unwrap();
    assert_eq!(granted(stores.filesystem.load("note", None).await).source, "by hand");
    assert_eq!(left_over(&stores), [""; 0]);
    // Nor does a temporary file whose text is cut.
    let stores = InterruptedWrite { has_line: true, has_text: false }.leaves().await;
    let temporary = left_over(&stores).pop().unwrap();
    fs::write(stores.root().join(temporary), "t").unwrap();
    assert_eq!(granted(stores.filesystem.load("note", None).await).source, "one");
}

#[tokio::test]
async fn an_interrupted_deletion_leaves_no_history_for_the_next_skill_of_that_name() {
    let stores = Stores::open().await;
    granted(stores.filesystem.store("note", "one", by("ann")).await);
    fs::remove_file(stores.root().join("note.skill.md")).unwrap();
    let stores = stores.reopened();
    assert_eq!(refused(stores.filesystem.versions("note").await).reason.code(), "skill_not_found");
    granted(stores.filesystem.store("note", "two", by("bob")).await);
    assert_eq!(granted(stores.filesystem.versions("note").await).len(), 1);
    assert_eq!(granted(stores.filesystem.metadata("note").await).author.as_deref(), Some("bob"));
}

#[tokio::test]
async fn the_history_of_a_deleted_skill_never_becomes_that_of_an_interrupted_new_one() {
    let stores = Stores::open().await;
    granted(stores.filesystem.store("note", "one", by("ann")).await);
    granted(stores.filesystem.store("note", "two", by("ann")).await);
    let version = granted(stores.filesystem.metadata("note").await).version;
    // The deletion removed the text only, and the new skill has the text that was deleted.
    let root = stores.root();
    fs::rename(root.join("note.skill.md"), root.join(format!(".note.new-{version}.tmp"))).unwrap();
    let stores = stores.reopened();
    assert_eq!(refused(stores.filesystem.load("note", None).await).reason.code(), "skill_not_found");
    assert_eq!(left_over(&stores), [""; 0]);
    // Deleting it again removes the rest.
    assert_eq!(refused(stores.filesystem.delete("note").await).reason.code(), "skill_not_found");
    assert!(!root.join("note.versions.jsonl").exists());
}

/// Temporary files in the folder.
fn left_over(stores: &Stores) -> Vec<String> {
    let entries = fs::read_dir(stores.root()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".tmp")).collect()
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
