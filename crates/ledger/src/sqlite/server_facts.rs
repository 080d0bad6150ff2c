//! Named facts, pruning and backup in SQLite.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::OptionalExtension;

use super::{Sqlite, data, prune};
use crate::{Fault, ServerFacts};

#[async_trait]
impl ServerFacts for Sqlite {
    async fn fact(&self, name: &'static str) -> Result<Option<String>, Fault> {
        self.read(move |db| {
            db.query_row("SELECT value FROM facts WHERE name = ?1", [name], |row| row.get(0)).optional()
        })
        .await
    }

    async fn set_fact(&self, name: &'static str, value: &str) -> Result<(), Fault> {
        let value = value.to_owned();
        self.write(move |db| {
            db.execute(
                "INSERT INTO facts (name, value) VALUES (?1, ?2)
                 ON CONFLICT DO UPDATE SET value = excluded.value",
                [name, &value],
            )
            .map(drop)
        })
        .await
    }

    async fn prune(&self) -> Result<bool, Fault> {
        let (now, clock, usage) = (self.timepiece.now(), self.clock.clone(), Arc::clone(&self.usage));
        let more = self
            .write(move |db| {
                // Ledger time is stored with every round of pruning, so that a killed server loses at most the
                // time since the last one.
                clock.store(db)?;
                let more = data::prune(db, &clock, now)?;
                Ok(prune::delete_some(db, &clock, &usage, now)? || more)
            })
            .await?;
        self.forget_removed_indexes().await?;
        Ok(more)
    }

    fn refusal(&self) -> Option<Fault> {
        self.writer.refusal()
    }

    async fn backup(&self, to: &Path) -> Result<(), Fault> {
        if self.pool.is_none() {
            return Err(Fault::Storage("a ledger in memory cannot be backed up".to_owned()));
        }
        let to = std::path::absolute(to).map_err(|error| trouble(to, &error))?;
        let target = to
            .to_str()
            .ok_or_else(|| Fault::Storage("the name of the backup file is not UTF-8".to_owned()))?
            .to_owned();
        // The file is created here, empty, so that no existing file is overwritten and only its owner can
        // read it.
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&to)
            .map_err(|error| trouble(&to, &error))?;
        // A reader's snapshot is copied, so the writer continues meanwhile.
        let copied = self.read(move |db| db.execute("VACUUM INTO ?1", [&target]).map(drop)).await;
        match copied {
            Ok(()) => tokio::task::spawn_blocking(move || file.sync_all())
                .await
                .map_err(|_| Fault::Closed)?
                .map_err(|error| trouble(&to, &error)),
            Err(fault) => {
                // A partial backup could be mistaken for a complete one.
                let _ = std::fs::remove_file(&to);
                Err(fault)
            }
        }
    }
}

fn trouble(file: &Path, error: &std::io::Error) -> Fault {
    match error.kind() {
        std::io::ErrorKind::StorageFull => Fault::Full,
        _ => Fault::Storage(format!("{}: {error}", file.display())),
    }
}
