use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use async_trait::async_trait;
use rusqlite::OptionalExtension;

use super::{Sqlite, prune};
use crate::{Fault, House};

#[async_trait]
impl House for Sqlite {
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
        let now = self.timepiece.now();
        self.write(move |db| prune::a_little(db, now)).await
    }

    async fn backup(&self, to: &Path) -> Result<(), Fault> {
        if self.pool.is_none() {
            return Err(Fault::Storage("a ledger in memory has no backup".to_owned()));
        }
        let to = std::path::absolute(to).map_err(|error| trouble(to, &error))?;
        let target = to
            .to_str()
            .ok_or_else(|| Fault::Storage("the backup's name is not UTF-8".to_owned()))?
            .to_owned();
        // Made here, empty, so that nobody else's file is ever written over and only its owner reads it.
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&to)
            .map_err(|error| trouble(&to, &error))?;
        // A reader's snapshot: the writer goes on meanwhile.
        let copied = self.read(move |db| db.execute("VACUUM INTO ?1", [&target]).map(drop)).await;
        match copied {
            Ok(()) => tokio::task::spawn_blocking(move || file.sync_all())
                .await
                .map_err(|_| Fault::Closed)?
                .map_err(|error| trouble(&to, &error)),
            Err(fault) => {
                // Half a backup would be taken for a whole one.
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
