//! Counts of unread entries per inbox and sender, kept in memory beside the one writer.
//!
//! Appends and acknowledgements, which are nearly all changes of an inbox, report to [`InboxCounts`]
//! themselves. Triggers on the writer's connection report every other row of `entries` that becomes unread or
//! stops being unread (`usage.rs` says why not all of them). A rollback also reverts what its transaction
//! reported. The counts are therefore those of the open transaction, and between transactions those of the
//! last commit.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Connection, Row};

use crate::Fault;
use crate::inbox::{Append, InboxLimits, LimitReached, Sender, Unread};

/// One person or one chat may hold one of this many parts of an inbox.
const PARTS: i64 = 4;
/// The parts that the credential of one program may hold.
const PROGRAM_PARTS: i64 = 3;

/// Prefixes of a stored sender.
const PERSON: &str = "user:";
const PROGRAM: &str = "client:";

pub(in crate::sqlite) struct InboxCounts(Mutex<UnreadCounts>);

struct UnreadCounts {
    /// By agent. We choose these ids, so a fast hasher is safe. Others choose the chats and senders below.
    inboxes: HashMap<Arc<str>, InboxContent, RandomState>,
    /// Changes by the open transaction.
    changes: Vec<(Arc<str>, Unread)>,
}

/// The content of one inbox.
struct InboxContent {
    /// The agent, as the key of this inbox.
    of: Arc<str>,
    all: Unread,
    /// By chat and by sender. It is counted only once the inbox holds so much that one of them could exceed
    /// its share. That never happens while the agent keeps up.
    by_holder: Option<HashMap<String, Unread>>,
}

impl InboxContent {
    fn new(of: &Arc<str>, all: Unread) -> Self {
        Self { of: Arc::clone(of), all, by_holder: None }
    }
}

/// One unread entry, as the triggers and the first count see it.
struct UnreadEntryRow<'a> {
    size: i64,
    platform: &'a str,
    bot: &'a str,
    chat: &'a str,
    sender: Option<&'a str>,
}

impl InboxCounts {
    /// Counts the stored entries and follows all later changes by `db`, the writer's connection.
    pub fn attach(db: &Connection) -> Result<Arc<Self>, Fault> {
        let counts = UnreadCounts { inboxes: count_inboxes(db)?, changes: Vec::new() };
        let counts = Arc::new(Self(Mutex::new(counts)));
        let followed = Arc::clone(&counts);
        db.create_scalar_function("inbox_changed", 7, FunctionFlags::SQLITE_UTF8, move |changed| {
            followed.0.lock().changed(changed)
        })?;
        db.execute_batch(TRIGGERS)?;
        Ok(counts)
    }

    /// The reason why there is no room for this entry, if there is none. An inbox or a sender with nothing
    /// unread can always add one entry.
    pub fn refusal(
        &self,
        db: &Connection,
        append: &Append,
        sender: Option<&str>,
    ) -> rusqlite::Result<Option<LimitReached>> {
        let mut counts = self.0.lock();
        let Some(held) = counts.inboxes.get_mut(append.to.as_str()) else { return Ok(None) };
        let size = append.size();
        let InboxLimits { entries, bytes } = append.limits;
        if !fits(held.all, size, append.limits) {
            return Ok(Some(LimitReached::Inbox));
        }
        let part = InboxLimits { entries: (entries / PARTS).max(1), bytes: bytes / PARTS };
        if fits(held.all, size, part) {
            // Counting stops at half a part, well below its start, so that an inbox around one part is not
            // counted again and again.
            if held.all.entries < part.entries / 2 && held.all.bytes < part.bytes / 2 {
                held.by_holder = None;
            }
            return Ok(None);
        }
        let by_holder = match &mut held.by_holder {
            Some(by_holder) => by_holder,
            none => none.insert(count_holders(db, append.to.as_str())?),
        };
        let entry = UnreadEntryRow::new(append, sender);
        let over = entry.holders().into_iter().flatten().any(|(holder, parts)| {
            let share = InboxLimits {
                entries: (entries / PARTS * parts).max(1),
                bytes: (bytes / PARTS).saturating_mul(parts),
            };
            !fits(by_holder.get(&holder).copied().unwrap_or_default(), size, share)
        });
        Ok(over.then_some(LimitReached::Share))
    }

    pub fn unread(&self, of: &str) -> Unread {
        self.0.lock().inboxes.get(of).map(|held| held.all).unwrap_or_default()
    }

