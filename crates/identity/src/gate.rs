//! Gate: who may write to an agent. The relay stores only what the gate has admitted.
//!
//! A message on a bot of one agent is admitted when a route leads to the agent, it is addressed to the bot or the agent
//! wants it anyway ([`Relevance`]), and its sender is known to the bot ([`SenderAccess`]). On a bot of many tenants the
//! author decides which agent gets a message, and then the place ([`resolution`]). A person on the chat
//! page is admitted by their invitation, a program by belonging to the agent's tenant, another agent also by its
//! tenant's permission ([`may_write_to_peer`]).

mod author_policies;
mod authors;
mod link_codes;
mod pairing;
mod place_claims;
mod relevance;
mod resolution;
mod sender_access;
mod visibility;

use std::sync::Arc;

use ledger::{Bindings, BotRef, Instance, Principals, RelevancePolicies, RouteTo, ScopeClaims, SharedBots};
use posthouse_time::Timepiece;
use posthouse_wire::{InstanceId, Source, TenantId};

pub use author_policies::AuthorPolicies;
pub use authors::AuthorLinks;
pub use link_codes::{LinkCode, LinkCodes, LinkResult, is_link_code, link_command};
pub use pairing::{PairingCode, Stranger};
pub use place_claims::PlaceClaims;
use relevance::MessageTraits;
pub use relevance::Relevance;
use resolution::{AuthorKind, Candidate, Layers};
pub use sender_access::SenderAccess;
use sender_access::SenderVerdict;
pub use visibility::ChatVisibility;
use visibility::Visibility;

use crate::{EventOrigin, Fault, Principal, RosterView, Routed};

/// Proof that a message may be stored for an agent. Only the gate makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    to: RouteTo,
    on: BotRef,
    profile: Option<String>,
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

    /// The profile of the agent that the message is for, if one is set.
    pub fn profile(&self) -> Option<&str> {
        self.profile.as_deref()
    }
}

/// A message at the gate.
#[derive(Clone, Copy, Debug)]
pub struct IncomingMessage<'a> {
    pub on: &'a BotRef,
    /// The bot serves several tenants.
    pub shared: bool,
    pub origin: EventOrigin<'a>,
    /// Addressed to the bot. In a group, only addressed messages are for the agent.
    pub addressed: bool,
    /// Set if a chat of type `dm` has several people, such as a group direct message of Slack.
    pub several_people: bool,
    /// Written by another bot.
    pub from_bot: bool,
    /// The invited person who wrote it, for the chat page. People on other platforms are unknown to the server.
    pub person: Option<&'a Principal>,
}

impl IncomingMessage<'_> {
    /// Whether the author decides which agent gets it. An invited person on the chat page chooses the agent.
    fn is_on_shared_bot(&self) -> bool {
        self.shared && self.person.is_none()
    }

    fn kind(&self) -> MessageTraits {
        let is_addressed = self.addressed || !(self.several_people || is_group_chat(self.origin.source));
        MessageTraits { is_addressed, from_bot: self.from_bot }
    }

    /// Whether this is a conversation of one person with the bot alone.
    fn is_direct(&self) -> bool {
        self.origin.source.chat_type == "dm" && !self.several_people
    }

    fn author(&self) -> AuthorKind {
        let source = self.origin.source;
        match &source.user_id {
            _ if self.from_bot => AuthorKind::Bot,
            // In a channel, the source names the channel.
            Some(_) if source.chat_type != "channel" => AuthorKind::Person,
            _ => AuthorKind::Nobody,
        }
    }
}

/// The decision about a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateDecision {
    Admitted(Admitted),
    /// Not addressed to the bot. Otherwise it would be for this agent, so the agent may see it as context of another
    /// message.
    NotAddressed(RouteTo),
    /// For no agent. The reason is a metric label.
    Ignored(&'static str),
    /// From somebody whom the bot does not know. [`SenderAccess::pair`] makes a code for them.
    Stranger(Stranger),
}

/// The records that the gate decides by.
pub(crate) struct GateRecords {
    pub access: Arc<dyn ledger::Access>,
    pub relevance: Arc<dyn RelevancePolicies>,
    pub bindings: Arc<dyn Bindings>,
    pub claims: Arc<dyn ScopeClaims>,
    pub principals: Arc<dyn Principals>,
    pub shared_bots: Arc<dyn SharedBots>,
}

/// Decides who may write to an agent. Clones share their caches.
#[derive(Clone)]
pub struct Gate {
    roster: RosterView,
    access: SenderAccess,
    relevance: Relevance,
    links: AuthorLinks,
    link_codes: LinkCodes,
    claims: PlaceClaims,
    policies: AuthorPolicies,
    visibility: Visibility,
}

