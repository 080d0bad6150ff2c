//! Data databases of the reference runtime: opening, recognising others, and searching.

use std::path::Path;
use std::sync::Arc;

use ledger::{DataDatabase, DataDatabaseFound, DataDatabaseRow, OpenedDataDatabase, TextQuery};
use posthouse_time::Timepiece;

use crate::book::START;

async fn open(file: &Path) -> Result<DataDatabase, String> {
    match DataDatabase::open(file.to_owned(), Arc::default(), Timepiece::wound(START)).await.unwrap() {
        OpenedDataDatabase::Opened(database) => Ok(database),
        OpenedDataDatabase::OtherShape(why) => Err(why),
    }
}

async fn finds(database: &DataDatabase, text: &str, tags: Option<&[String]>) -> Vec<String> {
    match database.search(&TextQuery::read(text), tags, 10).await.unwrap() {
        DataDatabaseFound::Found(rows) => rows.into_iter().map(|row| row.id).collect(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn entries_of_an_existing_file_are_found_and_tags_of_old_files_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data.db");
    // As the reference made it before it had a table of tags.
    let old = rusqlite::Connection::open(&file).unwrap();
    old.execute_batch(
        "CREATE TABLE memories (id TEXT PRIMARY KEY, summary TEXT NOT NULL, detail TEXT, tags TEXT,
           created_at INTEGER NOT NULL, metadata TEXT);
         CREATE VIRTUAL TABLE memories_fts USING fts5(summary, detail, content='memories', content_rowid='rowid');
         INSERT INTO memories VALUES ('old', 'Harbour', 'Harbour and sea', '[\"sea\"]', 5, NULL),
           ('odd', 'Odd', NULL, 'no json', 6, '{\"expires_at\":1}');
         INSERT INTO memories_fts(memories_fts) VALUES ('rebuild');",
    )
    .unwrap();
    drop(old);
    let database = open(&file).await.unwrap();
    let sea = ["sea".to_owned()];
    assert_eq!(finds(&database, "harbour", None).await, ["old"]);
    assert_eq!(finds(&database, "", Some(&sea)).await, ["old"]);
    assert_eq!(finds(&database, "", None).await, ["odd", "old"]);
    let new = DataDatabaseRow {
        id: "new".to_owned(),
        summary: "sea".to_owned(),
        detail: Some("sea and harbour".to_owned()),
        tags: Some("[\"sea\"]".to_owned()),
        created: 7,
        metadata: None,
        score: None,
    };
    database.insert(new.clone(), sea.to_vec()).await.unwrap();
    assert_eq!(database.row("new").await.unwrap(), Some(new));
    assert_eq!(finds(&database, "sea harbour", Some(&sea)).await.len(), 2);
    assert_eq!(database.row("none").await.unwrap(), None);
    let wrong = database.search(&TextQuery::read("raw:("), None, 1).await.unwrap();
    assert!(matches!(wrong, DataDatabaseFound::BadExpression(_)), "{wrong:?}");
}

#[tokio::test]
async fn a_file_of_another_shape_is_refused_in_words_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    for (name, tables, why) in [
        ("skills.db", "CREATE TABLE skills (name TEXT)", "has no table 'memories'"),
        ("less.db", "CREATE TABLE memories (id TEXT PRIMARY KEY, summary TEXT)", "has no column 'detail'"),
    ] {
        let file = folder.path().join(name);
        rusqlite::Connection::open(&file).unwrap().execute_batch(tables).unwrap();
        let before = std::fs::read(&file).unwrap();
        let refused = open(&file).await.err().unwrap();
        assert!(refused.contains(why), "{refused}");
        assert_eq!(std::fs::read(&file).unwrap(), before);
    }
    let text = folder.path().join("text.db");
    std::fs::write(&text, "not a database, and long enough to be seen as none".repeat(30)).unwrap();
    assert!(open(&text).await.err().unwrap().contains("not a SQLite database"));
}
