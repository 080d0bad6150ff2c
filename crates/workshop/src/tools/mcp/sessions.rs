//! Sessions of MCP clients: which client has which session, in memory.
//!
//! A session belongs to one credential. Its id is no secret that proves anything: a request with the id of somebody
//! else's session is answered as if there were no such session. A client whose session is gone starts another one, so
//! sessions can be dropped at any time, and none survives a restart.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use parking_lot::Mutex;
use posthouse_time::{Instant, Timepiece};
use posthouse_wire::ClientId;

use super::revision::McpRevision;

/// A session that nobody used for this long is dropped.
const IDLE_LIMIT: Duration = Duration::from_secs(24 * 3600);
/// Sessions of one credential. A runtime has one per skill owner.
const LIMIT_PER_CLIENT: usize = 256;
/// Sessions of all credentials, of about 200 bytes each.
const LIMIT: usize = 50_000;

/// All sessions.
pub struct McpSessions {
    timepiece: Timepiece,
    table: Mutex<SessionTable>,
    limits: SessionLimits,
}

struct SessionLimits {
    per_client: usize,
    all: usize,
}

#[derive(Default)]
struct SessionTable {
    by_id: HashMap<String, McpSession>,
    /// By use, the longest unused first: of all clients, and of each one.
    by_use: BTreeMap<u64, String>,
    by_client: HashMap<ClientId, BTreeMap<u64, String>>,
    next_use: u64,
}

struct McpSession {
    client: ClientId,
    revision: McpRevision,
    used: u64,
    used_at: Instant,
}

impl McpSessions {
    pub fn new(timepiece: Timepiece) -> Self {
        Self::limited(timepiece, SessionLimits { per_client: LIMIT_PER_CLIENT, all: LIMIT })
    }

    fn limited(timepiece: Timepiece, limits: SessionLimits) -> Self {
        Self { timepiece, table: Mutex::default(), limits }
    }

    /// Starts a session under this id, which nobody else has. If there are too many, the one is dropped that this client
    /// has not used for the longest time, or, if it has none, that of whoever has not used theirs.
    pub fn start(&self, id: String, client: &ClientId, revision: McpRevision) {
        let now = self.timepiece.instant();
        let mut table = self.table.lock();
        table.drop_idle(now);
        let own = table.by_client.get(client).map_or(0, BTreeMap::len);
        if own >= self.limits.per_client || (own > 0 && table.by_id.len() >= self.limits.all) {
            let oldest = table.by_client.get(client).and_then(|own| own.values().next().cloned());
            oldest.into_iter().for_each(|id| table.remove(&id));
        } else if table.by_id.len() >= self.limits.all {
            let oldest = table.by_use.values().next().cloned();
            oldest.into_iter().for_each(|id| table.remove(&id));
        }
        table.insert(id, client.clone(), revision, now);
    }

    /// The revision of this client's session with this id, which is used now. None if it has no such session.
    pub fn resume(&self, id: &str, client: &ClientId) -> Option<McpRevision> {
        let now = self.timepiece.instant();
        let mut table = self.table.lock();
        table.drop_idle(now);
        let session = table.by_id.get(id).filter(|session| session.client == *client)?;
        let revision = session.revision;
        table.remove(id);
        table.insert(id.to_owned(), client.clone(), revision, now);
        Some(revision)
    }

    /// Ends this client's session. False if it has no such session.
    pub fn end(&self, id: &str, client: &ClientId) -> bool {
        let mut table = self.table.lock();
        let is_theirs = table.by_id.get(id).is_some_and(|session| session.client == *client);
        if is_theirs {
            table.remove(id);
        }
        is_theirs
    }
}

impl SessionTable {
    fn insert(&mut self, id: String, client: ClientId, revision: McpRevision, now: Instant) {
        let used = self.next_use;
        self.next_use += 1;
        self.by_use.insert(used, id.clone());
        self.by_client.entry(client.clone()).or_default().insert(used, id.clone());
        self.by_id.insert(id, McpSession { client, revision, used, used_at: now });
    }

