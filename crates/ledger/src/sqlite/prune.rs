//! Pruning: deletes rows past their retention, a few at a time.

use std::time::Duration;

use posthouse_time::Moment;
use rusqlite::{Connection, params, params_from_iter};

use super::ledger_time::{LedgerClock, LedgerTime};
use super::usage::{History, UsageSums};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Time for which the event ids of platforms are recognised.
const REPEATS: Duration = DAY;
/// Retention of unread entries, of traces, and of questions after their end.
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
const DEAD_LETTERS: Duration = Duration::from_secs(30 * 24 * 3600);
/// Time for which the result of a finished request is repeated.
const FINISHED: Duration = Duration::from_secs(10 * 60);
/// Time for which a conversation can be answered after its last event.
const CONVERSATIONS: Duration = Duration::from_secs(90 * 24 * 3600);

/// Retention of the history of arms.
const HISTORY: Duration = Duration::from_secs(30 * 24 * 3600);

/// Retention of receipts and replies.
const RECEIPTS: Duration = Duration::from_secs(30 * 24 * 3600);

/// Retention of enrolment tokens after their end.
const ENROLL_TOKENS: Duration = Duration::from_secs(30 * 24 * 3600);

/// Retention of the audit log.
const AUDIT_ENTRIES: Duration = Duration::from_secs(90 * 24 * 3600);

/// Retention of messages in the web chat.
const ROOM_LINES: Duration = Duration::from_secs(90 * 24 * 3600);

/// Retention of the tenant of a removed agent: longer than any row that names the agent.
const FORMER_AGENTS: Duration = Duration::from_secs(180 * 24 * 3600);

/// Time for which a deleted skill can be restored.
const DELETED_SKILLS: Duration = Duration::from_secs(30 * 24 * 3600);

/// Retention of ended runs of skills.
const RUNS: Duration = Duration::from_secs(30 * 24 * 3600);

/// Time for which repeats of an event are recognised even if its tenant has more history than its share.
const REPEATS_OVER_SHARE: Duration = Duration::from_secs(3600);

/// Rows of a history that one pass reads at most.
const ROWS_WALKED: u32 = 5000;

/// Rows that one statement deletes at most, so that it never delays a commit for long.
const A_LITTLE: u32 = 500;
/// The same, for rows that are deleted together with long texts.
const A_FEW: u32 = 50;

/// Every statement walks an index from its oldest end and stops at the first row that is not due. A call that
/// finds nothing is therefore cheap, however much is stored. Retention is counted in ledger time. `wall` is
/// the time that dropped entries show to people.
pub(super) fn delete_some(
    db: &Connection,
    clock: &LedgerClock,
    usage: &UsageSums,
    wall: Moment,
) -> rusqlite::Result<bool> {
    let (now, for_repeats) = (clock.now(), clock.now_for_repeats());
    let pass = Pass { db, now, wall };
    let forgotten_repeats = pass.forget(OLD_REPEATS, for_repeats - REPEATS)?;
    let late = pass.forget(LATE, now - WEEK)?;
    if late > 0 {
        tracing::warn!(entries = late, "dropped entries that no agent fetched in a week");
    }
    let gone = [
        forgotten_repeats,
        late,
        pass.forget(OLD_EVENT_ALIASES, for_repeats - REPEATS)?,
        pass.forget(OLD_ENTRIES, now - WEEK)?,
        pass.forget(OLD_DEAD_LETTERS, now - DEAD_LETTERS)?,
        pass.forget(FINISHED_REQUESTS, for_repeats - FINISHED)?,
        pass.forget(UNFINISHED_REQUESTS, for_repeats - REPEATS)?,
        pass.forget(OLD_ACTIONS, now - WEEK)?,
        // A use in flight may still be given back to a capability that has just lapsed.
        pass.forget(LAPSED_CAPABILITIES, now - 10 * MINUTE)?,
        pass.forget(ENDLESS_CAPABILITIES, now - CONVERSATIONS)?,
        pass.forget(ENDED_SECRETS, now)?,
        pass.forget(ENDED_CLIENT_SECRETS, now)?,
        pass.forget(ENDED_ENROLL_TOKENS, now - ENROLL_TOKENS)?,
        pass.forget(ENDED_MEDIA, now)?,
        pass.forget(ENDED_SLEEP_TOKENS, now)?,
        pass.forget(UNSENT_ROOM_FILES, now - DAY)?,
        pass.forget(ENDED_ACCESS, now)?,
        pass.forget(LAPSED_REFRESH_TOKENS, now)?,
        pass.forget(OLD_CHATS, now - CONVERSATIONS)?,
        pass.forget(OLD_SESSIONS, now - CONVERSATIONS)?,
        pass.forget(OLD_AUTHOR_PLACES, now - CONVERSATIONS)?,
        pass.forget(OLD_DIRECT_CHATS, now - CONVERSATIONS)?,
        pass.forget(OLD_PLACES, now - CONVERSATIONS)?,
        pass.forget(OLD_PERSON_CHATS, now - CONVERSATIONS)?,
        pass.forget(ENDED_LINK_CODES, now)?,
        pass.forget(OLD_FIRE_REPEATS, for_repeats - REPEATS)?,
        pass.forget(OLD_FIRES, now - HISTORY)?,
        pass.forget(OLD_RECEIPTS, now - RECEIPTS)?,
        pass.forget(ENDED_EXCHANGES, now - WEEK)?,
        pass.forget(OLD_AUDIT_ENTRIES, now - AUDIT_ENTRIES)?,
        pass.forget(OLD_ROOM_LINES, now - ROOM_LINES)?,
        pass.forget(OLD_PROMPTS, now - WEEK)?,
        pass.forget(OLD_CAPABILITY_USES, now - WEEK)?,
        pass.forget(OLD_THREADS, now - CONVERSATIONS)?,
        pass.forget(OLD_FORMER_AGENTS, now - FORMER_AGENTS)?,
        pass.forget_at_most(A_FEW, OLD_RUN_DISPATCHES, now - RUNS)?,
        pass.forget_at_most(A_FEW, OLD_RUNS, now - RUNS)?,
    ];
    let skill_lines = pass.forget_at_most(A_FEW, OLD_DELETED_SKILLS, now - DELETED_SKILLS)?;
    let mut more = skill_lines == A_FEW as usize || gone.contains(&(A_LITTLE as usize));
    for history in [History::Entries, History::Actions, History::Fires] {
        more |= pass.trim(usage, history)?;
    }
    Ok(more)
}

