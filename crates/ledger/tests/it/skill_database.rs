//! Skill databases of the reference runtime: opening, recognising others, and writing over what was read.

use std::path::Path;
use std::sync::Arc;

use ledger::{OpenedSkillDatabase, SkillDatabase, SkillDatabaseRow, SkillVersionRow};

async fn open(file: &Path) -> Result<SkillDatabase, String> {
    match SkillDatabase::open(file.to_owned(), Arc::default()).await.unwrap() {
        OpenedSkillDatabase::Opened(database) => Ok(database),
        OpenedSkillDatabase::OtherShape(why) => Err(why),
    }
}

fn row(name: &str, version: &str) -> SkillDatabaseRow {
    SkillDatabaseRow {
        name: name.to_owned(),
        version: version.to_owned(),
        content_hash: version.repeat(2),
        status: "Draft".to_owned(),
        source: format!("text {version}"),
        description: None,
        metadata: None,
        created: 1,
        updated: 2,
        status_changed: Some(2),
    }
}

fn line(row: &SkillDatabaseRow, changed_by: Option<&str>) -> SkillVersionRow {
    SkillVersionRow {
        version: row.version.clone(),
        content_hash: row.content_hash.clone(),
        status: row.status.clone(),
        previous_status: None,
        changed: 2,
        changed_by: changed_by.map(str::to_owned),
    }
}

#[tokio::test]
async fn a_row_is_replaced_only_as_it_was_read() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder.path().join("new/skills.db")).await.unwrap();
    let (one, two) = (row("note", "one"), row("note", "two"));
    assert!(database.replace(None, one.clone(), line(&one, Some("ann"))).await.unwrap());
    assert!(!database.replace(None, two.clone(), line(&two, None)).await.unwrap());
    assert!(database.replace(Some(one.clone()), two.clone(), line(&two, None)).await.unwrap());
    assert!(!database.replace(Some(one.clone()), two.clone(), line(&two, None)).await.unwrap());
    assert_eq!(database.row("note").await.unwrap(), Some(two.clone()));
    let versions = database.versions("note").await.unwrap();
    assert_eq!(versions, [line(&one, Some("ann")), line(&two, None)]);
    let old = database.version_source("note", "one").await.unwrap();
    assert_eq!(old, Some((one.content_hash, one.source)));
    assert_eq!(database.rows(None, 10).await.unwrap(), [two]);
    assert!(database.delete("note").await.unwrap() && !database.delete("note").await.unwrap());
    assert_eq!(database.versions("note").await.unwrap(), []);
}

#[tokio::test]
async fn a_file_of_another_shape_is_refused_in_words_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let skills = "CREATE TABLE skills (name TEXT PRIMARY KEY, current_version TEXT NOT NULL, content_hash TEXT,
        status TEXT, source TEXT, description TEXT, metadata_json TEXT, created_at INTEGER, updated_at INTEGER,
        status_changed_at INTEGER";
    let versions = "CREATE TABLE skill_versions (name TEXT, version TEXT, content_hash TEXT, source TEXT,
        status TEXT, previous_status TEXT, changed_at INTEGER, changed_by TEXT";
    let shapes = [
        ("CREATE TABLE people (id INTEGER)".to_owned(), "no table 'skills'"),
        (format!("{skills})"), "no table 'skill_versions'"),
        (format!("{skills}); {versions})"), "another primary key than (name, version)"),
        (
            format!("{skills}, owner TEXT NOT NULL); {versions}, PRIMARY KEY (name, version))"),
            "unknown column 'owner'",
        ),
        (
            "CREATE TABLE skills (name TEXT PRIMARY KEY); CREATE TABLE skill_versions (name TEXT)".to_owned(),
            "has no column 'current_version'",
        ),
    ];
    for (number, (tables, expected)) in shapes.iter().enumerate() {
        let file = folder.path().join(format!("{number}.db"));
        rusqlite::Connection::open(&file).unwrap().execute_batch(tables).unwrap();
        let before = std::fs::read(&file).unwrap();
        let why = open(&file).await.err().unwrap();
        assert!(why.contains(expected), "{why}");
        assert_eq!(std::fs::read(&file).unwrap(), before);
    }
    let text = folder.path().join("text.db");
    std::fs::write(&text, "This is a text and not a database, however one looks at it.".repeat(20)).unwrap();
    assert!(open(&text).await.err().unwrap().contains("not a SQLite database"));
    let file = folder.path().join("more.db");
    let extended = format!(
        "{skills}, owner TEXT); {versions}, PRIMARY KEY (name, version)); CREATE TABLE memories (id)"
    );
    rusqlite::Connection::open(&file).unwrap().execute_batch(&extended).unwrap();
    assert!(open(&file).await.is_ok(), "more columns and tables are no harm");
}

/// A runtime whose pool for blocking calls has one thread.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap()
}

#[test]
fn a_locked_file_of_one_tenant_holds_up_neither_another_tenants_file_nor_the_shared_pool() {
    let folder = tempfile::tempdir().unwrap();
    let (locked, free) = (folder.path().join("acme.db"), folder.path().join("zen.db"));
    runtime().block_on(async {
        let (acme, zen) = (open(&locked).await.unwrap(), open(&free).await.unwrap());
        // Another program writes to the file of acme, and takes its time.
        let other = rusqlite::Connection::open(&locked).unwrap();
        other.execute_batch("BEGIN EXCLUSIVE").unwrap();
        let new = row("note", "aaaaaaaaaaaa");
        let first = line(&new, None);
        let mut waiting = tokio::spawn(async move { acme.replace(None, new, first).await });
        // The call has begun when it has been polled once.
        tokio::task::yield_now().await;
        // A long line of an agent, for example.
        tokio::task::spawn_blocking(|| ()).await.unwrap();
        assert_eq!(zen.row("note").await.unwrap(), None);
        assert!(!waiting.is_finished(), "the others have waited for the lock of acme's file");
        other.execute_batch("COMMIT").unwrap();
        assert!((&mut waiting).await.unwrap().unwrap(), "acme's own call is served when the lock is gone");
    });
}
