//! Ledger time: the clock for the retention and pruning of rows.
//!
//! The wall clock may be wrong by days until a time server corrects it, and pruning by it would then delete
//! what has just been accepted. The ledger therefore keeps a time of its own. While it is open, ledger time
//! advances with the monotonic clock. Across a restart it advances by how far the wall clock moved past the
//! highest wall time seen, at least zero and at most a day.
//!
//! Rows have wall times for people and one stamp in ledger time, in SQL `ledger_time()`. Leases, deadlines
//! and retry times are stored as ledger times. A credential ends by its wall time `expires` or by its ledger
//! time `ends`, whichever comes first, and is deleted by the latter.

use std::ops::Sub;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use posthouse_time::{Instant, Moment, Timepiece};
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OptionalExtension, Row};

use crate::Fault;

/// The most by which one restart can advance ledger time.
const LONGEST_REST: Duration = Duration::from_secs(24 * 3600);
/// Milliseconds by which two readings of the difference between both clocks can differ without a step.
const ROUNDING: u64 = 20;
/// Time after a start in which peers reconnect and repeat what they may have sent before it.
const COME_BACK: Duration = Duration::from_secs(10 * 60);

/// A stamp in ledger time, in milliseconds. It is not a time of day: after a restart it may lag behind the
/// wall clock permanently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LedgerTime(i64);

impl LedgerTime {
    pub const fn millis(self) -> i64 {
        self.0
    }
}

impl Sub<Duration> for LedgerTime {
    type Output = LedgerTime;
    fn sub(self, by: Duration) -> LedgerTime {
        LedgerTime(self.0.saturating_sub(millis(by)))
    }
}

/// The clock of an open ledger. Clones share it.
#[derive(Clone)]
pub(super) struct LedgerClock(Arc<ClockStart>);

struct ClockStart {
    timepiece: Timepiece,
    /// The readings of both clocks when the ledger was opened.
    instant: Instant,
    ledger: i64,
    /// Advance of ledger time by this start, and by starts shortly before it.
    rest: i64,
    /// Lead of the wall clock over ledger time, as last noticed.
    ahead: AtomicI64,
}

impl LedgerClock {
    /// Continues from the stored pair of ledger time and wall time. A ledger without one begins at the wall
    /// time, but at most a day after its latest stamp. Stamps ahead of that are set to it.
    pub fn start(db: &mut Connection, timepiece: &Timepiece) -> Result<Self, Fault> {
        let (wall, instant) = timepiece.readings();
        let together = db.transaction()?;
        let stored =
            together.query_row("SELECT ledger, wall, started, rest FROM ledger_clock", [], StoredTime::read);
        let (ledger, rest) = match stored.optional()? {
            Some(stored) => stored.go_on(wall),
            None => (first(&together, wall)?, 0),
        };
        let ahead = AtomicI64::new(wall.millis().saturating_sub(ledger));
        let clock = Self(Arc::new(ClockStart { timepiece: timepiece.clone(), instant, ledger, rest, ahead }));
        clock.store(&together)?;
        together.commit()?;
        Ok(clock)
    }

    pub fn now(&self) -> LedgerTime {
        self.at(self.0.timepiece.instant())
    }

    fn at(&self, instant: Instant) -> LedgerTime {
        LedgerTime(self.0.ledger.saturating_add(millis(instant.since(self.0.instant))))
    }

    /// Ledger time for recognising repeats. For the first minutes after a start it leaves out the downtime
    /// before it. Peers that were cut off come back only then, and their repeats must be recognised.
    pub fn now_for_repeats(&self) -> LedgerTime {
        let ClockStart { timepiece, instant, rest, .. } = &*self.0;
        match timepiece.instant().since(*instant) < COME_BACK {
            true => LedgerTime(self.now().0.saturating_sub(*rest)),
            false => self.now(),
        }
    }

    /// Stores ledger time and wall time for the next start. If the wall clock is set back and then corrected,
    /// that time is not counted twice.
    pub fn store(&self, db: &Connection) -> rusqlite::Result<()> {
        let ClockStart { timepiece, ledger, rest, .. } = &*self.0;
        let (wall, instant) = timepiece.readings();
        db.prepare_cached(
            "INSERT INTO ledger_clock (id, ledger, wall, started, rest) VALUES (1, ?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET ledger = excluded.ledger, wall = max(wall, excluded.wall),
               started = excluded.started, rest = excluded.rest",
        )?
        .execute([self.at(instant).millis(), wall.millis(), *ledger, *rest])
        .map(drop)
    }