    /// Counts an entry that was appended in the open transaction.
    pub fn appended(&self, append: &Append, sender: Option<&str>) {
        self.0.lock().change(1, append.to.as_str(), &UnreadEntryRow::new(append, sender));
    }

    /// Counts an entry that was acknowledged in the open transaction.
    pub fn acknowledged(&self, db: &Connection, of: &str, seq: i64, size: i64) -> rusqlite::Result<()> {
        let mut counts = self.0.lock();
        if counts.inboxes.get(of).is_some_and(|held| held.by_holder.is_some()) {
            let mut holders =
                db.prepare_cached("SELECT size, platform, bot, chat, sender FROM entries WHERE seq = ?1")?;
            let mut rows = holders.query([seq])?;
            if let Some(row) = rows.next()? {
                counts.change(-1, of, &unended(row)?);
                return Ok(());
            }
        }
        counts.change(-1, of, &UnreadEntryRow { size, platform: "", bot: "", chat: "", sender: None });
        Ok(())
    }

    /// Panics if a change was not counted.
    #[cfg(debug_assertions)]
    pub fn check(&self, db: &Connection) -> rusqlite::Result<()> {
        let counted = count_inboxes(db)?;
        let counts = self.0.lock();
        assert_eq!(counts.inboxes.len(), counted.len(), "inboxes with something unread");
        for (inbox, InboxContent { all, by_holder, .. }) in &counts.inboxes {
            assert_eq!(Some(*all), counted.get(inbox).map(|held| held.all), "unread of {inbox}");
            if let Some(by_holder) = by_holder {
                assert_eq!(*by_holder, count_holders(db, inbox)?, "unread of {inbox} by chat and sender");
            }
        }
        Ok(())
    }

    pub fn committed(&self) {
        self.0.lock().changes.clear();
    }

    pub fn rolled_back(&self) {
        let mut counts = self.0.lock();
        let changes = std::mem::take(&mut counts.changes);
        for (inbox, change) in &changes {
            let inbox = counts.inboxes.entry(Arc::clone(inbox));
            let held = inbox.or_insert_with_key(|of| InboxContent::new(of, Unread::default()));
            held.all.entries -= change.entries;
            held.all.bytes -= change.bytes;
            // It is counted again when it is needed next.
            held.by_holder = None;
        }
        // Only now: on the way back the count of an inbox may pass zero.
        for (inbox, _) in &changes {
            if counts.inboxes.get(inbox).is_some_and(|held| held.all.entries <= 0) {
                counts.inboxes.remove(inbox);
            }
        }
    }
}

impl UnreadCounts {
    /// Adds or subtracts one entry, as a trigger reports it.
    fn changed(&mut self, row: &Context<'_>) -> rusqlite::Result<bool> {
        let entry = UnreadEntryRow {
            size: row.get(2)?,
            platform: row.get_raw(3).as_str()?,
            bot: row.get_raw(4).as_str()?,
            chat: row.get_raw(5).as_str()?,
            sender: row.get_raw(6).as_str_or_null()?,
        };
        self.change(row.get(0)?, row.get_raw(1).as_str()?, &entry);
        Ok(true)
    }

    fn change(&mut self, sign: i64, instance: &str, entry: &UnreadEntryRow<'_>) {
        let change = Unread { entries: sign, bytes: sign * entry.size };
        let held = match self.inboxes.get_mut(instance) {
            Some(held) => held,
            None => self
                .inboxes
                .entry(Arc::from(instance))
                .or_insert_with_key(|of| InboxContent::new(of, Unread::default())),
        };
        let inbox = Arc::clone(&held.of);
        add(&mut held.all, change);
        if let Some(by_holder) = &mut held.by_holder {
            for (holder, _) in entry.holders().into_iter().flatten() {
                hold(by_holder, holder, change);
            }
        }
        if held.all.entries <= 0 {
            self.inboxes.remove(&inbox);
        }
        self.changes.push((inbox, change));
    }
}

impl<'a> UnreadEntryRow<'a> {
    fn new(append: &'a Append, sender: Option<&'a str>) -> Self {
        Self {
            size: append.size(),
            platform: append.platform.as_str(),
            bot: append.bot.as_str(),
            chat: append.chat.as_str(),
            sender,
        }
    }

    /// The chat and the sender that hold it, and the parts of the inbox that each may hold.
    fn holders(&self) -> [Option<(String, i64)>; 2] {
        let UnreadEntryRow { platform, bot, chat, sender, .. } = self;
        match sender {
            Some(program) if program.starts_with(PROGRAM) => {
                [Some(((*program).to_owned(), PROGRAM_PARTS)), None]
            }
            person => [
                Some((format!("chat:{platform}:{bot}:{chat}"), 1)),
                person.map(|person| (format!("{person}:{platform}"), 1)),
            ],
        }
    }
}