struct Pass<'a> {
    db: &'a Connection,
    now: LedgerTime,
    wall: Moment,
}

impl Pass<'_> {
    fn forget(&self, what: &str, before: LedgerTime) -> rusqlite::Result<usize> {
        self.forget_at_most(A_LITTLE, what, before)
    }

    fn forget_at_most(&self, rows: u32, what: &str, before: LedgerTime) -> rusqlite::Result<usize> {
        let mut statement = self.db.prepare_cached(what)?;
        // Only the statement that drops entries takes the time.
        match statement.parameter_count() {
            2 => statement.execute(params![before.millis(), rows]),
            _ => statement.execute(params![before.millis(), rows, self.wall.millis(), self.now.millis()]),
        }
    }

    /// Deletes the oldest rows of a history that has too many, of the tenants that have more than their share
    /// of it. It continues where the last pass ended, so that it does not read the rows of the others again
    /// and again. True when there may be more.
    fn trim(&self, usage: &UsageSums, history: History) -> rusqlite::Result<bool> {
        let Some(over) = usage.over_share(history) else { return Ok(false) };
        let (ended, delete) = match history {
            History::Entries => (ENDED_ENTRIES, "DELETE FROM entries WHERE seq = ?1"),
            History::Actions => (ENDED_ACTIONS, "DELETE FROM actions WHERE seq = ?1"),
            History::Fires => (ENDED_FIRES, "DELETE FROM fires WHERE seq = ?1"),
        };
        let from = usage.walked(history);
        let repeats = (self.now - REPEATS_OVER_SHARE).millis();
        let mut ended = self.db.prepare_cached(ended)?;
        // Only the statement for entries takes the age of repeats.
        let given = &[from, i64::from(ROWS_WALKED), repeats][..ended.parameter_count()];
        let passed: Vec<(i64, bool)> = ended
            .query_map(params_from_iter(given), |row| {
                let tenant = usage.tenant_of(row.get_ref(1)?.as_str()?);
                Ok((row.get(0)?, tenant.is_some_and(|tenant| over.tenants.contains(&tenant))))
            })?
            .collect::<rusqlite::Result<_>>()?;
        let mut delete = self.db.prepare_cached(delete)?;
        let mut deleted = 0;
        for (seq, _) in passed.iter().filter(|(_, is_over)| *is_over) {
            deleted += delete.execute([seq])?;
            usage.walked_to(history, *seq);
            if deleted as i64 == over.rows.min(i64::from(A_LITTLE)) {
                return Ok(deleted == A_LITTLE as usize);
            }
        }
        let is_end = passed.len() < ROWS_WALKED as usize;
        usage.walked_to(history, passed.last().filter(|_| !is_end).map_or(0, |(seq, _)| *seq));
        Ok(!is_end)
    }
}

