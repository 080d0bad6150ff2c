//! Test fixture: the three stores, empty, on a clock that is driven by hand.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ledger::{Ledger, Location, Tenant};
use posthouse_time::{Moment, Timepiece};
use tempfile::TempDir;
use workshop::{
    ApprovalPolicy, FilesystemSettings, FilesystemSkillStore, LedgerSkillStore, OpenedSqlite, SkillStore,
    SqliteSkillStore, StoreAnswer, StoreRefusal,
};

/// The time at which the vectors were recorded.
pub const START: Moment = Moment::from_seconds(1_767_225_600);

/// The author of skills that are written to the folder without one.
pub const OS_USER: &str = "<os-user>";

pub struct Stores {
    pub clock: Timepiece,
    pub ledger: Ledger,
    pub filesystem: FilesystemSkillStore,
    pub sqlite: SqliteSkillStore,
    /// The server's own store.
    pub own: LedgerSkillStore,
    pub folder: TempDir,
}

impl Stores {
    pub async fn open() -> Self {
        Self::open_with(|_| ()).await
    }

    pub async fn open_with(change: impl FnOnce(&mut FilesystemSettings)) -> Self {
        let clock = Timepiece::wound(START);
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(Location::Memory, clock.clone()).await.unwrap();
        for name in ["acme", "globex"] {
            let tenant =
                Tenant { id: format!("ten_{name}").into(), name: name.to_owned(), created: clock.now() };
            ledger.roster().create_tenant(tenant).await.unwrap();
        }
        let mut settings = FilesystemSettings::new(folder.path().join("skills"));
        settings.default_author = Some(OS_USER.to_owned());
        change(&mut settings);
        Self {
            filesystem: FilesystemSkillStore::open(settings, clock.clone()),
            sqlite: opened(folder.path().join("skills.db"), &clock).await.unwrap(),
            own: LedgerSkillStore::open(&ledger, "ten_acme".into(), clock.clone()),
            clock,
            ledger,
            folder,
        }
    }

    /// The same stores, with the folder opened again as after a restart.
    pub fn reopened(mut self) -> Self {
        self.filesystem =
            FilesystemSkillStore::open(FilesystemSettings::new(self.root()), self.clock.clone());
        self
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().join("skills")
    }

    pub fn all(&self) -> [&dyn SkillStore; 3] {
        [&self.filesystem, &self.sqlite, &self.own]
    }

    /// All stores, for a tenant with this approval policy.
    pub fn under(&self, policy: &ApprovalPolicy) -> [Box<dyn SkillStore>; 3] {
        [
            Box::new(self.filesystem.under(policy.clone())),
            Box::new(self.sqlite.under(policy.clone())),
            Box::new(self.own.under(policy.clone())),
        ]
    }

    pub fn winds(&self, seconds: u64) {
        self.clock.wind(Duration::from_secs(seconds));
    }
}

pub async fn opened(file: PathBuf, clock: &Timepiece) -> Result<SqliteSkillStore, String> {
    match SqliteSkillStore::open(file, Arc::default(), clock.clone()).await.unwrap() {
        OpenedSqlite::Opened(store) => Ok(store),
        OpenedSqlite::OtherShape(why) => Err(why),
    }
}

/// The answer of a store that must not refuse.
pub fn granted<T>(answer: StoreAnswer<T>) -> T {
    answer.unwrap().unwrap_or_else(|refusal| panic!("refused: {refusal}"))
}

/// The refusal of a store.
pub fn refused<T: std::fmt::Debug>(answer: StoreAnswer<T>) -> StoreRefusal {
    answer.unwrap().unwrap_err()
}
