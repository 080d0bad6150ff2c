//! Faults: misbehaviour on demand.

use serde::{Deserialize, Serialize};

/// Kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum FaultKind {
    /// 429 with this many seconds; nothing is done.
    TooManyRequests {
        /// Seconds, in `parameters` and in the header.
        retry_after: u64,
    },
    /// A 5xx; nothing is done.
    ServerError {
        /// Default 500.
        #[serde(default = "internal")]
        status: u16,
    },
    /// The call is carried out and answered this much later, even if the caller has left by then.
    Slow {
        /// Milliseconds.
        delay_ms: u64,
    },
    /// Nothing is done or answered until released. A caller that left by then is ignored.
    Hang,
    /// The call is carried out at once; the answer waits until released.
    HangAfterWrite,
    /// The call is carried out; the connection is closed without an answer.
    DropAfterWrite,
    /// The connection is closed; nothing is done. Without a chat filter, the body is not even read.
    Refuse,
    /// 401.
    Unauthorized,
    /// 403 "bot was blocked by the user".
    Blocked,
    /// 400 "chat not found".
    ChatNotFound,
    /// 400 with `migrate_to_chat_id`.
    Migrated {
        /// The supergroup's id.
        to: i64,
    },
    /// The next updates injected for a webhook are each delivered twice.
    DuplicateDelivery,
    /// This many updates injected for a webhook are held until all are there, then delivered in reverse
    /// order.
    ReorderDeliveries {
        /// How many.
        of: usize,
    },
}

impl FaultKind {
    fn is_about_deliveries(self) -> bool {
        matches!(self, FaultKind::DuplicateDelivery | FaultKind::ReorderDeliveries { .. })
    }
}

fn internal() -> u16 {
    500
}

/// A fault, with the calls that it applies to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fault {
    /// Kind of fault.
    #[serde(flatten)]
    pub kind: FaultKind,
    /// Only calls of this method. Default: any but `getUpdates`, which must be named.
    #[serde(default)]
    pub method: Option<String>,
    /// Only this bot's calls (by id); default any.
    #[serde(default)]
    pub bot: Option<i64>,
    /// Only calls about this chat; default any.
    #[serde(default)]
    pub chat_id: Option<i64>,
    /// Number of times. Default: once. `null`: until cleared.
    #[serde(default = "once")]
    pub times: Option<u64>,
}

#[expect(clippy::unnecessary_wraps, reason = "the shape serde wants for a default")]
fn once() -> Option<u64> {
    Some(1)
}

impl Fault {
    /// Applies to the next call, whatever it is.
    #[must_use]
    pub fn new(kind: FaultKind) -> Fault {
        Fault { kind, method: None, bot: None, chat_id: None, times: once() }
    }

    /// Applies to calls of this method only.
    #[must_use]
    pub fn on(self, method: &str) -> Fault {
        Fault { method: Some(method.to_owned()), ..self }
    }

    /// Applies to calls about this chat only.
    #[must_use]
    pub fn in_chat(self, chat: i64) -> Fault {
        Fault { chat_id: Some(chat), ..self }
    }

    /// Applies to this bot only.
    #[must_use]
    pub fn of_bot(self, bot: i64) -> Fault {
        Fault { bot: Some(bot), ..self }
    }

    /// Applies this many times.
    #[must_use]
    pub fn times(self, times: u64) -> Fault {
        Fault { times: Some(times), ..self }
    }

    /// Applies until cleared.
    #[must_use]
    pub fn until_cleared(self) -> Fault {
        Fault { times: None, ..self }
    }
}

/// State of a fault: how often it was applied, and how often it still will be.
#[derive(Clone, Debug, Serialize)]
pub struct FaultState {
    /// The id that `fault` returned.
    pub id: u64,
    /// The fault as requested; `times` is what is left.
    #[serde(flatten)]
    pub fault: Fault,
    /// Number of times it was applied.
    pub struck: u64,
}

/// The properties of a call that faults match.
#[derive(Clone, Copy)]
pub(super) struct CallProperties<'a> {
    pub bot: i64,
    pub method: &'a str,
    pub chat: Option<i64>,
}

/// All faults, oldest first. The first that matches is applied. Used-up ones stay listed until cleared.
#[derive(Default)]
pub(super) struct Faults {
    states: Vec<FaultState>,
    next_id: u64,
}

impl Faults {
    pub fn add(&mut self, fault: Fault) -> u64 {
        self.next_id += 1;
        self.states.push(FaultState { id: self.next_id, fault, struck: 0 });
        self.next_id
    }

    pub fn clear(&mut self) {
        self.states.clear();
    }

    pub fn list(&self) -> Vec<FaultState> {
        self.states.clone()
    }

    pub fn struck(&self, id: u64) -> u64 {
        self.states.iter().find(|state| state.id == id).map_or(0, |state| state.struck)
    }

    /// Whether a fault refuses the call without its parameters.
    pub fn refuses_unread(&mut self, call: CallProperties<'_>) -> bool {
        self.apply_first(|fault| {
            fault.kind == FaultKind::Refuse && fault.chat_id.is_none() && fits(fault, call)
        })
        .is_some()
    }

    /// The fault that applies to this call, if any.
    pub fn fault_for_call(&mut self, call: CallProperties<'_>) -> Option<FaultKind> {
        self.apply_first(|fault| !fault.kind.is_about_deliveries() && fits(fault, call))
    }

    /// The fault that applies to this update's delivery, if any.
    pub fn fault_for_delivery(&mut self, bot: i64) -> Option<FaultKind> {
        self.apply_first(|fault| fault.kind.is_about_deliveries() && fault.bot.is_none_or(|only| only == bot))
    }

    fn apply_first(&mut self, wanted: impl Fn(&Fault) -> bool) -> Option<FaultKind> {
        let hit = self
            .states
            .iter_mut()
            .find(|state| state.fault.times.is_none_or(|left| left > 0) && wanted(&state.fault))?;
        hit.struck += 1;
        if let Some(left) = &mut hit.fault.times {
            *left -= 1;
        }
        Some(hit.fault.kind)
    }
}

fn fits(fault: &Fault, call: CallProperties<'_>) -> bool {
    let method = match &fault.method {
        Some(only) => only.eq_ignore_ascii_case(call.method),
        // A poller calls all the time and would use up faults by chance.
        None => call.method != "getUpdates",
    };
    method
        && fault.bot.is_none_or(|only| only == call.bot)
        && fault.chat_id.is_none_or(|only| Some(only) == call.chat)
}
