//! Judging arrivals: which of them are turns, and for which agent.

use std::sync::Arc;

use identity::{Admitted, Approach, Bearings, GateDecision, Metered, OverQuota, Principal};
use ledger::{BotRef, RouteTo, ShownPrompt};
use posthouse_wire::{EntryId, Event, PromptToken, Source};
use relay::{Entrant, StopRule};
use vault::Captured;

use super::Intake;
use super::sender_texts::{TOO_MANY_MESSAGES, may_answer};
use crate::Fault;
use crate::asked_prompts::{AskedPrompts, PressVerdict};
use crate::bots::OpenedBot;
use crate::notices::NoticeKind;
use crate::platform::{Arrival, Platform};

/// An admitted arrival.
pub(super) struct Admitting {
    pub admitted: Admitted,
    pub entrant: Entrant,
    pub capabilities: Vec<Captured>,
    /// The prompt that it answers, with the pressed button.
    pub answers: Option<(Box<ShownPrompt>, PromptToken)>,
}

/// The decision about one arrival.
pub(super) enum Judged {
    Turn(Box<Admitting>),
    /// A part of an album that was not addressed when the gate decided, and is now.
    Again(Box<Arrival>),
    /// Not a turn. The platform is told that a press was taken, if it was by somebody who may write to the agent.
    Dropped {
        by_admitted: bool,
    },
    /// The agent or its tenant gets too many messages. The platform hears nothing of it: if it got an error, it would
    /// repeat the event and hold up the bot's other tenants.
    OverQuota(OverQuota),
}

impl Intake {
    /// Decides whether the arrival is a turn for an agent, from a sender who may write to it. This is decided before
    /// anything is stored or bound, or an agent woken.
    pub(super) async fn judge(
        &self,
        platform: &Arc<dyn Platform>,
        bot: &Arc<OpenedBot>,
        arrival: Arrival,
        from_bot: bool,
        person: Option<&Principal>,
    ) -> Result<Judged, Fault> {
        let on = &bot.bot_ref();
        let dropped = |reason, by_admitted| {
            self.metrics.ignored(platform.name(), reason);
            Ok(Judged::Dropped { by_admitted })
        };
        if person.is_none() && !from_bot && self.links.consumes(platform, bot, &arrival).await? {
            return dropped("link", false);
        }
        if arrival.event.deliverable().is_err() {
            return dropped("undeliverable", false);
        }
        if platform.needs_invitation() && person.is_none() {
            return dropped("not_invited", false);
        }
        let (source, addressed) = (&arrival.event.source, arrival.addressed);
        let bearings = Bearings { source, path: arrival.path.as_deref() };
        let approach = Approach { on, shared: bot.shared, bearings, addressed, from_bot, person };
        let mut admitted = match self.identity.gate.decide(approach).await? {
            GateDecision::Admitted(admitted) => admitted,
            GateDecision::NotAddressed(agent) => {
                self.keep_nearby(on, &arrival.event, &agent).await?;
                if let Some(addressed) = self.albums.wait(on, arrival) {
                    return Ok(Judged::Again(Box::new(addressed)));
                }
                return dropped("not_addressed", false);
            }
            GateDecision::Ignored(reason) => return dropped(reason, false),
            GateDecision::Stranger(stranger) => {
                self.offer_pairing(platform, bot, source, stranger).await?;
                return dropped("stranger", false);
            }
        };
        let mut answers = None;
        if let Some(token) = &arrival.press {
            let message = arrival.event.message_id.as_ref();
            match self.prompts.judge(&self.identity.gate, approach, admitted, message, token).await? {
                PressVerdict::Answer(to_asker, prompt) => {
                    admitted = to_asker;
                    answers = Some((prompt, token.clone()));
                }
                PressVerdict::Unknown => return dropped("unknown_prompt", true),
                PressVerdict::Answered => return dropped("prompt_answered", true),
            }
        }
        if let Err(over) = self.charge(platform, bot, source, &admitted).await {
            return Ok(Judged::OverQuota(over));
        }
        let stale = self.identity.stale_policies.policy(on, bearings, &admitted.to().instance).await?;
        let Arrival { mut event, capabilities, dedup, references, album, mut forward, received, .. } =
            arrival;
        let mut stop = platform.stop_rule();
        if let Some((prompt, token)) = &answers {
            // A button may be called `stop`. It answers the prompt and stops nothing.
            stop = StopRule::Text;
            AskedPrompts::write_answer(prompt, token, &mut event);
        }
        event.source.profile = admitted.profile().map(str::to_owned);
        if let Some(forward) = &mut forward {
            forward.profile = event.source.profile.clone();
        }
        if platform.descriptor(bot).supports_context {
            event.context = self.context.around(on, &event.source, admitted.to());
        }
        event.bot_id = Some(on.bot.clone());
        event.received_at = Some(received.to_string());
        let id = (!capabilities.is_empty()).then(|| EntryId::mint(received.millis()));
        let entrant = Entrant {
            event,
            id,
            dedup,
            references,
            album,
            forward,
            accepted: received,
            receipt: None,
            stop,
            stale,
        };
        Ok(Judged::Turn(Box::new(Admitting { admitted, entrant, capabilities, answers })))
    }

    /// Counts a message against the quotas of its agent and tenant. The sender of one that has no room is told.
    async fn charge(
        &self,
        platform: &Arc<dyn Platform>,
        bot: &Arc<OpenedBot>,
        source: &Source,
        admitted: &Admitted,
    ) -> Result<(), OverQuota> {
        let to = admitted.to();
        let taken = self.identity.quotas.take(Metered::Message, &to.tenant, Some(&to.instance)).await;
        taken.inspect_err(|_| {
            self.metrics.ignored(platform.name(), "over_quota");
            let to = (source.chat_id.clone(), source.thread_id.clone(), may_answer(source));
            self.tell_sender(platform, bot, to, NoticeKind::OverQuota, TOO_MANY_MESSAGES);
        })
    }

    /// Keeps a message that was not addressed to the bot as context for the next one that is for the same agent. What a
    /// denied sender writes reaches no agent, not even so.
    async fn keep_nearby(&self, on: &BotRef, event: &Event, agent: &RouteTo) -> Result<(), Fault> {
        let listens = self.context.listens(on, &event.source, agent);
        if listens && !self.identity.gate.access().denies(on, &event.source).await? {
            self.context.keep(on, event, agent);
        }
        Ok(())
    }
}