    fn remove(&mut self, id: &str) {
        let Some(session) = self.by_id.remove(id) else { return };
        self.by_use.remove(&session.used);
        if let Some(own) = self.by_client.get_mut(&session.client) {
            own.remove(&session.used);
            if own.is_empty() {
                self.by_client.remove(&session.client);
            }
        }
    }

    fn drop_idle(&mut self, now: Instant) {
        while let Some(oldest) = self.by_use.values().next().cloned() {
            let is_idle =
                self.by_id.get(&oldest).is_none_or(|session| now.since(session.used_at) >= IDLE_LIMIT);
            if !is_idle {
                return;
            }
            self.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use posthouse_time::Moment;

    use super::*;

    const REVISION: McpRevision = McpRevision::V2025_06_18;

    fn sessions(per_client: usize, all: usize) -> (McpSessions, Timepiece) {
        let timepiece = Timepiece::wound(Moment::default());
        (McpSessions::limited(timepiece.clone(), SessionLimits { per_client, all }), timepiece)
    }

    fn has(sessions: &McpSessions, client: &str, ids: &[&str]) -> Vec<bool> {
        ids.iter().map(|id| sessions.resume(id, &client.into()) == Some(REVISION)).collect()
    }

    #[test]
    fn a_session_belongs_to_the_credential_that_started_it() {
        let (sessions, _) = sessions(9, 9);
        sessions.start("a".into(), &"heron".into(), REVISION);
        assert_eq!(has(&sessions, "heron", &["a", "b"]), [true, false]);
        assert_eq!(has(&sessions, "otter", &["a"]), [false]);
        assert!(!sessions.end("a", &"otter".into()));
        assert!(sessions.end("a", &"heron".into()));
        assert!(!sessions.end("a", &"heron".into()));
        assert_eq!(has(&sessions, "heron", &["a"]), [false]);
        assert!(sessions.table.lock().by_client.is_empty());
    }

    #[test]
    fn a_session_that_is_not_used_for_a_day_is_dropped() {
        let (sessions, timepiece) = sessions(9, 9);
        for id in ["used", "idle"] {
            sessions.start(id.into(), &"heron".into(), REVISION);
        }
        timepiece.wind(Duration::from_secs(23 * 3600));
        assert_eq!(has(&sessions, "heron", &["used"]), [true]);
        timepiece.wind(Duration::from_secs(3600));
        assert_eq!(has(&sessions, "heron", &["used", "idle"]), [true, false]);
    }

    #[test]
    fn a_client_with_too_many_sessions_loses_its_own_oldest_one() {
        let (sessions, _) = sessions(2, 9);
        sessions.start("neighbour".into(), &"otter".into(), REVISION);
        for id in ["a", "b"] {
            sessions.start(id.into(), &"heron".into(), REVISION);
        }
        assert_eq!(has(&sessions, "heron", &["a"]), [true]);
        sessions.start("c".into(), &"heron".into(), REVISION);
        assert_eq!(has(&sessions, "heron", &["a", "b", "c"]), [true, false, true]);
        assert_eq!(has(&sessions, "otter", &["neighbour"]), [true]);
    }

    #[test]
    fn a_client_with_sessions_cannot_push_out_the_others_when_all_are_taken() {
        let (sessions, _) = sessions(9, 3);
        sessions.start("neighbour".into(), &"otter".into(), REVISION);
        for id in ["a", "b", "c", "d"] {
            sessions.start(id.into(), &"heron".into(), REVISION);
        }
        assert_eq!(has(&sessions, "otter", &["neighbour"]), [true]);
        assert_eq!(has(&sessions, "heron", &["a", "b", "c", "d"]), [false, false, true, true]);
        // A newcomer gets a place all the same.
        sessions.start("new".into(), &"wren".into(), REVISION);
        assert_eq!(has(&sessions, "wren", &["new"]), [true]);
        assert_eq!(sessions.table.lock().by_id.len(), 3);
    }
}