/// The newest row is never deleted; see [`OLD_ENTRIES`].
const ENDED_ENTRIES: &str = "SELECT seq, instance FROM entries
    WHERE seq > ?1 AND fate IN ('acknowledged', 'dropped', 'stale', 'unrouted') AND (dedup IS NULL OR counted < ?3)
      AND seq < (SELECT max(seq) FROM entries) ORDER BY seq LIMIT ?2";
const ENDED_ACTIONS: &str =
    "SELECT seq, instance FROM actions WHERE seq > ?1 AND request IS NULL ORDER BY seq LIMIT ?2";
/// Fires that an agent accepted are kept, because they must not be made again.
const ENDED_FIRES: &str =
    "SELECT seq, instance FROM fires WHERE seq > ?1 AND dedup IS NULL ORDER BY seq LIMIT ?2";

/// The row stays, with the fate `dropped`, for the same time again.
const LATE: &str =
    "UPDATE entries SET fate = 'dropped', event = NULL, refs = NULL, forward = NULL, ended = ?3, counted = ?4 WHERE seq IN
    (SELECT seq FROM entries INDEXED BY entries_age
     WHERE (dedup IS NULL) = 1 AND counted < ?1 AND fate IS NULL ORDER BY counted LIMIT ?2)";

const OLD_REPEATS: &str = "UPDATE entries SET dedup = NULL WHERE seq IN
    (SELECT seq FROM entries INDEXED BY entries_age
     WHERE (dedup IS NULL) = 0 AND counted < ?1 ORDER BY counted LIMIT ?2)";

const OLD_EVENT_ALIASES: &str = "DELETE FROM event_aliases WHERE (alias, bot, platform) IN
    (SELECT alias, bot, platform FROM event_aliases WHERE counted < ?1 ORDER BY counted LIMIT ?2)";

const OLD_PERSON_CHATS: &str = "DELETE FROM person_chats WHERE (id, bot, platform) IN
    (SELECT id, bot, platform FROM person_chats WHERE counted < ?1 ORDER BY counted LIMIT ?2)";

/// The newest row is never deleted: its number must not be used again, because a connected agent reads on
/// from the last number it saw.
const OLD_ENTRIES: &str = "DELETE FROM entries WHERE seq IN
    (SELECT seq FROM entries INDEXED BY entries_age
     WHERE (dedup IS NULL) = 1 AND counted < ?1 AND fate IN ('acknowledged', 'dropped', 'stale', 'unrouted')
       AND seq < (SELECT max(seq) FROM entries) ORDER BY counted LIMIT ?2)";

const OLD_DEAD_LETTERS: &str = "DELETE FROM entries WHERE seq IN
    (SELECT seq FROM entries WHERE fate = 'dead' AND counted < ?1
       AND seq < (SELECT max(seq) FROM entries) ORDER BY counted LIMIT ?2)";

/// The row stays as a trace.
const FINISHED_REQUESTS: &str = "UPDATE actions SET request = NULL, outcome = NULL WHERE seq IN
    (SELECT seq FROM actions INDEXED BY actions_remembered
     WHERE request IS NOT NULL AND (finished IS NULL) = 0 AND counted < ?1 ORDER BY counted LIMIT ?2)";

/// The results of these requests are unknown, so they are kept longer: a repeat must not be carried out
/// again.
const UNFINISHED_REQUESTS: &str = "UPDATE actions SET request = NULL WHERE seq IN
    (SELECT seq FROM actions INDEXED BY actions_remembered
     WHERE request IS NOT NULL AND (finished IS NULL) = 1 AND counted < ?1 ORDER BY counted LIMIT ?2)";

const OLD_ACTIONS: &str = "DELETE FROM actions WHERE seq IN
    (SELECT seq FROM actions WHERE counted < ?1 AND request IS NULL ORDER BY counted LIMIT ?2)";

const LAPSED_CAPABILITIES: &str = "DELETE FROM capabilities WHERE id IN
    (SELECT id FROM capabilities WHERE ends < ?1 ORDER BY ends LIMIT ?2)";

