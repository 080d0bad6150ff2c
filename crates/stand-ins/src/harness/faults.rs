//! Fault injection: API calls and deliveries that fail, hang or repeat on demand.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Kind of fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum CallFaultKind {
    /// 429 in the form of the platform; nothing is done.
    TooManyRequests {
        /// Seconds.
        retry_after: f64,
        /// Whether the limit applies to the whole bot, on platforms that distinguish this.
        #[serde(default)]
        global: bool,
    },
    /// A 5xx; nothing is done.
    ServerError {
        /// Default 500.
        #[serde(default = "internal")]
        status: u16,
    },
    /// This answer; nothing is done.
    Answer {
        /// HTTP status.
        status: u16,
        /// JSON body.
        body: Value,
    },
    /// The call is carried out and answered this much later, even if the caller has left by then.
    Slow {
        /// Milliseconds.
        delay_ms: u64,
    },
    /// Nothing is done or answered until released.
    Hang,
    /// The call is carried out at once; the answer waits until released.
    HangAfterWrite,
    /// The call is carried out; the connection is closed without an answer.
    DropAfterWrite,
    /// The connection is closed; nothing is done.
    Refuse,
    /// The next event is delivered twice.
    DuplicateDelivery,
    /// This many events are held until all are there, then delivered in reverse order.
    ReorderDeliveries {
        /// How many.
        of: usize,
    },
}

impl CallFaultKind {
    fn is_about_deliveries(&self) -> bool {
        matches!(self, CallFaultKind::DuplicateDelivery | CallFaultKind::ReorderDeliveries { .. })
    }
}

fn internal() -> u16 {
    500
}

/// A fault, with the calls that it applies to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallFault {
    /// Kind of fault.
    #[serde(flatten)]
    pub kind: CallFaultKind,
    /// Only this call, as the transcript names it. Default: any.
    #[serde(default)]
    pub call: Option<String>,
    /// Only calls of this account. Default: any.
    #[serde(default)]
    pub account: Option<String>,
    /// Only calls about this chat. Default: any.
    #[serde(default)]
    pub chat: Option<String>,
    /// Number of times. Default: once. `null`: until cleared.
    #[serde(default = "once")]
    pub times: Option<u64>,
}

#[expect(clippy::unnecessary_wraps, reason = "the shape serde wants for a default")]
fn once() -> Option<u64> {
    Some(1)
}

impl CallFault {
    /// Applies to the next call, whatever it is.
    #[must_use]
    pub fn new(kind: CallFaultKind) -> CallFault {
        CallFault { kind, call: None, account: None, chat: None, times: once() }
    }

    /// Applies to this call only.
    #[must_use]
    pub fn on(self, call: &str) -> CallFault {
        CallFault { call: Some(call.to_owned()), ..self }
    }

    /// Applies to calls about this chat only.
    #[must_use]
    pub fn in_chat(self, chat: &str) -> CallFault {
        CallFault { chat: Some(chat.to_owned()), ..self }
    }

    /// Applies to calls of this account only.
    #[must_use]
    pub fn of_account(self, account: &str) -> CallFault {
        CallFault { account: Some(account.to_owned()), ..self }
    }

    /// Applies this many times.
    #[must_use]
    pub fn times(self, times: u64) -> CallFault {
        CallFault { times: Some(times), ..self }
    }

    /// Applies until cleared.
    #[must_use]
    pub fn until_cleared(self) -> CallFault {
        CallFault { times: None, ..self }
    }
}

/// State of a fault: how often it was applied, and how often it still will be.
#[derive(Clone, Debug, Serialize)]
pub struct CallFaultState {
    /// The id that adding it returned.
    pub id: u64,
    /// The fault as requested; `times` is what is left.
    #[serde(flatten)]
    pub fault: CallFault,
    /// Number of times it was applied.
    pub struck: u64,
}

/// All faults, oldest first. The first that matches is applied. Used-up ones stay listed until cleared.
#[derive(Default)]
pub(super) struct FaultList {
    states: Vec<CallFaultState>,
    next_id: u64,
}

/// The most faults that are listed at a time.
const MOST: usize = 1_000;

impl FaultList {
    pub fn add(&mut self, fault: CallFault) -> u64 {
        self.next_id += 1;
        if self.states.len() >= MOST {
            self.states.remove(0);
        }
        self.states.push(CallFaultState { id: self.next_id, fault, struck: 0 });
        self.next_id
    }

    pub fn clear(&mut self) {
        self.states.clear();
    }

    pub fn list(&self) -> Vec<CallFaultState> {
        self.states.clone()
    }

    /// The fault that applies to this call, if any.
    pub fn fault_for_call(
        &mut self,
        call: &str,
        account: Option<&str>,
        chat: Option<&str>,
    ) -> Option<CallFaultKind> {
        self.apply_first(|fault| {
            !fault.kind.is_about_deliveries()
                && fault.call.as_ref().is_none_or(|only| only == call)
                && fault.account.as_ref().is_none_or(|only| Some(only.as_str()) == account)
                && fault.chat.as_ref().is_none_or(|only| Some(only.as_str()) == chat)
        })
    }

    /// The fault that applies to the delivery of an event, if any.
    pub fn fault_for_delivery(&mut self, account: &str) -> Option<CallFaultKind> {
        self.apply_first(|fault| {
            fault.kind.is_about_deliveries() && fault.account.as_ref().is_none_or(|only| only == account)
        })
    }

    fn apply_first(&mut self, wanted: impl Fn(&CallFault) -> bool) -> Option<CallFaultKind> {
        let hit = self
            .states
            .iter_mut()
            .find(|state| state.fault.times.is_none_or(|left| left > 0) && wanted(&state.fault))?;
        hit.struck += 1;
        if let Some(left) = &mut hit.fault.times {
            *left -= 1;
        }
        Some(hit.fault.kind.clone())
    }
}