impl Gate {
    pub(crate) fn new(records: GateRecords, roster: RosterView, timepiece: Timepiece) -> Self {
        let links = AuthorLinks::new(records.bindings, roster.clone());
        Self {
            access: SenderAccess::new(records.access, roster.clone(), timepiece.clone()),
            relevance: Relevance::new(records.relevance, Arc::clone(&records.shared_bots), roster.clone()),
            link_codes: LinkCodes::new(links.clone(), timepiece),
            claims: PlaceClaims::new(records.claims, records.shared_bots, links.clone()),
            policies: AuthorPolicies::new(records.principals, roster.clone()),
            visibility: Visibility::new(links.clone()),
            links,
            roster,
        }
    }

    /// Sets the source that tells whether a user can see a chat. Until then nobody can.
    pub fn set_chat_visibility(&self, chat_visibility: Arc<dyn ChatVisibility>) {
        self.visibility.set_chat_visibility(chat_visibility);
    }

    /// The links between authors and agents.
    pub fn links(&self) -> &AuthorLinks {
        &self.links
    }

    /// The codes with which authors link themselves.
    pub fn link_codes(&self) -> &LinkCodes {
        &self.link_codes
    }

    /// The claims of agents on shared bots.
    pub fn claims(&self) -> &PlaceClaims {
        &self.claims
    }

    /// The unlinked authors that each agent listens to.
    pub fn policies(&self) -> &AuthorPolicies {
        &self.policies
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
    pub async fn decide(&self, incoming: IncomingMessage<'_>) -> Result<GateDecision, Fault> {
        match incoming.is_on_shared_bot() {
            true => self.decide_shared(incoming, None).await,
            false => self.decide_owned(incoming, None).await,
        }
    }

    /// Decides whether a message may be stored for this agent, which need not be the one that [`Self::decide`] chooses.
    /// The rules are the same. `None` when they do not lead to the agent.
    pub async fn admit_to(
        &self,
        to: &InstanceId,
        incoming: IncomingMessage<'_>,
    ) -> Result<Option<Admitted>, Fault> {
        let decision = match incoming.is_on_shared_bot() {
            true => self.decide_shared(incoming, Some(to)).await?,
            false => self.decide_owned(incoming, Some(to)).await?,
        };
        Ok(match decision {
            GateDecision::Admitted(admitted) => Some(admitted),
            GateDecision::NotAddressed(_) | GateDecision::Ignored(_) | GateDecision::Stranger(_) => None,
        })
    }

    /// A message on a bot that belongs to one agent, or on the server's own platforms. Only about the agent that `only`
    /// names, if it names one.
    async fn decide_owned(
        &self,
        incoming: IncomingMessage<'_>,
        only: Option<&InstanceId>,
    ) -> Result<GateDecision, Fault> {
        let IncomingMessage { on, origin, .. } = incoming;
        let source = origin.source;
        let routed = self.roster.route(on, origin).await?;
        // Without a route there is no agent to be admitted to, so no pairing code is offered. An owned bot whose agent
        // is not chosen yet does offer one.
        if routed.is_none() && (incoming.shared || incoming.person.is_some()) {
            return Ok(GateDecision::Ignored("no_route"));
        }
        if let (Some(only), Some(routed)) = (only, &routed)
            && routed.to.instance != *only
        {
            return Ok(GateDecision::Ignored("other_agent"));
        }
        let message = incoming.kind();
        let is_relevant = match &routed {
            Some(routed) => self.relevance.wants(&routed.to.instance, on, source, message).await?,
            None => message.is_addressed && !message.from_bot,
        };
        if !is_relevant {
            return Ok(not_wanted(message, routed.map(|routed| routed.to)));
        }
        match incoming.person {
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
                if let Some(refused) = self.refused_sender(incoming, routed.as_ref()).await? {
                    return Ok(refused);
                }
            }
        }
        Ok(match routed {
            Some(Routed { to, profile, .. }) => {
                GateDecision::Admitted(Admitted { to, on: on.clone(), profile })
            }
            None => GateDecision::Ignored("no_route"),
        })
    }

    /// The decision about a sender whom the operator's rules do not admit. `None` when they are admitted.
    async fn refused_sender(
        &self,
        incoming: IncomingMessage<'_>,
        routed: Option<&Routed>,
    ) -> Result<Option<GateDecision>, Fault> {
        let IncomingMessage { on, origin, .. } = incoming;
        let source = origin.source;
        let message = incoming.kind();
        let names_place = routed.is_some_and(|routed| routed.names_place);
        Ok(match self.access.verdict(incoming, names_place).await? {
            SenderVerdict::Admitted => None,
            SenderVerdict::Denied => Some(GateDecision::Ignored("denied")),
            // Nobody spoke to the bot, so nobody gets an answer. Bots get none either.
            SenderVerdict::Stranger(_) if !message.is_addressed || message.from_bot => {
                Some(not_wanted(message, None))
            }
            SenderVerdict::Stranger(stranger) => {
                let is_owner = match routed {
                    Some(routed) => {
                        self.links.is_linked(on, source.user_id.as_ref(), &routed.to.instance).await?
                    }
                    None => false,
                };
                (!is_owner).then_some(GateDecision::Stranger(stranger))
            }
        })
    }