const ENDLESS_CAPABILITIES: &str = "DELETE FROM capabilities WHERE id IN
    (SELECT id FROM capabilities WHERE ends IS NULL AND bound < ?1 ORDER BY bound LIMIT ?2)";

const ENDED_SECRETS: &str = "DELETE FROM gateway_secrets WHERE id IN
    (SELECT id FROM gateway_secrets WHERE ends < ?1 ORDER BY ends LIMIT ?2)";

const ENDED_ENROLL_TOKENS: &str = "DELETE FROM enroll_tokens WHERE id IN
    (SELECT id FROM enroll_tokens WHERE ends < ?1 ORDER BY ends LIMIT ?2)";

const ENDED_CLIENT_SECRETS: &str = "DELETE FROM client_secrets WHERE hash IN
    (SELECT hash FROM client_secrets WHERE ends < ?1 ORDER BY ends LIMIT ?2)";

/// A trigger lists the files, which are deleted from the disk afterwards.
const ENDED_MEDIA: &str = "DELETE FROM media WHERE id IN
    (SELECT id FROM media WHERE ends < ?1 ORDER BY ends LIMIT ?2)";

const ENDED_SLEEP_TOKENS: &str = "DELETE FROM sleep_tokens WHERE hash IN
    (SELECT hash FROM sleep_tokens WHERE ends IS NOT NULL AND ends < ?1 ORDER BY ends LIMIT ?2)";

/// Files that were uploaded in a room and never sent.
const UNSENT_ROOM_FILES: &str = "DELETE FROM room_files WHERE seq IN
    (SELECT seq FROM room_files WHERE message IS NULL AND counted < ?1 ORDER BY counted LIMIT ?2)";

const ENDED_ACCESS: &str = "DELETE FROM access_tokens WHERE hash IN
    (SELECT hash FROM access_tokens WHERE ends < ?1 ORDER BY ends LIMIT ?2)";

/// Until then, presenting such a token again is recognised as reuse. A token whose successors were never
/// presented does not lapse.
const LAPSED_REFRESH_TOKENS: &str = "DELETE FROM refresh_tokens WHERE seq IN
    (SELECT seq FROM refresh_tokens WHERE lapses < ?1 ORDER BY lapses LIMIT ?2)";

const OLD_CHATS: &str = "DELETE FROM chats WHERE (instance, chat, platform, bot) IN
    (SELECT instance, chat, platform, bot FROM chats WHERE seen < ?1 ORDER BY seen LIMIT ?2)";

const OLD_SESSIONS: &str = "DELETE FROM sessions WHERE (instance, session_key) IN
    (SELECT instance, session_key FROM sessions WHERE seen < ?1 ORDER BY seen LIMIT ?2)";

const OLD_AUTHOR_PLACES: &str = "DELETE FROM author_places WHERE (instance, platform, bot, kind, value, user) IN
    (SELECT instance, platform, bot, kind, value, user FROM author_places WHERE seen < ?1 ORDER BY seen LIMIT ?2)";

const OLD_DIRECT_CHATS: &str = "DELETE FROM dm_chats WHERE (platform, bot, chat, user) IN
    (SELECT platform, bot, chat, user FROM dm_chats WHERE seen < ?1 ORDER BY seen LIMIT ?2)";

const OLD_PLACES: &str = "DELETE FROM places WHERE (platform, bot, chat) IN
    (SELECT platform, bot, chat FROM places WHERE seen < ?1 ORDER BY seen LIMIT ?2)";

const ENDED_LINK_CODES: &str = "DELETE FROM link_codes WHERE hash IN
    (SELECT hash FROM link_codes WHERE ends < ?1 ORDER BY ends LIMIT ?2)";

/// After that, arming the same fire again is no longer recognised as a repeat. The row of history stays.
const OLD_FIRE_REPEATS: &str = "UPDATE fires SET dedup = NULL, held = NULL WHERE seq IN
    (SELECT seq FROM fires INDEXED BY fires_age
     WHERE (dedup IS NULL) = 0 AND counted < ?1 ORDER BY counted LIMIT ?2)";

const OLD_FIRES: &str = "DELETE FROM fires WHERE seq IN
    (SELECT seq FROM fires INDEXED BY fires_age
     WHERE (dedup IS NULL) = 1 AND counted < ?1 ORDER BY counted LIMIT ?2)";

