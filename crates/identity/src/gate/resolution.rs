//! Resolution: which agent gets a message on a shared bot. Pure decisions over facts; the gate reads the facts.
//!
//! The author comes first. A linked author reaches the agents they linked and no others. An unlinked author reaches the
//! agent to which the place of the message belongs, if that agent, or the operator, admits them. Every further layer
//! only takes away (relay contract section 18).

use ledger::{BoundAgent, RouteTo};
use posthouse_wire::InstanceId;

use crate::Routed;

/// Who wrote a message, by the platform's own word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuthorKind {
    Person,
    Bot,
    /// The platform named nobody, as in a channel.
    Nobody,
}

/// The one agent that a message may be for, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Candidate {
    /// The author is linked to it.
    Linked {
        to: RouteTo,
        profile: Option<String>,
    },
    /// The operator gave it the place.
    ByOperator(Routed),
    /// It claimed the place.
    ByClaim(Routed),
    Nobody(&'static str),
}

/// Chooses the agent that a message may be for. `linked` are the author's agents that use this bot, the latest first.
/// `place` is the owner of the chat or scope. If `only` names an agent, no other can be chosen: a message that answers
/// one agent is for that agent or for nobody.
pub(super) fn candidate(
    author: AuthorKind,
    linked: &[BoundAgent],
    place: Option<&Routed>,
    direct: bool,
    only: Option<&InstanceId>,
) -> Candidate {
    let is_asked_for = |to: &RouteTo| only.is_none_or(|only| to.instance == *only);
    // A link belongs to a person. A bot cannot have made one itself.
    if author == AuthorKind::Person && !linked.is_empty() {
        let linked: Vec<_> = linked.iter().filter(|agent| is_asked_for(&agent.to)).collect();
        let owner = place.filter(|_| !direct).and_then(|place| {
            linked.iter().find(|agent| agent.to == place.to).map(|agent| (*agent, place.profile.clone()))
        });
        let default = linked.iter().find(|agent| agent.dm_default).or(linked.first()).copied();
        let chosen = owner.or_else(|| default.map(|agent| (agent, agent.profile.clone())));
        return match chosen {
            Some((agent, profile)) => Candidate::Linked { to: agent.to.clone(), profile },
            None => Candidate::Nobody("not_linked"),
        };
    }
    match place {
        Some(place) if !is_asked_for(&place.to) => Candidate::Nobody("other_agent"),
        Some(place) if !place.is_claim => Candidate::ByOperator(place.clone()),
        // A claim is about authors, so a message without one does not reach its agent.
        Some(place) if author != AuthorKind::Nobody && !direct => Candidate::ByClaim(place.clone()),
        Some(_) => Candidate::Nobody("not_linked"),
        None => Candidate::Nobody("no_route"),
    }
}

/// What decides whether the candidate gets the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layers {
    /// The operator denied the author or the chat.
    pub denied: bool,
    /// The operator's rules admit the author to a place that the operator routed.
    pub sender_admitted: bool,
    /// The agent's principal policy admits the author.
    pub principal_admits: bool,
    /// An author linked to the agent can see the chat.
    pub visible: bool,
    /// The agent wants this message.
    pub relevant: bool,
}