    /// A message on a bot of many tenants. The author decides first, then the place (contract section 18).
    async fn decide_shared(
        &self,
        incoming: IncomingMessage<'_>,
        only: Option<&InstanceId>,
    ) -> Result<GateDecision, Fault> {
        let IncomingMessage { on, origin, .. } = incoming;
        let source = origin.source;
        let place = self.roster.route(on, origin).await?;
        if self.access.denies(on, source).await? {
            return Ok(GateDecision::Ignored("denied"));
        }
        let author = incoming.author();
        let linked = match (author, &source.user_id) {
            (AuthorKind::Person, Some(user)) => self.links.agents(on, user).await?,
            _ => Arc::default(),
        };
        if place.as_ref().is_some_and(|place| place.by_scope) {
            self.links.note_place(on, source).await?;
        }
        let candidate = resolution::candidate(author, &linked, place.as_ref(), incoming.is_direct(), only);
        // Each fact is read only if the layers before it have not taken the message away.
        let mut layers = Layers {
            denied: false,
            sender_admitted: true,
            principal_admits: true,
            visible: true,
            relevant: true,
        };
        let message = incoming.kind();
        match &candidate {
            Candidate::Nobody(_) | Candidate::Linked { .. } => {}
            Candidate::ByOperator(place) => {
                layers.relevant = self.relevance.wants(&place.to.instance, on, source, message).await?;
                if layers.relevant
                    && let Some(refused) = self.refused_sender(incoming, Some(place)).await?
                {
                    return Ok(refused);
                }
            }
            Candidate::ByClaim(place) => {
                let agent = &place.to.instance;
                layers.principal_admits =
                    self.policies.admits(agent, &on.platform, source.user_id.as_ref()).await?;
                layers.relevant =
                    layers.principal_admits && self.relevance.wants(agent, on, source, message).await?;
                layers.visible = layers.relevant && self.visibility.covers(&place.to, on, source).await?;
            }
        }
        let admitted = candidate.admitted(layers);
        let on = on.clone();
        Ok(match (candidate, admitted) {
            (Candidate::ByOperator(place) | Candidate::ByClaim(place), Err(_))
                if layers.principal_admits && !layers.relevant =>
            {
                not_wanted(message, Some(place.to))
            }
            (_, Err(reason)) => GateDecision::Ignored(reason),
            (Candidate::Linked { to, profile }, Ok(())) => {
                // Stored before the message: the agent may answer where its author was seen.
                self.links.note_seen(incoming, &linked).await?;
                GateDecision::Admitted(Admitted { to, on, profile })
            }
            (
                Candidate::ByOperator(Routed { to, profile, .. })
                | Candidate::ByClaim(Routed { to, profile, .. }),
                Ok(()),
            ) => GateDecision::Admitted(Admitted { to, on, profile }),
            (Candidate::Nobody(reason), Ok(())) => GateDecision::Ignored(reason),
        })
    }

    /// Admits a program's message to an agent of its own tenant, on the built-in platform for programs. `None` when
    /// the agent belongs to another tenant.
    pub fn admit_program(tenant: &TenantId, agent: &Instance, on: BotRef) -> Option<Admitted> {
        let to = RouteTo { tenant: agent.tenant.clone(), instance: agent.id.clone() };
        (agent.tenant == *tenant).then_some(Admitted { to, on, profile: None })
    }
}

/// Whether a caller of a tenant may write to one of its agents. A program may write to all of them. An agent may always
/// write to itself, and to others only if its tenant allows that.
pub fn may_write_to_peer(by: Option<&InstanceId>, to: Option<&InstanceId>, peers_may_write: bool) -> bool {
    by.is_none_or(|own| peers_may_write || to == Some(own))
}

/// The decision about a message that an agent would get if it wanted it.
fn not_wanted(message: MessageTraits, by: Option<RouteTo>) -> GateDecision {
    match by {
        _ if message.from_bot => GateDecision::Ignored("bot_author"),
        Some(agent) => GateDecision::NotAddressed(agent),
        None => GateDecision::Ignored("not_addressed"),
    }
}

/// Whether several people may be in the chat. There, a message is for the bot only when it is addressed to it.
fn is_group_chat(source: &Source) -> bool {
    matches!(source.chat_type.as_str(), "group" | "thread" | "forum" | "room")
}

#[cfg(test)]
mod tests;
