//! The way out of the relay: who carries an action to its platform.

use async_trait::async_trait;
use ledger::Identity;
use posthouse_time::Moment;
use posthouse_wire::{Action, ActionId, Descriptor, InstanceId, Outcome, TenantId};

/// An action that has passed the relay's guards and may be carried out.
#[derive(Clone, Debug)]
pub struct Order {
    pub id: ActionId,
    pub tenant: TenantId,
    pub instance: InstanceId,
    /// The one identity whose credentials may be used for it.
    pub on: Identity,
    pub action: Action,
    /// The agent is answered then, whatever happened.
    pub deadline: Moment,
}

/// What became of an order.
#[derive(Clone, Debug, PartialEq)]
pub struct Carried {
    pub outcome: Outcome,
    /// When the platform was first called, if it was.
    pub posted: Option<Moment>,
}

impl From<Outcome> for Carried {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, posted: None }
    }
}

/// Carries actions to platforms. Implemented by the edge, by post for its own conversations, and by a
/// recorder in the relay's tests.
#[async_trait]
pub trait Egress: Send + Sync {
    /// What the identity's platform can do; nothing for a platform this house does not speak.
    async fn descriptor(&self, of: &Identity) -> Option<Descriptor>;
    /// The house's own conversations: every agent has them, and they do not count when an agent says
    /// hello for "its only bot".
    fn is_built_in(&self, identity: &Identity) -> bool;
    /// The house's own conversation that every agent has without a route to it; counts last in "its only
    /// bot".
    fn everyones(&self) -> Option<Identity> {
        None
    }
    /// Whether an action that was begun, and whose end nobody knows, may be carried out once more: where a
    /// repeat does no harm, losing it would.
    fn may_repeat(&self, identity: &Identity) -> bool {
        let _ = identity;
        false
    }
    /// Does it, once, and says honestly how it went. Dropped at the deadline.
    async fn carry(&self, order: Order) -> Carried;
}
