//! Turns of an agent per chat: which socket got a session's last entry, and whether a turn may still be running.
//!
//! `/stop` and the hold-back of busy chats depend on it (relay contract section 13).

use std::collections::HashMap;
use std::time::Duration;

use posthouse_time::Instant;
use posthouse_wire::{Action, ChatId};

/// Time for which a `typing` shows that a turn is running. A stock gateway repeats it every 2 to 3.5 s.
pub(crate) const SHOWS_TYPING: Duration = Duration::from_secs(5);
/// Typing more recent than this counts as continuing. A stock gateway waits up to 1.5 s for the result of each typing
/// sign, and 2 s until the next.
const STILL_TYPING: Duration = Duration::from_secs(4);
/// A turn without an answer counts as ended after this.
const LONGEST_TURN: Duration = Duration::from_secs(3600);
/// Maximum number of remembered chats per agent. Beyond it, the least recent quarter is dropped.
const CHATS: usize = 1024;
/// Maximum number of remembered sessions per chat. Beyond it, the least recent is dropped.
const SESSIONS: usize = 32;

#[derive(Default)]
pub(crate) struct Turns(HashMap<ChatId, Turn>);

#[derive(Default)]
struct Turn {
    /// Each session of the chat with the socket that got its last entry, most recent last.
    sessions: Vec<(u64, u64)>,
    /// Time of the last delivery of an entry of this chat.
    handed: Instant,
    /// No action since then has ended the turn.
    open: bool,
    /// Time at which a turn last ended with an answer.
    answered: Option<Instant>,
    /// The socket that last sent a typing sign here, and the time.
    typed: Option<(u64, Instant)>,
    /// Only typing shows that the turn goes on. Either a stock gateway has typed since the delivery, so that its
    /// silence is significant, or it was told to stop.
    only_typing_tells: bool,
    touched: Instant,
}

impl Turns {
    /// Records the delivery of an entry of this chat.
    pub fn handed(&mut self, chat: &ChatId, session: u64, socket: u64, now: Instant) {
        let turn = self.turn(chat, now);
        (turn.handed, turn.open, turn.only_typing_tells) = (now, true, false);
        match turn.sessions.last_mut() {
            Some(last) if last.0 == session => last.1 = socket,
            _ => {
                turn.sessions.retain(|(known, _)| *known != session);
                if turn.sessions.len() >= SESSIONS {
                    turn.sessions.remove(0);
                }
                turn.sessions.push((session, socket));
            }
        }
    }

    /// Records an agent's action in a chat. An edit by an SDK agent shows that its turn goes on.
    pub fn asked(&mut self, action: &Action, socket: u64, is_ours: bool, now: Instant) {
        match action {
            Action::Typing { chat_id, content, .. } => {
                let on = content.as_deref() != Some("");
                let turn = self.turn(chat_id, now);
                turn.typed = on.then_some((socket, now));
                turn.only_typing_tells |= !is_ours;
            }
            Action::Edit { chat_id, .. } if is_ours => self.turn(chat_id, now).typed = Some((socket, now)),
            Action::Send { chat_id, .. } if ends_turn(action, is_ours) => {
                if let Some(turn) = self.0.get_mut(chat_id) {
                    (turn.open, turn.typed, turn.answered) = (false, None, Some(now));
                }
            }
            _ => {}
        }
    }

    /// The socket that got the last entry of this session.
    pub fn took(&self, chat: &ChatId, session: u64) -> Option<u64> {
        let turn = self.0.get(chat)?;
        turn.sessions.iter().find(|(known, _)| *known == session).map(|(_, socket)| *socket)
    }

    /// The sockets that got the last entry of any session of this chat.
    pub fn sockets(&self, chat: &ChatId) -> Vec<u64> {
        let mut sockets: Vec<u64> = self
            .0
            .get(chat)
            .into_iter()
            .flat_map(|turn| turn.sessions.iter().map(|(_, socket)| *socket))
            .collect();
        sockets.sort_unstable();
        sockets.dedup();
        sockets
    }

