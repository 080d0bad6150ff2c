//! Judging of arrivals: decides which of them become turns of a conversation, and for which agent.

use std::sync::Arc;

use identity::{
    Admitted, EventOrigin, GateDecision, IncomingMessage, OverQuota, Principal, QuotaKind, link_command,
};
use ledger::{BotRef, PersonIds, RouteTo, ShownPrompt};
use posthouse_wire::{DedupKey, EntryId, Event, PromptToken, Source};
use relay::{NewEntry, StopRule};
use vault::CapturedCapability;

use super::Intake;
use super::sender_texts::{TOO_MANY_MESSAGES, may_answer};
use crate::Fault;
use crate::asked_prompts::{AskedPrompts, PressVerdict};
use crate::bots::OpenedBot;
use crate::notices::NoticeKind;
use crate::platform::{Arrival, Platform};

/// An admitted arrival.
pub(super) struct AdmittedArrival {
    pub admitted: Admitted,
    pub new_entry: Box<NewEntry>,
    pub capabilities: Vec<CapturedCapability>,
    /// Further keys by which repeats of the event are recognised.
    pub other_dedups: Vec<DedupKey>,
    /// The prompt that it answers, with the pressed button.
    pub answers: Option<(Box<ShownPrompt>, PromptToken)>,
    /// All ids of the sender, if the platform has several.
    pub person: Option<PersonIds>,
}

/// The decision about one arrival.
pub(super) enum ArrivalDecision {
    Turn(AdmittedArrival),
    /// Not a turn. The platform is told that a press was taken, if it was by somebody who may write to the agent.
    Dropped {
        by_admitted: bool,
    },
    /// The agent or its tenant gets too many messages. The platform still gets 200: if it got an error, it would
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
        mut arrival: Box<Arrival>,
        from_bot: bool,
        person: Option<&Principal>,
    ) -> Result<ArrivalDecision, Fault> {
        let on = &bot.bot_ref();
        let dropped = |reason, by_admitted| {
            self.metrics.ignored(platform.name(), reason);
            Ok(ArrivalDecision::Dropped { by_admitted })
        };
        let may_link = person.is_none() && !from_bot && link_command(&arrival.event.text).is_some();
        if may_link && Box::pin(self.links.consumes(platform, bot, &arrival)).await? {
            return dropped("link", false);
        }
        if platform.needs_invitation() && person.is_none() {
            return dropped("not_invited", false);
        }
        let mut admitted = loop {
            let incoming = incoming_message(on, bot, &arrival, from_bot, person);
            match self.identity.gate.decide(incoming).await? {
                GateDecision::Admitted(admitted) => break admitted,
                GateDecision::NotAddressed(agent) => {
                    Box::pin(self.keep_nearby(on, &arrival.event, &agent)).await?;
                    // Another part may have made its album addressed while the gate decided.
                    let Some(addressed) = self.albums.wait(on, arrival) else {
                        return dropped("not_addressed", false);
                    };
                    arrival = addressed;
                }
                GateDecision::Ignored(reason) => return dropped(reason, false),
                GateDecision::Stranger(stranger) => {
                    Box::pin(self.offer_pairing(platform, bot, &arrival.event.source, stranger)).await?;
                    return dropped("stranger", false);
                }
            }
        };
        let incoming = incoming_message(on, bot, &arrival, from_bot, person);
        let mut answers = None;
        if let Some(token) = &arrival.press {
            // An interaction of a platform may have an id of its own. It replies to the message with the buttons.
            let message = arrival.event.reply_to_message_id.as_ref().or(arrival.event.message_id.as_ref());
            let prompts = &self.records.prompts;
            match Box::pin(prompts.judge(&self.identity.gate, incoming, admitted, message, token)).await? {
                PressVerdict::Answer(to_asker, prompt) => {
                    admitted = to_asker;
                    answers = Some((prompt, token.clone()));
                }
                PressVerdict::Unknown => return dropped("unknown_prompt", true),
                PressVerdict::Answered => return dropped("prompt_answered", true),
            }
        }
        if let Err(over) = self.charge(platform, bot, &arrival.event.source, &admitted).await {
            return Ok(ArrivalDecision::OverQuota(over));
        }
        let stale = self.identity.stale_policies.policy(on, incoming.origin, &admitted.to().instance).await?;
        let is_direct = arrival.is_direct();
        let Arrival {
            mut event,
            capabilities,
            dedup,
            other_dedups,
            references,
            album,
            mut forward,
            received,
            person: person_ids,
            ..
        } = *arrival;
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
        // In a direct conversation everything is for the agent, so that it has no context.
        if platform.supports_context() && !is_direct {
            event.context = self.context.around(on, &event.source, admitted.to());
        }
        event.bot_id = Some(on.bot.clone());
        event.received_at = Some(received.to_string());
        let Ok(event) = event.deliverable() else { return dropped("undeliverable", false) };
        let id = (!capabilities.is_empty()).then(|| EntryId::mint(received.millis()));
        let new_entry = Box::new(NewEntry {
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
        });
        Ok(ArrivalDecision::Turn(AdmittedArrival {
            admitted,
            new_entry,
            capabilities,
            other_dedups,
            answers,
            person: person_ids,
        }))
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
        let taken = self.identity.quotas.take(QuotaKind::Message, &to.tenant, Some(&to.instance)).await;
        taken.inspect_err(|_| {
            self.metrics.ignored(platform.name(), "over_quota");
            let chat = (source.chat_id.clone(), source.thread_id.clone(), may_answer(source));
            self.tell_sender(platform, bot, to, chat, NoticeKind::OverQuota, TOO_MANY_MESSAGES);
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

/// An arrival as the gate sees it.
fn incoming_message<'a>(
    on: &'a BotRef,
    bot: &OpenedBot,
    arrival: &'a Arrival,
    from_bot: bool,
    person: Option<&'a Principal>,
) -> IncomingMessage<'a> {
    let origin = EventOrigin { source: &arrival.event.source, path: arrival.path.as_deref() };
    IncomingMessage {
        on,
        shared: bot.shared,
        origin,
        addressed: arrival.addressed,
        several_people: arrival.several_people,
        from_bot,
        person,
    }
}