/// Replies are deleted with their receipt. Scheduled receipts stay, however old they are. The newest row is
/// never deleted, because entries and alarms refer to receipts by key and a key must not be used again.
const OLD_RUN_DISPATCHES: &str = "DELETE FROM skill_run_dispatches WHERE run IN
    (SELECT id FROM skill_runs WHERE ended IS NOT NULL AND counted < ?1 ORDER BY counted LIMIT ?2)";
const OLD_RUNS: &str = "DELETE FROM skill_runs WHERE (tenant, number) IN
    (SELECT tenant, number FROM skill_runs WHERE ended IS NOT NULL AND counted < ?1 ORDER BY counted LIMIT ?2)";
const OLD_RECEIPTS: &str = "DELETE FROM receipts WHERE key IN
    (SELECT key FROM receipts INDEXED BY receipts_age
     WHERE state <> 0 AND counted < ?1 AND key < (SELECT max(key) FROM receipts) ORDER BY counted LIMIT ?2)";

const ENDED_EXCHANGES: &str = "DELETE FROM exchanges WHERE seq IN
    (SELECT seq FROM exchanges WHERE counted < ?1 ORDER BY counted LIMIT ?2)";

const OLD_ROOM_LINES: &str = "DELETE FROM room_lines WHERE seq IN
    (SELECT seq FROM room_lines WHERE counted < ?1 ORDER BY counted LIMIT ?2)";

const OLD_PROMPTS: &str = "DELETE FROM prompts WHERE (platform, bot, chat, message) IN
    (SELECT platform, bot, chat, message FROM prompts WHERE counted < ?1 ORDER BY counted LIMIT ?2)";

const OLD_CAPABILITY_USES: &str = "DELETE FROM capability_uses WHERE seq IN
    (SELECT seq FROM capability_uses WHERE counted < ?1 ORDER BY counted LIMIT ?2)";

const OLD_THREADS: &str = "DELETE FROM made_threads WHERE (platform, bot, chat, thread) IN
    (SELECT platform, bot, chat, thread FROM made_threads WHERE counted < ?1 ORDER BY counted LIMIT ?2)";

const OLD_FORMER_AGENTS: &str = "DELETE FROM former_agents WHERE id IN
    (SELECT id FROM former_agents WHERE removed < ?1 ORDER BY removed LIMIT ?2)";

/// Lines of history of deleted skills. A trigger deletes a skill with its last line, and texts that no line has.
const OLD_DELETED_SKILLS: &str = "DELETE FROM skill_history WHERE (tenant, seq) IN
    (SELECT h.tenant, h.seq FROM skills s CROSS JOIN skill_history h ON h.tenant = s.tenant AND h.skill = s.id
     WHERE s.deleted < ?1 ORDER BY s.deleted LIMIT ?2)";

const OLD_AUDIT_ENTRIES: &str = "DELETE FROM audit WHERE seq IN
    (SELECT seq FROM audit WHERE counted < ?1 ORDER BY counted LIMIT ?2)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_finds_nothing_walks_through_nothing() {
        let mut db = Connection::open_in_memory().unwrap();
        crate::sqlite::migrate::run(&mut db).unwrap();
        for statement in [
            ENDED_ENTRIES,
            ENDED_ACTIONS,
            ENDED_FIRES,
            OLD_ROOM_LINES,
            OLD_PROMPTS,
            OLD_CAPABILITY_USES,
            OLD_THREADS,
            OLD_FORMER_AGENTS,
            LATE,
            OLD_REPEATS,
            OLD_ENTRIES,
            OLD_DEAD_LETTERS,
            FINISHED_REQUESTS,
            UNFINISHED_REQUESTS,
            OLD_ACTIONS,
            LAPSED_CAPABILITIES,
            ENDLESS_CAPABILITIES,
            ENDED_SECRETS,
            ENDED_CLIENT_SECRETS,
            ENDED_ACCESS,
            ENDED_ENROLL_TOKENS,
            LAPSED_REFRESH_TOKENS,
            OLD_CHATS,
            OLD_SESSIONS,
            OLD_AUTHOR_PLACES,
            OLD_DIRECT_CHATS,
            OLD_PLACES,
            ENDED_LINK_CODES,
            OLD_FIRE_REPEATS,
            OLD_FIRES,
            OLD_RECEIPTS,
            ENDED_EXCHANGES,
            OLD_AUDIT_ENTRIES,
            OLD_DELETED_SKILLS,
            OLD_RUN_DISPATCHES,
            OLD_RUNS,
            crate::sqlite::data::ENDED_DATA,
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