    /// The ledger time at which the wall clock will show `wall`, unless it is set in between.
    fn at_wall(&self, wall: i64) -> i64 {
        wall.saturating_sub(self.ahead())
    }

    /// The wall time at that ledger time, unless the wall clock is set in between.
    fn wall_at(&self, ledger: i64) -> i64 {
        ledger.saturating_add(self.ahead())
    }

    /// Lead of the wall clock over ledger time. Both clocks are read in milliseconds, so their difference
    /// varies a little. Only a real step changes the result, so that a stored time reads the same twice.
    fn ahead(&self) -> i64 {
        let known = self.0.ahead.load(Ordering::Relaxed);
        let (wall, instant) = self.0.timepiece.readings();
        let read = wall.millis().saturating_sub(self.at(instant).0);
        if read.abs_diff(known) <= ROUNDING {
            return known;
        }
        self.0.ahead.store(read, Ordering::Relaxed);
        read
    }

    /// Registers SQL functions on a connection: `ledger_time()` and `ledger_time_for_repeats()`, and for
    /// conversion between wall times of callers and stored ledger times `ledger_time_at(wall)` and
    /// `wall_time_at(ledger)`. NULL stays NULL. A deadline that is stored by one and read by the other moves
    /// with every step of the wall clock, so that the remaining time stays correct.
    pub fn install(&self, db: &Connection) -> rusqlite::Result<()> {
        let (now, repeats, to_ledger, to_wall) = (self.clone(), self.clone(), self.clone(), self.clone());
        let flags = FunctionFlags::SQLITE_UTF8;
        db.create_scalar_function("ledger_time", 0, flags, move |_| Ok(now.now().millis()))?;
        db.create_scalar_function("ledger_time_for_repeats", 0, flags, move |_| {
            Ok(repeats.now_for_repeats().millis())
        })?;
        db.create_scalar_function("ledger_time_at", 1, flags, move |given| {
            Ok(given.get::<Option<i64>>(0)?.map(|wall| to_ledger.at_wall(wall)))
        })?;
        db.create_scalar_function("wall_time_at", 1, flags, move |given| {
            Ok(given.get::<Option<i64>>(0)?.map(|ledger| to_wall.wall_at(ledger)))
        })
    }
}

/// The pair that was stored before this start.
struct StoredTime {
    ledger: i64,
    wall: Moment,
    started: i64,
    rest: i64,
}

impl StoredTime {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            ledger: row.get(0)?,
            wall: Moment::from_millis(row.get(1)?),
            started: row.get(2)?,
            rest: row.get(3)?,
        })
    }

    /// Ledger time at a start, and the part of it that reconnecting peers have not experienced.
    fn go_on(&self, wall: Moment) -> (i64, i64) {
        let rest = millis(wall.since(self.wall).min(LONGEST_REST));
        // Peers that were cut off before the last start had no time to reconnect after it.
        let is_soon = self.ledger.saturating_sub(self.started) < millis(COME_BACK);
        let before = if is_soon { self.rest } else { 0 };
        (self.ledger.saturating_add(rest), before.saturating_add(rest))
    }
}

/// Ledger time at the first start that has it. Even then the wall clock may be wrong by weeks.
fn first(db: &Connection, wall: Moment) -> rusqlite::Result<i64> {
    let mut latest: Option<i64> = None;
    for (table, stamp) in STAMPS {
        latest =
            latest.max(db.query_row(&format!("SELECT max({stamp}) FROM {table}"), [], |row| row.get(0))?);
    }
    let bound = latest.map_or(i64::MAX, |latest| latest.saturating_add(millis(LONGEST_REST)));
    let ledger = wall.millis().min(bound);
    for (table, stamp) in STAMPS {
        db.execute(&format!("UPDATE {table} SET {stamp} = ?1 WHERE {stamp} > ?1"), [ledger])?;
    }
    Ok(ledger)
}

/// Every column of ledger time that held or copied a wall time before ledger time existed.
const STAMPS: [(&str, &str); 10] = [
    ("entries", "counted"),
    ("actions", "counted"),
    ("receipts", "counted"),
    ("exchanges", "counted"),
    ("fires", "counted"),
    ("audit", "counted"),
    ("capabilities", "bound"),
    ("chats", "seen"),
    ("sessions", "seen"),
    ("routes", "made"),
];

/// Time until a stored deadline, from the milliseconds that a statement returns.
pub(super) fn left(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

fn millis(of: Duration) -> i64 {
    i64::try_from(of.as_millis()).unwrap_or(i64::MAX)
}
