//! The tables of the reference runtime 0.39: creating them, and recognising other ones.

use rusqlite::{Connection, ErrorCode};

/// As the reference creates them. What exists stays as it is.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS skills (
      name TEXT PRIMARY KEY,
      current_version TEXT NOT NULL,
      content_hash TEXT NOT NULL,
      status TEXT NOT NULL,
      source TEXT NOT NULL,
      description TEXT,
      metadata_json TEXT,
      created_at INTEGER NOT NULL,
      updated_at INTEGER NOT NULL,
      status_changed_at INTEGER
    );
    CREATE TABLE IF NOT EXISTS skill_versions (
      name TEXT NOT NULL,
      version TEXT NOT NULL,
      content_hash TEXT NOT NULL,
      source TEXT NOT NULL,
      status TEXT NOT NULL,
      previous_status TEXT,
      changed_at INTEGER NOT NULL,
      changed_by TEXT,
      PRIMARY KEY (name, version)
    );
    CREATE INDEX IF NOT EXISTS skills_status_idx ON skills(status);
    CREATE INDEX IF NOT EXISTS skills_updated_at_idx ON skills(updated_at);
    CREATE INDEX IF NOT EXISTS skill_versions_name_idx ON skill_versions(name);";

/// Each table with its columns, those of the primary key first, and the length of the primary key.
const SHAPES: [(&str, &[&str], usize); 2] = [
    (
        "skills",
        &[
            "name",
            "current_version",
            "content_hash",
            "status",
            "source",
            "description",
            "metadata_json",
            "created_at",
            "updated_at",
            "status_changed_at",
        ],
        1,
    ),
    (
        "skill_versions",
        &[
            "name",
            "version",
            "content_hash",
            "source",
            "status",
            "previous_status",
            "changed_at",
            "changed_by",
        ],
        2,
    ),
];

pub(super) fn create_tables(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(TABLES)
}

/// Why this is not a skill database, or None if it is one or empty.
pub(super) fn problem(db: &Connection) -> rusqlite::Result<Option<String>> {
    let Some(tables) = tables(db)? else { return Ok(Some(NOT_SQLITE.to_owned())) };
    if tables.is_empty() {
        return Ok(None);
    }
    for (table, columns, key) in SHAPES {
        if !tables.iter().any(|found| found == table) {
            return Ok(Some(format!("this database has no table '{table}', so it is not a skill database")));
        }
        if let Some(problem) = problem_of_table(db, table, columns, key)? {
            return Ok(Some(format!(
                "the table '{table}' {problem}; skill databases of the reference runtime 0.39 can be opened"
            )));
        }
    }
    Ok(None)
}

/// The text for a file that is not a SQLite database.
pub(crate) const NOT_SQLITE: &str = "this is not a SQLite database";

/// The names of the tables. None if the file is not a SQLite database.
pub(crate) fn tables(db: &Connection) -> rusqlite::Result<Option<Vec<String>>> {
    let tables = db
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        .and_then(|mut tables| tables.query_map([], |row| row.get(0))?.collect());
    match tables {
        Ok(tables) => Ok(Some(tables)),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => Ok(None),
        Err(error) => Err(error),
    }
}

struct FoundColumn {
    name: String,
    must_be_given: bool,
    /// Its place in the primary key, from 1; 0 outside of it.
    key: u32,
}

/// Why a table cannot be used: its columns, those of the primary key first, or its primary key are others.
pub(crate) fn problem_of_table(
    db: &Connection,
    table: &str,
    columns: &[&str],
    key: usize,
) -> rusqlite::Result<Option<String>> {
    let found: Vec<FoundColumn> = db
        .prepare("SELECT name, \"notnull\" AND dflt_value IS NULL, pk FROM pragma_table_info(?1)")?
        .query_map([table], |row| {
            Ok(FoundColumn { name: row.get(0)?, must_be_given: row.get(1)?, key: row.get(2)? })
        })?
        .collect::<rusqlite::Result<_>>()?;
    for (index, column) in columns.iter().enumerate() {
        let Some(found) = found.iter().find(|found| found.name == *column) else {
            return Ok(Some(format!("has no column '{column}'")));
        };
        let place = if index < key { index + 1 } else { 0 };
        if found.key as usize != place {
            return Ok(Some(format!("has another primary key than ({})", columns[..key].join(", "))));
        }
    }
    let unknown = found.iter().find(|found| found.must_be_given && !columns.contains(&found.name.as_str()));
    Ok(unknown.map(|column| format!("needs a value for the unknown column '{}'", column.name)))
}
