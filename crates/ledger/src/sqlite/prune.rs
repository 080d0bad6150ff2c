//! Nothing grows for ever: what is past its keeping goes, a little at a time.

use std::time::Duration;

use posthouse_time::Moment;
use rusqlite::{Connection, OptionalExtension, params};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// How long the platform's own event ids are recognised.
const REPEATS: Duration = DAY;
/// How long an entry waits for its agent, how long a trace is told, and a question after its end.
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
/// Rows of one table past which traces are told for less than their week.
const TRACES: i64 = 5_000_000;
const DEAD_LETTERS: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long a finished request is answered from memory.
const FINISHED: Duration = Duration::from_secs(10 * 60);
/// How long a conversation may be answered after its last event.
const CONVERSATIONS: Duration = Duration::from_secs(90 * 24 * 3600);

/// How long it is told what became of arms.
const HISTORY: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long it is told what became of a program's message, and what the agent said to it.
const RECEIPTS: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long it is told what the operator did.
const DEEDS: Duration = Duration::from_secs(90 * 24 * 3600);

/// Rows that one statement forgets at most, so that it never holds up a commit for long.
const A_LITTLE: u32 = 500;

/// Every statement walks an index from its oldest end and stops at the first row that is not due, so a
/// call that finds nothing costs nothing, however much is kept.
pub(super) fn a_little(db: &Connection, now: Moment) -> rusqlite::Result<bool> {
    let pass = Pass { db, now };
    let traces_of_entries = (now - WEEK).max(pass.fills("SELECT max(seq) FROM entries", ENTRY_AT)?);
    let traces_of_actions = (now - WEEK).max(pass.fills("SELECT max(seq) FROM actions", ACTION_AT)?);
    let told_fires = (now - HISTORY).max(pass.fills("SELECT max(seq) FROM fires", FIRE_AT)?);
    let forgotten_repeats = pass.forget(OLD_REPEATS, now - REPEATS)?;
    let late = pass.forget(LATE, now - WEEK)?;
    if late > 0 {
        tracing::warn!(entries = late, "dropped entries that no agent fetched in a week");
    }
    let gone = [
        forgotten_repeats,
        late,
        pass.forget(TOLD_ENTRIES, traces_of_entries)?,
        pass.forget(OLD_DEAD_LETTERS, now - DEAD_LETTERS)?,
        pass.forget(FINISHED_REQUESTS, now - FINISHED)?,
        pass.forget(UNFINISHED_REQUESTS, now - REPEATS)?,
        pass.forget(TOLD_ACTIONS, traces_of_actions)?,
        // A use in flight may still be given back to one that just lapsed.
        pass.forget(LAPSED_CAPABILITIES, now - 10 * MINUTE)?,
        pass.forget(ENDLESS_CAPABILITIES, now - CONVERSATIONS)?,
        pass.forget(ENDED_SECRETS, now)?,
        pass.forget(ENDED_CLIENT_SECRETS, now)?,
        pass.forget(ENDED_ACCESS, now)?,
        pass.forget(ROTATED_TOKENS, now - DAY)?,
        pass.forget(OLD_CHATS, now - CONVERSATIONS)?,
        pass.forget(OLD_SESSIONS, now - CONVERSATIONS)?,
        pass.forget(OLD_TAKEN, now - REPEATS)?,
        pass.forget(TOLD_FIRES, told_fires)?,
        pass.forget(TOLD_RECEIPTS, now - RECEIPTS)?,
        pass.forget(ENDED_EXCHANGES, now - WEEK)?,
        pass.forget(OLD_DEEDS, now - DEEDS)?,
    ];
    Ok(gone.contains(&(A_LITTLE as usize)))
}

struct Pass<'a> {
    db: &'a Connection,
    now: Moment,
}