fn fits(held: Unread, size: i64, most: InboxLimits) -> bool {
    held.entries == 0 || (held.entries < most.entries && held.bytes.saturating_add(size) <= most.bytes)
}

/// A holder of nothing is removed, because any number of people and chats may come and go.
fn hold(by_holder: &mut HashMap<String, Unread>, holder: String, change: Unread) {
    match by_holder.entry(holder) {
        Entry::Vacant(new) => {
            new.insert(change);
        }
        Entry::Occupied(mut held) => {
            add(held.get_mut(), change);
            if held.get().entries <= 0 {
                held.remove();
            }
        }
    }
}

fn add(held: &mut Unread, change: Unread) {
    held.entries += change.entries;
    held.bytes += change.bytes;
}

fn count_inboxes(db: &Connection) -> rusqlite::Result<HashMap<Arc<str>, InboxContent, RandomState>> {
    db.prepare("SELECT instance, count(*), sum(size) FROM entries WHERE fate IS NULL GROUP BY instance")?
        .query_map([], |row| {
            let of: Arc<str> = row.get::<_, String>(0)?.into();
            let content = InboxContent::new(&of, super::unread(row, 1)?);
            Ok((of, content))
        })?
        .collect()
}

fn count_holders(db: &Connection, instance: &str) -> rusqlite::Result<HashMap<String, Unread>> {
    let mut counted = HashMap::<String, Unread>::new();
    let mut entries = db.prepare_cached(
        "SELECT size, platform, bot, chat, sender FROM entries WHERE instance = ?1 AND fate IS NULL",
    )?;
    let mut rows = entries.query([instance])?;
    while let Some(row) = rows.next()? {
        let entry = unended(row)?;
        for (holder, _) in entry.holders().into_iter().flatten() {
            add(counted.entry(holder).or_default(), Unread { entries: 1, bytes: entry.size });
        }
    }
    Ok(counted)
}

fn unended<'a>(row: &'a Row<'_>) -> rusqlite::Result<UnreadEntryRow<'a>> {
    Ok(UnreadEntryRow {
        size: row.get(0)?,
        platform: row.get_ref(1)?.as_str()?,
        bot: row.get_ref(2)?.as_str()?,
        chat: row.get_ref(3)?.as_str()?,
        sender: row.get_ref(4)?.as_str_or_null()?,
    })
}

/// The stored form of a sender.
pub(super) fn sender(sender: &Sender) -> String {
    match sender {
        Sender::Person(person) => [PERSON, person].concat(),
        Sender::Program(client) => [PROGRAM, client.as_str()].concat(),
    }
}

/// The triggers belong to the writer's connection, so only its changes are counted. Every statement that
/// changes the fate of an entry also sets `counted`, except its acknowledgement.
const TRIGGERS: &str = "
    CREATE TEMP TRIGGER inbox_less AFTER UPDATE OF counted ON main.entries
      WHEN OLD.fate IS NULL AND NEW.fate IS NOT NULL BEGIN
      SELECT inbox_changed(-1, OLD.instance, OLD.size, OLD.platform, OLD.bot, OLD.chat, OLD.sender);
    END;
    CREATE TEMP TRIGGER inbox_again AFTER UPDATE OF counted ON main.entries
      WHEN OLD.fate IS NOT NULL AND NEW.fate IS NULL BEGIN
      SELECT inbox_changed(1, NEW.instance, NEW.size, NEW.platform, NEW.bot, NEW.chat, NEW.sender);
    END;
    CREATE TEMP TRIGGER inbox_gone AFTER DELETE ON main.entries WHEN OLD.fate IS NULL BEGIN
      SELECT inbox_changed(-1, OLD.instance, OLD.size, OLD.platform, OLD.bot, OLD.chat, OLD.sender);
    END;";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_nothing_unread_is_forgotten() {
        let mut by_holder = HashMap::new();
        let one = |sign: i64| Unread { entries: sign, bytes: sign * 7 };
        for chat in ["a", "b", "b"] {
            hold(&mut by_holder, chat.to_owned(), one(1));
        }
        for chat in ["a", "b"] {
            hold(&mut by_holder, chat.to_owned(), one(-1));
        }
        assert_eq!(by_holder, HashMap::from([("b".to_owned(), one(1))]));
    }
}