impl Candidate {
    /// Whether the candidate gets the message. The error names the layer that took it away.
    pub fn admitted(&self, layers: Layers) -> Result<(), &'static str> {
        if layers.denied {
            return Err("denied");
        }
        match self {
            Candidate::Nobody(reason) => return Err(reason),
            // The author speaks to their own agent, in a chat that they see.
            Candidate::Linked { .. } => return Ok(()),
            Candidate::ByOperator(_) if !layers.sender_admitted => return Err("stranger"),
            Candidate::ByOperator(_) => {}
            Candidate::ByClaim(_) if !layers.principal_admits => return Err("not_linked"),
            Candidate::ByClaim(_) if !layers.visible => return Err("not_visible"),
            Candidate::ByClaim(_) => {}
        }
        if layers.relevant { Ok(()) } else { Err("not_relevant") }
    }

    /// The agent.
    #[cfg(test)]
    fn to(&self) -> Option<&RouteTo> {
        match self {
            Candidate::Linked { to, .. } => Some(to),
            Candidate::ByOperator(place) | Candidate::ByClaim(place) => Some(&place.to),
            Candidate::Nobody(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(number: u8) -> RouteTo {
        RouteTo {
            tenant: format!("ten_{number}").as_str().into(),
            instance: format!("inst_{number}").as_str().into(),
        }
    }

    fn place(owner: u8, is_claim: bool) -> Routed {
        Routed {
            to: agent(owner),
            names_place: !is_claim,
            is_claim,
            by_scope: false,
            profile: Some(format!("place of {owner}")),
        }
    }

    /// Every combination of an author, their links, the owner of the place and the kind of chat.
    fn situations() -> Vec<(AuthorKind, Vec<BoundAgent>, Option<Routed>, bool)> {
        let mut all = Vec::new();
        let authors = [AuthorKind::Person, AuthorKind::Bot, AuthorKind::Nobody];
        let link_sets: [&[u8]; 5] = [&[], &[1], &[2], &[1, 2], &[2, 1]];
        let owners = [None, Some((1, false)), Some((1, true)), Some((3, false)), Some((3, true))];
        for author in authors {
            for links in link_sets {
                for default in [None, Some(1), Some(2)] {
                    for owner in owners {
                        for direct in [false, true] {
                            let links = links.iter().map(|number| BoundAgent {
                                to: agent(*number),
                                fronts: true,
                                dm_default: default == Some(*number),
                                profile: Some(format!("own of {number}")),
                            });
                            let owner = owner.map(|(number, is_claim)| place(number, is_claim));
                            all.push((author, links.collect(), owner, direct));
                        }
                    }
                }
            }
        }
        all
    }

    fn layer_sets() -> impl Iterator<Item = Layers> {
        (0..32_u8).map(|bits| Layers {
            denied: bits & 1 != 0,
            sender_admitted: bits & 2 != 0,
            principal_admits: bits & 4 != 0,
            visible: bits & 8 != 0,
            relevant: bits & 16 != 0,
        })
    }

    #[test]
    fn a_linked_author_reaches_only_agents_they_linked() {
        for (author, links, owner, direct) in situations() {
            if author == AuthorKind::Person && !links.is_empty() {
                let chosen = candidate(author, &links, owner.as_ref(), direct, None);
                let to = chosen.to().expect("a linked author has an agent");
                assert!(links.iter().any(|link| link.to == *to), "{links:?} {owner:?} {chosen:?}");
            }
        }
    }

    #[test]
    fn in_a_channel_the_linked_agent_that_owns_it_gets_the_message_and_else_the_default() {
        for (author, links, owner, direct) in situations() {
            if author != AuthorKind::Person || links.is_empty() {
                continue;
            }
            let owned =
                owner.as_ref().filter(|owner| !direct && links.iter().any(|link| link.to == owner.to));
            let default = links.iter().find(|link| link.dm_default).unwrap_or(&links[0]);
            let (to, profile) = match owned {
                Some(owner) => (owner.to.clone(), owner.profile.clone()),
                None => (default.to.clone(), default.profile.clone()),
            };
            let chosen = candidate(author, &links, owner.as_ref(), direct, None);
            assert_eq!(chosen, Candidate::Linked { to, profile });
        }
    }

    #[test]
    fn an_unlinked_author_reaches_an_agent_only_by_a_claim_that_admits_them_or_the_operators_word() {
        for (author, links, owner, direct) in situations() {
            if author == AuthorKind::Person && !links.is_empty() {
                continue;
            }
            let chosen = candidate(author, &links, owner.as_ref(), direct, None);
            for layers in layer_sets() {
                let admitted = chosen.admitted(layers).is_ok();
                let Some(owner) = owner.as_ref().filter(|_| admitted) else { continue };
                assert_eq!(chosen.to(), Some(&owner.to));
                if owner.is_claim {
                    assert!(author != AuthorKind::Nobody && !direct, "{chosen:?}");
                    assert!(layers.principal_admits && layers.visible && layers.relevant && !layers.denied);
                } else {
                    assert!(layers.sender_admitted && layers.relevant && !layers.denied);
                }
            }
            if owner.is_none() {
                assert_eq!(chosen, Candidate::Nobody("no_route"));
            }
        }
    }

    #[test]
    fn every_layer_only_takes_away() {
        for (author, links, owner, direct) in situations() {
            let chosen = candidate(author, &links, owner.as_ref(), direct, None);
            for layers in layer_sets().filter(|layers| chosen.admitted(*layers).is_ok()) {
                let more = [
                    Layers { denied: false, ..layers },
                    Layers { sender_admitted: true, ..layers },
                    Layers { principal_admits: true, ..layers },
                    Layers { visible: true, ..layers },
                    Layers { relevant: true, ..layers },
                ];
                assert!(more.iter().all(|more| chosen.admitted(*more).is_ok()), "{chosen:?} {layers:?}");
                assert!(chosen.admitted(Layers { denied: true, ..layers }).is_err());
            }
        }
    }

    #[test]
    fn nobody_gets_a_message_that_no_link_and_no_route_leads_from() {
        let chosen = candidate(AuthorKind::Person, &[], None, false, None);
        assert!(layer_sets().all(|layers| chosen.admitted(layers).is_err()));
        let claimed = place(3, true);
        for (author, direct) in [(AuthorKind::Nobody, false), (AuthorKind::Person, true)] {
            let chosen = candidate(author, &[], Some(&claimed), direct, None);
            assert_eq!(chosen, Candidate::Nobody("not_linked"));
        }
    }

    #[test]
    fn a_bot_is_never_a_linked_author() {
        for (author, links, owner, direct) in situations() {
            if author == AuthorKind::Bot {
                let chosen = candidate(author, &links, owner.as_ref(), direct, None);
                assert!(!matches!(chosen, Candidate::Linked { .. }));
            }
        }
    }

    #[test]
    fn a_message_for_one_agent_reaches_it_under_the_same_rules_and_reaches_no_other() {
        for (author, links, owner, direct) in situations() {
            let free = candidate(author, &links, owner.as_ref(), direct, None);
            for number in 1..=4 {
                let only = agent(number);
                let chosen = candidate(author, &links, owner.as_ref(), direct, Some(&only.instance));
                assert!(chosen.to().is_none_or(|to| *to == only), "{chosen:?}");
                // It is chosen where the message alone leads to it, and where the author linked it.
                let is_linked = author == AuthorKind::Person && links.iter().any(|link| link.to == only);
                let is_chosen = chosen.to().is_some();
                assert_eq!(is_chosen, is_linked || free.to() == Some(&only), "{links:?} {owner:?}");
                if free.to() == Some(&only) {
                    assert_eq!(chosen, free);
                }
                // An author without any agent cannot reach the agent asked for.
                assert!(!is_chosen || free.to().is_some());
                for layers in layer_sets().filter(|layers| chosen.admitted(*layers).is_ok()) {
                    assert!(!layers.denied && (is_linked || free.admitted(layers).is_ok()));
                }
            }
        }
    }
}