impl Pass<'_> {
    fn forget(&self, what: &str, before: Moment) -> rusqlite::Result<usize> {
        let mut statement = self.db.prepare_cached(what)?;
        // Only dropping says when it happened.
        match statement.parameter_count() {
            2 => statement.execute(params![before.millis(), A_LITTLE]),
            _ => statement.execute(params![before.millis(), A_LITTLE, self.now.millis()]),
        }
    }

    /// The age of the row that just no longer fits among the newest, if there are so many.
    fn fills(&self, newest: &str, age_at: &str) -> rusqlite::Result<Moment> {
        let newest: Option<i64> = self.db.prepare_cached(newest)?.query_row([], |row| row.get(0))?;
        let Some(last) = newest.map(|newest| newest - TRACES).filter(|last| *last > 0) else {
            return Ok(Moment::from_millis(i64::MIN));
        };
        let age = self.db.prepare_cached(age_at)?.query_row([last], |row| row.get(0)).optional()?;
        Ok(Moment::from_millis(age.unwrap_or(i64::MIN)))
    }
}

const ENTRY_AT: &str = "SELECT counted FROM entries WHERE seq <= ?1 ORDER BY seq DESC LIMIT 1";
const ACTION_AT: &str = "SELECT received FROM actions WHERE seq <= ?1 ORDER BY seq DESC LIMIT 1";
const FIRE_AT: &str = "SELECT at FROM fires WHERE seq <= ?1 ORDER BY seq DESC LIMIT 1";

/// The row stays, and says that it was dropped, for as long again.
const LATE: &str =
    "UPDATE entries SET fate = 'dropped', event = NULL, refs = NULL, ended = ?3, counted = ?3 WHERE seq IN
    (SELECT seq FROM entries INDEXED BY entries_age
     WHERE (dedup IS NULL) = 1 AND counted < ?1 AND fate IS NULL ORDER BY counted LIMIT ?2)";

const OLD_REPEATS: &str = "UPDATE entries SET dedup = NULL WHERE seq IN
    (SELECT seq FROM entries INDEXED BY entries_age
     WHERE (dedup IS NULL) = 0 AND counted < ?1 ORDER BY counted LIMIT ?2)";

/// The newest row is never deleted: its number must not be given out again, since an agent that is
/// connected reads on from the last one it saw.
const TOLD_ENTRIES: &str = "DELETE FROM entries WHERE seq IN
    (SELECT seq FROM entries INDEXED BY entries_age
     WHERE (dedup IS NULL) = 1 AND counted < ?1 AND fate IN ('acknowledged', 'dropped')
       AND seq < (SELECT max(seq) FROM entries) ORDER BY counted LIMIT ?2)";

const OLD_DEAD_LETTERS: &str = "DELETE FROM entries WHERE seq IN
    (SELECT seq FROM entries WHERE fate = 'dead' AND ended < ?1
       AND seq < (SELECT max(seq) FROM entries) ORDER BY ended LIMIT ?2)";

/// The row stays as a trace.
const FINISHED_REQUESTS: &str = "UPDATE actions SET request = NULL, outcome = NULL WHERE seq IN
    (SELECT seq FROM actions INDEXED BY actions_remembered
     WHERE request IS NOT NULL AND finished < ?1 ORDER BY finished LIMIT ?2)";

/// Nobody knows how these ended, so they are remembered longer: a repeat must not be begun again.
const UNFINISHED_REQUESTS: &str = "UPDATE actions SET request = NULL WHERE seq IN
    (SELECT seq FROM actions INDEXED BY actions_remembered
     WHERE request IS NOT NULL AND finished IS NULL AND received < ?1 ORDER BY received LIMIT ?2)";

const TOLD_ACTIONS: &str = "DELETE FROM actions WHERE seq IN
    (SELECT seq FROM actions WHERE received < ?1 AND request IS NULL ORDER BY received LIMIT ?2)";

const LAPSED_CAPABILITIES: &str = "DELETE FROM capabilities WHERE id IN
    (SELECT id FROM capabilities WHERE expires < ?1 ORDER BY expires LIMIT ?2)";

const ENDLESS_CAPABILITIES: &str = "DELETE FROM capabilities WHERE id IN
    (SELECT id FROM capabilities WHERE expires IS NULL AND bound < ?1 ORDER BY bound LIMIT ?2)";

const ENDED_SECRETS: &str = "DELETE FROM gateway_secrets WHERE id IN
    (SELECT id FROM gateway_secrets WHERE expires < ?1 ORDER BY expires LIMIT ?2)";

