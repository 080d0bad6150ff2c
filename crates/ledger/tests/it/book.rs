//! Test fixture: a ledger with its clock and folder, and the verbs of the tests.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use ledger::{
    Acknowledgement, Append, Appended, Bot, BotRef, Created, Discriminator, ExpiringHash, Generation,
    InboxLimits, Instance, Invitation, Ledger, Location, Route, Sealed, Seq, Sighting, Tenant,
};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::{EntryId, GatewayId, InstanceId};
use tempfile::TempDir;

/// Runs each test once in memory and once in a folder.
macro_rules! stories {
    ($(async fn $name:ident($book:ident) $body:block)*) => {$(
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            async fn story($book: crate::book::Book) $body

            #[tokio::test]
            async fn in_memory() {
                story(crate::book::Book::in_memory().await).await;
            }

            #[tokio::test]
            async fn in_a_folder() {
                story(crate::book::Book::in_a_folder().await).await;
            }
        }
    )*};
}

pub const START: Moment = Moment::from_millis(1_765_000_000_000);

pub struct Book {
    pub ledger: Ledger,
    pub clock: Timepiece,
    folder: Option<TempDir>,
}

impl Book {
    pub async fn in_memory() -> Self {
        let clock = Timepiece::wound(START);
        let ledger = Ledger::open(Location::Memory, clock.clone()).await.unwrap();
        Self { ledger, clock, folder: None }
    }

    /// Another ledger in memory with the same clock.
    pub async fn new_beside(&self) -> Self {
        let ledger = Ledger::open(Location::Memory, self.clock.clone()).await.unwrap();
        Self { ledger, clock: self.clock.clone(), folder: None }
    }

    pub async fn in_a_folder() -> Self {
        let clock = Timepiece::wound(START);
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(Location::Folder(folder.path().to_owned()), clock.clone()).await.unwrap();
        Self { ledger, clock, folder: Some(folder) }
    }

    /// Invites the person to every agent of this agent's tenant, as `inv_PERSON`.
    pub async fn invites(&self, of: &InstanceId, person: &str) {
        let tenant = self.ledger.roster().instance(of).await.unwrap().unwrap().tenant;
        let invitation = Invitation {
            id: format!("inv_{person}").into(),
            tenant,
            agents: None,
            person: person.to_owned(),
            owner: false,
            created: self.clock.now(),
        };
        let link = ExpiringHash { hash: format!("link of {person}"), expires: self.clock.now() + minutes(1) };
        self.ledger.invitations().invite(invitation, link).await.unwrap();
    }

    pub fn folder(&self) -> &Path {
        self.folder.as_ref().expect("this story is told in a folder").path()
    }

    pub fn file(&self) -> PathBuf {
        self.folder().join("ledger.db")
    }

