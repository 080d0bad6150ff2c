//! The tables of the reference runtime 0.39 for data: creating them, and recognising other ones.

use rusqlite::Connection;

use crate::skill_database::shape::{NOT_SQLITE, problem_of_table, tables};

/// As the reference creates them. What exists stays as it is. Files from before there was a table of tags get one, with
/// the tags that their entries have.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS memories (
      id TEXT PRIMARY KEY,
      summary TEXT NOT NULL,
      detail TEXT,
      tags TEXT,
      created_at INTEGER NOT NULL,
      metadata TEXT
    );
    CREATE VIRTUAL TABLE IF NOT EXISTS memories_fts USING fts5(
      summary, detail, content='memories', content_rowid='rowid'
    );
    CREATE TRIGGER IF NOT EXISTS memories_ai AFTER INSERT ON memories BEGIN
      INSERT INTO memories_fts(rowid, summary, detail) VALUES (new.rowid, new.summary, new.detail);
    END;
    CREATE TRIGGER IF NOT EXISTS memories_ad AFTER DELETE ON memories BEGIN
      INSERT INTO memories_fts(memories_fts, rowid, summary, detail)
      VALUES('delete', old.rowid, old.summary, old.detail);
    END;
    CREATE TRIGGER IF NOT EXISTS memories_au AFTER UPDATE ON memories BEGIN
      INSERT INTO memories_fts(memories_fts, rowid, summary, detail)
      VALUES('delete', old.rowid, old.summary, old.detail);
      INSERT INTO memories_fts(rowid, summary, detail) VALUES (new.rowid, new.summary, new.detail);
    END;
    CREATE TABLE IF NOT EXISTS memory_tags (
      memory_id TEXT NOT NULL,
      tag TEXT NOT NULL,
      PRIMARY KEY (memory_id, tag),
      FOREIGN KEY (memory_id) REFERENCES memories(id) ON DELETE CASCADE
    );
    CREATE INDEX IF NOT EXISTS memory_tags_tag_idx ON memory_tags(tag);
    INSERT OR IGNORE INTO memory_tags (memory_id, tag)
      SELECT m.id, je.value FROM memories m, json_each(m.tags) je
      WHERE json_valid(m.tags) AND NOT EXISTS (SELECT 1 FROM memory_tags);";

/// Each table with its columns, those of the primary key first, and the length of the primary key.
const SHAPES: [(&str, &[&str], usize); 2] = [
    ("memories", &["id", "summary", "detail", "tags", "created_at", "metadata"], 1),
    ("memory_tags", &["memory_id", "tag"], 2),
];

pub(super) fn create_tables(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(&format!("BEGIN IMMEDIATE; {TABLES} COMMIT;"))
}

/// Why this is not a data database, or None if it is one or empty.
pub(super) fn problem(db: &Connection) -> rusqlite::Result<Option<String>> {
    let Some(tables) = tables(db)? else { return Ok(Some(NOT_SQLITE.to_owned())) };
    if tables.is_empty() {
        return Ok(None);
    }
    if !tables.iter().any(|found| found == "memories") {
        return Ok(Some("this database has no table 'memories', so it is not a data database".to_owned()));
    }
    for (table, columns, key) in SHAPES {
        if tables.iter().any(|found| found == table)
            && let Some(problem) = problem_of_table(db, table, columns, key)?
        {
            return Ok(Some(format!(
                "the table '{table}' {problem}; data databases of the reference runtime 0.39 can be opened"
            )));
        }
    }
    Ok(None)
}