const ENDED_CLIENT_SECRETS: &str = "DELETE FROM client_secrets WHERE hash IN
    (SELECT hash FROM client_secrets WHERE expires < ?1 ORDER BY expires LIMIT ?2)";

const ENDED_ACCESS: &str = "DELETE FROM access_tokens WHERE hash IN
    (SELECT hash FROM access_tokens WHERE expires < ?1 ORDER BY expires LIMIT ?2)";

/// Until then, whoever presents one again is told so.
const ROTATED_TOKENS: &str = "DELETE FROM refresh_tokens WHERE seq IN
    (SELECT seq FROM refresh_tokens WHERE rotated < ?1 ORDER BY rotated LIMIT ?2)";

const OLD_CHATS: &str = "DELETE FROM chats WHERE (instance, chat, platform, bot) IN
    (SELECT instance, chat, platform, bot FROM chats WHERE seen < ?1 ORDER BY seen LIMIT ?2)";

const OLD_SESSIONS: &str = "DELETE FROM sessions WHERE (instance, session_key) IN
    (SELECT instance, session_key FROM sessions WHERE seen < ?1 ORDER BY seen LIMIT ?2)";

/// Agents that repeat an old wish are not heard as repeating themselves any more. The line stays.
const OLD_TAKEN: &str = "UPDATE fires SET dedup = NULL, held = NULL WHERE seq IN
    (SELECT seq FROM fires INDEXED BY fires_age
     WHERE (dedup IS NULL) = 0 AND at < ?1 ORDER BY at LIMIT ?2)";

const TOLD_FIRES: &str = "DELETE FROM fires WHERE seq IN
    (SELECT seq FROM fires INDEXED BY fires_age
     WHERE (dedup IS NULL) = 1 AND at < ?1 ORDER BY at LIMIT ?2)";

/// Their replies go with them. What is scheduled is still to come, however long it has been known. As with
/// entries the newest stays, so that its key is not given out again: entries and alarms know receipts by it.
const TOLD_RECEIPTS: &str = "DELETE FROM receipts WHERE key IN
    (SELECT key FROM receipts INDEXED BY receipts_age
     WHERE state <> 0 AND counted < ?1 AND key < (SELECT max(key) FROM receipts) ORDER BY counted LIMIT ?2)";

const ENDED_EXCHANGES: &str = "DELETE FROM exchanges WHERE seq IN
    (SELECT seq FROM exchanges WHERE ended < ?1 ORDER BY ended LIMIT ?2)";

const OLD_DEEDS: &str = "DELETE FROM audit WHERE seq IN
    (SELECT seq FROM audit WHERE at < ?1 ORDER BY at LIMIT ?2)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_finds_nothing_walks_through_nothing() {
        let mut db = Connection::open_in_memory().unwrap();
        crate::sqlite::migrate::run(&mut db).unwrap();
        for statement in [
            ENTRY_AT,
            ACTION_AT,
            FIRE_AT,
            LATE,
            OLD_REPEATS,
            TOLD_ENTRIES,
            OLD_DEAD_LETTERS,
            FINISHED_REQUESTS,
            UNFINISHED_REQUESTS,
            TOLD_ACTIONS,
            LAPSED_CAPABILITIES,
            ENDLESS_CAPABILITIES,
            ENDED_SECRETS,
            ENDED_CLIENT_SECRETS,
            ENDED_ACCESS,
            ROTATED_TOKENS,
            OLD_CHATS,
            OLD_SESSIONS,
            OLD_TAKEN,
            TOLD_FIRES,
            TOLD_RECEIPTS,
            ENDED_EXCHANGES,
            OLD_DEEDS,
        ] {
            let mut explain = db.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
            let zeros = rusqlite::params_from_iter(vec![0; explain.parameter_count()]);
            let plan: Vec<String> =
                explain.query_map(zeros, |row| row.get("detail")).unwrap().map(Result::unwrap).collect();
            let walks = plan.iter().any(|step| step.starts_with("SCAN") || step.contains("TEMP B-TREE"));
            assert!(!walks, "{statement}\n{plan:#?}");
        }
    }
}