    /// The sockets that got the last entry of a session of this chat, the most recent last.
    pub fn takers(&self, chat: &ChatId) -> Vec<u64> {
        let sessions = self.0.get(chat).map(|turn| turn.sessions.as_slice()).unwrap_or_default();
        let mut takers: Vec<u64> = Vec::new();
        for (_, socket) in sessions {
            takers.retain(|taker| taker != socket);
            takers.push(*socket);
        }
        takers
    }

    /// The socket that is typing in this chat.
    pub fn typing(&self, chat: &ChatId, now: Instant) -> Option<u64> {
        let (socket, at) = self.0.get(chat)?.typed?;
        (now < at + SHOWS_TYPING).then_some(socket)
    }

    /// Whether typing goes on in this chat, from any socket.
    pub fn goes_on(&self, chat: &ChatId, now: Instant) -> bool {
        let typed = self.0.get(chat).and_then(|turn| turn.typed);
        typed.is_some_and(|(_, at)| now < at + STILL_TYPING)
    }

    /// Whether a turn of this chat has ended with an answer since `then`.
    pub fn answered_since(&self, chat: &ChatId, then: Instant) -> bool {
        self.0.get(chat).and_then(|turn| turn.answered).is_some_and(|at| at >= then)
    }

    /// Records that the turn of this chat was told to stop.
    pub fn interrupted(&mut self, chat: &ChatId) {
        if let Some(turn) = self.0.get_mut(chat) {
            turn.only_typing_tells = true;
        }
    }

    /// Whether a turn of this chat may be running: an entry was delivered and not answered since. Streamed answers and
    /// interrupted turns end without an explicit sign.
    pub fn is_open(&self, chat: &ChatId, now: Instant) -> bool {
        let Some(turn) = self.0.get(chat).filter(|turn| turn.open) else { return false };
        if turn.only_typing_tells {
            return self.typing(chat, now).is_some();
        }
        now < turn.handed + LONGEST_TURN
    }

    /// Time until which this socket's turn keeps the chat busy, as far as is known now. A turn ends with its answer, or
    /// when typing stops.
    pub fn busy_until(&self, chat: &ChatId, socket: u64, now: Instant) -> Option<Instant> {
        let turn = self.0.get(chat).filter(|turn| turn.open)?;
        turn.sessions.last().filter(|(_, runs_it)| *runs_it == socket)?;
        let typed = turn.typed.filter(|(types, _)| *types == socket).map_or(turn.handed, |(_, at)| at);
        let until = turn.handed.max(typed) + SHOWS_TYPING;
        (now < until).then_some(until)
    }

    fn turn(&mut self, chat: &ChatId, now: Instant) -> &mut Turn {
        if self.0.len() >= CHATS && !self.0.contains_key(chat) {
            self.forget_least_recent();
        }
        let turn = self.0.entry(chat.clone()).or_default();
        turn.touched = now;
        turn
    }

    fn forget_least_recent(&mut self) {
        let mut times: Vec<Instant> = self.0.values().map(|turn| turn.touched).collect();
        let (_, cut, _) = times.select_nth_unstable(CHATS / 4);
        let cut = *cut;
        self.0.retain(|_, turn| turn.touched > cut);
    }
}

/// Whether this action ends the agent's turn. Stock gateways mark the answer. For an SDK agent, any message counts that
/// it will not edit.
pub(crate) fn ends_turn(action: &Action, is_ours: bool) -> bool {
    let Action::Send { metadata, .. } = action else { return false };
    metadata.notify == Some(true) || is_ours && metadata.expect_edits != Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut turns = Turns::default();
        for number in 0..10_000_u32 {
            let now = Instant::default() + Duration::from_secs(number.into());
            turns.handed(&number.to_string().into(), 0, 1, now);
            turns.handed(&"busy".into(), number.into(), 1, now);
        }
        assert!(turns.0.len() <= CHATS);
        assert_eq!(turns.took(&"9999".into(), 0), Some(1));
        assert_eq!(turns.0[&ChatId::from("busy")].sessions.len(), SESSIONS);
    }
}