    /// Reads the file as another program.
    pub fn beside(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.file()).unwrap()
    }

    /// Closes the ledger and opens it again.
    pub async fn reopened(self) -> Self {
        let now = self.clock.now();
        self.reopened_at(now).await
    }

    /// Closes the ledger, changes its folder, and opens the ledger again.
    pub async fn reopened_with(self, change: impl FnOnce()) -> Self {
        let Self { ledger, clock, folder } = self;
        drop(ledger);
        change();
        let place =
            Location::Folder(folder.as_ref().expect("this story is told in a folder").path().to_owned());
        let ledger = Ledger::open(place, clock.clone()).await.unwrap();
        Self { ledger, clock, folder }
    }

    /// Closes the ledger, sets the wall clock, and opens the ledger again.
    pub async fn reopened_at(self, wall: Moment) -> Self {
        let Self { ledger, clock, folder } = self;
        drop(ledger);
        clock.set(wall);
        let place =
            Location::Folder(folder.as_ref().expect("this story is told in a folder").path().to_owned());
        let ledger = Ledger::open(place, clock.clone()).await.unwrap();
        Self { ledger, clock, folder }
    }

    pub fn letter(&self, to: &str, word: &str) -> Append {
        Append {
            to: to.into(),
            platform: "telegram".into(),
            bot: "tb".into(),
            chat: "chat-1".into(),
            message: Some(word.into()),
            dedup: word.into(),
            event: Bytes::from(word.to_owned()),
            references: Vec::new(),
            album: None,
            forward: None,
            accepted: self.clock.now(),
            sighting: None,
            receipt: None,
            id: None,
            sender: None,
            limits: InboxLimits::NONE,
            stale: None,
            turn: Default::default(),
        }
    }

    pub fn sighted(&self, to: &str, word: &str, scope: Option<&str>, keys: &[&str]) -> Append {
        let sighting = Sighting {
            scope: scope.map(Into::into),
            session_keys: keys.iter().map(|key| (*key).into()).collect(),
        };
        Append { sighting: Some(sighting), ..self.letter(to, word) }
    }

    pub async fn keeps(&self, to: &str, word: &str) -> EntryId {
        self.keeps_letter(self.letter(to, word)).await
    }

    pub async fn keeps_letter(&self, letter: Append) -> EntryId {
        match self.ledger.inbox().append(letter).await.unwrap() {
            Appended::Kept(entry) => entry,
            other => panic!("{other:?}"),
        }
    }

    pub async fn unread(&self, of: &str) -> Vec<String> {
        let entries = self.ledger.inbox().unread(&of.into(), Seq(0), 1000).await.unwrap();
        entries.into_iter().map(|entry| String::from_utf8(entry.event.to_vec()).unwrap()).collect()
    }

    /// Number of entries that it deleted.
    pub async fn acknowledges(&self, of: &str, entries: &[&EntryId]) -> i64 {
        let handed = self.clock.now();
        let taken = |entry: &&EntryId| Acknowledgement { entry: (*entry).clone(), handed, place: None };
        let taken = entries.iter().map(taken).collect();
        self.ledger.inbox().acknowledge(&of.into(), taken).await.unwrap().entries
    }

    /// The steps in the trace of an entry; none when it no longer exists.
    pub async fn steps(&self, of: &EntryId) -> Vec<&'static str> {
        let story = self.ledger.traces().entry(of).await.unwrap();
        story.map(|story| story.steps.iter().map(|step| step.what).collect()).unwrap_or_default()
    }

    pub fn winds(&self, by: Duration) {
        self.clock.wind(by);
    }

    /// Prunes until nothing is left to prune, and returns the number of calls.
    pub async fn prunes(&self) -> usize {
        let mut calls = 1;
        while self.ledger.facts().prune().await.unwrap() {
            calls += 1;
        }
        calls
    }

    pub async fn tenant(&self, name: &str) -> Created {
        let tenant =
            Tenant { id: format!("ten_{name}").into(), name: name.to_owned(), created: self.clock.now() };
        self.ledger.roster().create_tenant(tenant).await.unwrap()
    }

    pub fn agent(&self, tenant: &str, name: &str) -> Instance {
        Instance {
            id: format!("inst_{tenant}_{name}").into(),
            tenant: format!("ten_{tenant}").into(),
            name: name.to_owned(),
            wake_url: None,
            callback_url: None,
            generation: Generation::Auto,
            idle: false,
            created: self.clock.now(),
        }
    }

    /// Creates the tenant too, if needed.
    pub async fn enrols(&self, tenant: &str, name: &str) -> InstanceId {
        self.tenant(tenant).await;
        let agent = self.agent(tenant, name);
        let id = agent.id.clone();
        assert_eq!(self.ledger.roster().create_instance(agent).await.unwrap(), Created::Made);
        id
    }

    /// A credential of an agent.
    pub async fn gateway(&self, of: &InstanceId, id: &str) -> GatewayId {
        let (gateway, now) = (GatewayId::new(id), self.clock.now());
        let sealed = Sealed { key_id: "k1".to_owned(), blob: id.into() };
        assert!(self.ledger.vault().issue(&gateway, of, sealed, now, now).await.unwrap());
        gateway
    }

    pub async fn bot(&self, id: &str, shared: bool) -> Created {
        let bot = Bot {
            platform: "telegram".into(),
            id: id.into(),
            shared,
            principals: ledger::PrincipalPolicy::default(),
            settings: "{}".to_owned(),
            created: self.clock.now(),
        };
        self.ledger.roster().create_bot(bot).await.unwrap()
    }

    pub async fn routes(&self, bot: &str, which: &str, to: &InstanceId) -> Created {
        let route = Route {
            platform: "telegram".into(),
            bot: bot.into(),
            discriminator: which.parse().unwrap(),
            instance: to.clone(),
            created: self.clock.now(),
            profile: None,
        };
        self.ledger.roster().create_route(route).await.unwrap()
    }

    /// The agent that an event with these discriminators is for.
    pub async fn owner(&self, bot: &str, candidates: &[&str]) -> Option<InstanceId> {
        let candidates: Vec<Discriminator> = candidates.iter().map(|which| which.parse().unwrap()).collect();
        let found = self.ledger.roster().route(&on(bot), &candidates).await.unwrap();
        found.map(|to| to.instance)
    }
}

pub fn on(bot: &str) -> BotRef {
    BotRef { platform: "telegram".into(), bot: bot.into() }
}

pub const fn minutes(count: u64) -> Duration {
    Duration::from_secs(count * 60)
}

pub const fn hours(count: u64) -> Duration {
    minutes(count * 60)
}

pub const fn days(count: u64) -> Duration {
    hours(count * 24)
}
