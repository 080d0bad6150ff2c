//! API calls of one action on WhatsApp, with its deadline.

use posthouse_wire::{MessageId, Outcome, TenantId};
use relay::PermittedAction;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};

use crate::bots::OpenedBot;
use crate::platform_calls::{CallFailure, CallsWithDeadline, RepeatRule};
use crate::whatsapp::api::GraphCall;
use crate::whatsapp::{LABEL, WhatsApp, number_of};

/// The error for a reply to a message that WhatsApp does not know any more.
const UNKNOWN_VALUE: i64 = 131_009;

pub(in crate::whatsapp) struct WhatsAppCalls<'a> {
    pub whatsapp: &'a WhatsApp,
    pub bot: &'a OpenedBot,
    pub calls: CallsWithDeadline<'a>,
    tenant: TenantId,
}

#[derive(Deserialize)]
struct AcceptedMessages {
    messages: Vec<AcceptedMessage>,
}

#[derive(Deserialize)]
struct AcceptedMessage {
    id: String,
}

impl<'a> WhatsAppCalls<'a> {
    pub fn new(whatsapp: &'a WhatsApp, bot: &'a OpenedBot, permitted: &PermittedAction) -> Self {
        let calls = CallsWithDeadline::new(&whatsapp.timepiece, permitted.deadline);
        Self { whatsapp, bot, calls, tenant: permitted.tenant.clone() }
    }

    /// Makes a call, with retries.
    pub async fn ask<R: DeserializeOwned>(
        &mut self,
        call: GraphCall<'_>,
        repeat: RepeatRule,
    ) -> Result<R, CallFailure> {
        let (whatsapp, bot, call) = (self.whatsapp, self.bot, call.for_tenant(&self.tenant));
        self.calls.call(call.name, repeat, |left| whatsapp.call(bot, call.clone(), left)).await
    }

    /// Posts one message. If WhatsApp does not know the message that it replies to, it is posted without a reply.
    pub async fn post(
        &mut self,
        person: &Value,
        content: Value,
        reply_to: Option<&MessageId>,
    ) -> Result<MessageId, CallFailure> {
        let mut body = person.clone();
        if let (Some(body), Value::Object(content)) = (body.as_object_mut(), content) {
            body.extend(content);
        }
        if let Some(reply) = reply_to {
            body["context"] = json!({ "message_id": reply });
        }
        match self.post_body(body.clone()).await {
            Err(CallFailure::Refused(refused)) if reply_to.is_some() && refused.code == UNKNOWN_VALUE => {
                if let Some(body) = body.as_object_mut() {
                    body.remove("context");
                }
                self.post_body(body).await
            }
            posted => posted,
        }
    }

    async fn post_body(&mut self, body: Value) -> Result<MessageId, CallFailure> {
        let accepted: AcceptedMessages = self.ask(self.messages(body), RepeatRule::IfNothingWasDone).await?;
        let message = accepted.messages.into_iter().next().ok_or(CallFailure::Lost)?;
        Ok(message.id.into())
    }

    /// A call without a result.
    pub async fn done(&mut self, body: Value, repeat: RepeatRule) -> Outcome {
        match self.ask::<IgnoredAny>(self.messages(body), repeat).await {
            Ok(_) => Outcome::done(),
            Err(failure) => Outcome::failed(failure.error(LABEL)),
        }
    }

    fn messages(&self, body: Value) -> GraphCall<'static> {
        GraphCall::post("POST messages", format!("/{}/messages", number_of(self.bot)), body)
    }
}
