//! Forward-only steps, run at start. A newer schema than this program's is refused in words.

use rusqlite::{Connection, OptionalExtension};

use crate::Fault;

/// In order; a step that has shipped is never changed, only followed by another.
const STEPS: &[&str] = &[
    include_str!("migrations/0001_house.sql"),
    include_str!("migrations/0002_tokens.sql"),
    include_str!("migrations/0003_signing_keys.sql"),
    include_str!("migrations/0004_arms.sql"),
    include_str!("migrations/0005_receipts.sql"),
    include_str!("migrations/0006_connectors.sql"),
    include_str!("migrations/0007_alarms.sql"),
    include_str!("migrations/0008_audit_and_edits.sql"),
];

pub(super) fn run(db: &mut Connection) -> Result<(), Fault> {
    let known = STEPS.len() as i64;
    let found: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if found > known {
        return Err(Fault::Newer { found, known });
    }
    for (step, sql) in (1..).zip(STEPS).skip(usize::try_from(found).unwrap_or(0)) {
        let together = db.transaction()?;
        together.execute_batch(sql)?;
        together.execute(
            "INSERT INTO facts (name, value) VALUES (?1, ?2)",
            (format!("migration.{step}"), checksum(sql)),
        )?;
        together.pragma_update(None, "user_version", step)?;
        together.commit()?;
    }
    for (step, sql) in (1..=found).zip(STEPS) {
        let recorded: Option<String> = db
            .query_row("SELECT value FROM facts WHERE name = ?1", [format!("migration.{step}")], |row| {
                row.get(0)
            })
            .optional()?;
        if recorded.as_deref() != Some(&checksum(sql)) {
            return Err(Fault::Altered { step });
        }
    }
    Ok(())
}

/// FNV-1a: this guards against a mistake of ours, not against anybody.
fn checksum(sql: &str) -> String {
    let hash = sql.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
