//! Gate: who may write to an agent. The relay stores only what the gate has admitted.
//!
//! A message from a platform is admitted when a route leads from its bot to an agent, it is addressed to the bot or the
//! agent wants it anyway ([`Relevance`]), and its sender is known to the bot ([`SenderAccess`]). A person on the chat
//! page is admitted by their invitation, a program by belonging to the agent's tenant, another agent also by its
//! tenant's permission ([`may_write_to_peer`]).

mod pairing;
mod relevance;
mod sender_access;

use std::sync::Arc;

use ledger::{BotRef, Instance, RelevancePolicies, RouteTo};
use posthouse_time::Timepiece;
use posthouse_wire::{InstanceId, Source, TenantId};

pub use pairing::{PairingCode, Stranger};
pub use relevance::Relevance;
pub use sender_access::SenderAccess;
use sender_access::SenderVerdict;

use crate::{Bearings, Fault, Principal, RosterView};

/// Proof that a message may be stored for an agent. Only the gate makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    to: RouteTo,
    on: BotRef,
}

impl Admitted {
    /// The agent that the message is for.
    pub fn to(&self) -> &RouteTo {
        &self.to
    }

    /// The bot that received it.
    pub fn on(&self) -> &BotRef {
        &self.on
    }
}

/// A message at the gate.
#[derive(Clone, Copy, Debug)]
pub struct Approach<'a> {
    pub on: &'a BotRef,
    /// The bot serves several tenants.
    pub shared: bool,
    pub bearings: Bearings<'a>,
    /// Addressed to the bot. In a group, only addressed messages are for the agent.
    pub addressed: bool,
    /// The invited person who wrote it, for the chat page. People on other platforms are unknown to the server.
    pub person: Option<&'a Principal>,
}

/// The decision about a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateDecision {
    Admitted(Admitted),
    /// Not for the agent. The reason is a metric label.
    Ignored(&'static str),
    /// From somebody whom the bot does not know. [`SenderAccess::pair`] makes a code for them.
    Stranger(Stranger),
}

/// Decides who may write to an agent. Clones share their caches.
#[derive(Clone)]
pub struct Gate {
    roster: RosterView,
    access: SenderAccess,
    relevance: Relevance,
}

impl Gate {
    pub(crate) fn new(
        access: Arc<dyn ledger::Access>,
        relevance: Arc<dyn RelevancePolicies>,
        roster: RosterView,
        timepiece: Timepiece,
    ) -> Self {
        Self {
            access: SenderAccess::new(access, roster.clone(), timepiece),
            relevance: Relevance::new(relevance, roster.clone()),
            roster,
        }
    }

    /// The senders that each bot knows.
    pub fn access(&self) -> &SenderAccess {
        &self.access
    }

    /// The messages of groups that each agent wants.
    pub fn relevance(&self) -> &Relevance {
        &self.relevance
    }

    /// Decides about a message from a platform. Nothing is stored and no agent is woken for one that is not admitted.
    pub async fn decide(&self, approach: Approach<'_>) -> Result<GateDecision, Fault> {
        let Approach { on, bearings, .. } = approach;
        let routed = self.roster.route(on, bearings).await?;
        // Without a route there is no agent to be admitted to, so no pairing code is offered. An owned bot whose agent
        // is not chosen yet does offer one.
        if routed.is_none() && (approach.shared || approach.person.is_some()) {
            return Ok(GateDecision::Ignored("no_route"));
        }
        let is_addressed = approach.addressed || !is_crowd(bearings.source);
        let is_relevant = is_addressed
            || match &routed {
                Some(routed) => {
                    self.relevance.wants_unaddressed(&routed.to.instance, bearings.source).await?
                }
                None => false,
            };
        if !is_relevant {
            return Ok(GateDecision::Ignored("not_addressed"));
        }
        match approach.person {
            Some(Principal::Person(invitation)) => {
                let covered = routed
                    .as_ref()
                    .is_some_and(|routed| invitation.covers(&routed.to.tenant, &routed.to.instance));
                if !covered {
                    return Ok(GateDecision::Ignored("not_invited"));
                }
            }
            Some(_) => return Ok(GateDecision::Ignored("not_invited")),
            None => {
                let names_place = routed.as_ref().is_some_and(|routed| routed.names_place);
                match self.access.verdict(on, bearings.source, names_place).await? {
                    SenderVerdict::Admitted => {}
                    SenderVerdict::Denied => return Ok(GateDecision::Ignored("denied")),
                    // Nobody spoke to the bot, so nobody gets an answer.
                    SenderVerdict::Stranger(_) if !is_addressed => {
                        return Ok(GateDecision::Ignored("not_addressed"));
                    }
                    SenderVerdict::Stranger(stranger) => return Ok(GateDecision::Stranger(stranger)),
                }
            }
        }
        Ok(match routed {
            Some(routed) => GateDecision::Admitted(Admitted { to: routed.to, on: on.clone() }),
            None => GateDecision::Ignored("no_route"),
        })
    }

    /// Admits a program's message to an agent of its own tenant, on the built-in platform for programs. `None` when
    /// the agent belongs to another tenant.
    pub fn admit_program(tenant: &TenantId, agent: &Instance, on: BotRef) -> Option<Admitted> {
        let to = RouteTo { tenant: agent.tenant.clone(), instance: agent.id.clone() };
        (agent.tenant == *tenant).then_some(Admitted { to, on })
    }
}

/// Whether a caller of a tenant may write to one of its agents. A program may write to all of them. An agent may always
/// write to itself, and to others only if its tenant allows that.
pub fn may_write_to_peer(by: Option<&InstanceId>, to: Option<&InstanceId>, peers_may_write: bool) -> bool {
    by.is_none_or(|own| peers_may_write || to == Some(own))
}

/// Whether several people may be in the chat. There, a message is for the bot only when it is addressed to it.
fn is_crowd(source: &Source) -> bool {
    matches!(source.chat_type.as_str(), "group" | "thread" | "forum" | "room")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_writes_to_its_peers_only_where_its_tenant_allows_it() {
        let (heron, egret) = (InstanceId::from("inst_heron"), InstanceId::from("inst_egret"));
        assert!(may_write_to_peer(None, Some(&heron), false), "a program of the tenant");
        assert!(may_write_to_peer(Some(&heron), Some(&heron), false), "itself");
        assert!(!may_write_to_peer(Some(&heron), Some(&egret), false));
        assert!(!may_write_to_peer(Some(&heron), None, false), "somebody behind a connector");
        assert!(may_write_to_peer(Some(&heron), Some(&egret), true));
    }

    #[test]
    fn groups_threads_forums_and_rooms_have_several_people_and_a_channel_or_a_direct_chat_has_not() {
        let crowd =
            |chat_type: &str| is_crowd(&Source { chat_type: chat_type.to_owned(), ..Source::default() });
        assert!(["group", "thread", "forum", "room"].into_iter().all(crowd));
        assert!(!["dm", "channel", ""].into_iter().any(crowd));
    }
}
