//! Open turns by room: in an open turn the agent has accepted a message and is working on the answer.
//!
//! A turn begins when the agent acknowledges a message. It ends with the answer (stock agents mark that `send` with
//! `notify`), when the agent clears its typing sign, or when the agent has been quiet for a while: 0.20.5 types every
//! 2 s while it works, 0.19.0 never does (relay contract sections 6 and 13.1).

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use posthouse_time::Instant;
use posthouse_wire::ChatId;

/// A typing sign keeps a turn open this long.
const TYPING: Duration = Duration::from_secs(6);

/// An edit keeps a turn open this long. A growing answer is edited several times a second.
const EDIT: Duration = Duration::from_secs(3);

/// A message that is not marked as the answer keeps a turn open this long, if the agent never types.
const MESSAGE: Duration = Duration::from_secs(30);

/// An agent without any sign is assumed to work this long.
const SILENT: Duration = Duration::from_secs(30 * 60);

/// A turn ends this long after a stop, unless the agent shows further signs of work.
const STOPPED: Duration = Duration::from_secs(5);

/// Open turns by room. Ended turns are removed when the map grows beyond [`MANY`].
#[derive(Default)]
pub(super) struct RoomTurns(Mutex<HashMap<ChatId, RoomTurn>>);

struct RoomTurn {
    until: Instant,
    typed: bool,
    /// Time of the agent's last sign.
    seen: Instant,
}

/// Number of turns from which on ended ones are removed.
const MANY: usize = 1_024;

impl RoomTurns {
    /// The time at which the open turn of this room ends without another sign of the agent; `None` if none is open.
    pub(super) fn open_until(&self, room: &ChatId, now: Instant) -> Option<Instant> {
        self.0.lock().get(room).map(|turn| turn.until).filter(|until| *until > now)
    }

    /// Opens a turn: the agent accepted a message `ago` and has not answered it yet. A later sign of the agent takes
    /// precedence.
    pub(super) fn begin(&self, room: &ChatId, ago: Duration, now: Instant) {
        let shown_since = self.0.lock().get(room).is_some_and(|turn| now.since(turn.seen) < ago);
        if ago < SILENT && !shown_since {
            self.open(room, now, SILENT - ago, false);
        }
    }

    pub(super) fn typing(&self, room: &ChatId, on: bool, now: Instant) {
        if on { self.open(room, now, TYPING, true) } else { self.end(room, now) }
    }

    /// The agent sent a message. The answer ends the turn; other messages are part of it.
    pub(super) fn agent_wrote(&self, room: &ChatId, is_answer: bool, now: Instant) {
        if is_answer {
            return self.end(room, now);
        }
        if let Some(turn) = self.0.lock().get_mut(room).filter(|turn| turn.until > now) {
            (turn.until, turn.seen) = (now + if turn.typed { TYPING } else { MESSAGE }, now);
        }
    }

    pub(super) fn edited(&self, room: &ChatId, now: Instant) {
        self.open(room, now, EDIT, true);
    }

    /// The person asked for a stop.
    pub(super) fn stopped(&self, room: &ChatId, now: Instant) {
        if let Some(turn) = self.0.lock().get_mut(room) {
            turn.until = turn.until.min(now + STOPPED);
        }
    }

    fn end(&self, room: &ChatId, now: Instant) {
        if let Some(turn) = self.0.lock().get_mut(room) {
            (turn.until, turn.seen) = (now, now);
        }
    }

    fn open(&self, room: &ChatId, now: Instant, lasts: Duration, typed: bool) {
        let mut turns = self.0.lock();
        if turns.len() >= MANY && !turns.contains_key(room) {
            turns.retain(|_, turn| turn.until > now);
        }
        let turn = turns.entry(room.clone()).or_insert(RoomTurn { until: now, typed, seen: now });
        turn.seen = now;
        if turn.until <= now {
            // The previous turn is over.
            turn.typed = typed;
        }
        turn.typed |= typed;
        // An agent that types repeats its typing sign, so the turn ends soon after the signs stop.
        turn.until = if turn.typed { now + lasts.min(TYPING) } else { now + lasts };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthouse_time::{Moment, Timepiece};

    const ROOM: &str = "web-1";

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_stock_agent_that_never_types_works_until_its_answer() {
        let (clock, turns, room) =
            (Timepiece::wound(Moment::from_seconds(0)), RoomTurns::default(), ROOM.into());
        assert_eq!(turns.open_until(&room, clock.instant()), None);
        turns.begin(&room, Duration::ZERO, clock.instant());
        clock.wind(seconds(300));
        assert!(turns.open_until(&room, clock.instant()).is_some(), "it thinks for long");
        turns.agent_wrote(&room, false, clock.instant());
        assert!(turns.open_until(&room, clock.instant()).is_some(), "a note on the way is no answer");
        turns.agent_wrote(&room, true, clock.instant());
        assert_eq!(turns.open_until(&room, clock.instant()), None);
        turns.agent_wrote(&room, false, clock.instant());
        assert_eq!(turns.open_until(&room, clock.instant()), None, "a reminder opens no turn");
    }

    #[test]
    fn an_agent_that_types_works_until_it_stops_typing() {
        let (clock, turns, room) =
            (Timepiece::wound(Moment::from_seconds(0)), RoomTurns::default(), ROOM.into());
        turns.begin(&room, Duration::ZERO, clock.instant());
        for _ in 0..30 {
            turns.typing(&room, true, clock.instant());
            clock.wind(seconds(2));
            assert!(turns.open_until(&room, clock.instant()).is_some());
        }
        clock.wind(seconds(5));
        assert_eq!(turns.open_until(&room, clock.instant()), None);
        turns.typing(&room, true, clock.instant());
        turns.typing(&room, false, clock.instant());
        assert_eq!(turns.open_until(&room, clock.instant()), None);
    }

    #[test]
    fn after_a_stop_only_signs_of_work_keep_a_turn_open() {
        let (clock, turns, room) =
            (Timepiece::wound(Moment::from_seconds(0)), RoomTurns::default(), ROOM.into());
        turns.begin(&room, Duration::ZERO, clock.instant());
        turns.stopped(&room, clock.instant());
        assert!(turns.open_until(&room, clock.instant()).is_some());
        clock.wind(seconds(4));
        turns.typing(&room, true, clock.instant());
        clock.wind(seconds(4));
        assert!(turns.open_until(&room, clock.instant()).is_some(), "it goes on");
        clock.wind(seconds(4));
        assert_eq!(turns.open_until(&room, clock.instant()), None);
    }
}
