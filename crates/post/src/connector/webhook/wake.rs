//! Webhook wakes: a request to the wake URL, or a delivery if the agent has none.

use posthouse_wire::DispatchId;
use posthouse_wire::delivery::{
    Meta, Payload, PayloadKind, PayloadOrigin, TriggerKind, WakeReceipt, WakeTime,
};
use serde::Serialize;
use serde_json::{Map, Value};

use super::super::configured_agents::AddressedAgent;
use super::super::{ConnectorError, Emission};
use super::WebhookConnector;
use super::settings::WebhookReceiver;

/// The body of a wake.
#[derive(Serialize)]
pub(super) struct WebhookWake<'a> {
    pub agent_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<WakeTime>,
    pub dispatch_id: &'a DispatchId,
    pub sent_at: i64,
}

impl WebhookConnector {
    /// Delivers the text of a wake to an agent without a wake URL.
    pub(super) async fn wake_by_delivery(
        &self,
        agent_id: &str,
        meant: &AddressedAgent<'_, WebhookReceiver>,
        context: Option<&str>,
        emission: &Emission,
    ) -> Result<WakeReceipt, ConnectorError> {
        let mut receipt = WakeReceipt {
            woken_at: self.timepiece.now().millis(),
            session_id: meant.session.map(str::to_owned),
            ..WakeReceipt::default()
        };
        let Some(context) = context else {
            return Ok(WakeReceipt { nothing_sent: true, ..receipt });
        };
        let body = enveloped(context, meant.session, emission).addressed(meant.agent).json();
        let heard = self.hand_over(agent_id, &meant.at.url, body, &emission.dispatch_id).await?;
        let delivered = heard.receipt(self.timepiece.now());
        receipt.woken_at = self.timepiece.now().millis();
        receipt.session_id = delivered.session_id.or(receipt.session_id);
        receipt.warnings = delivered.warnings;
        receipt.warnings.push("no wake_url is configured: delivered without an interruption".to_owned());
        Ok(receipt)
    }
}

/// The envelope for the text of a wake, which has none. It contains what is known of the wake.
fn enveloped(context: &str, session: Option<&str>, emission: &Emission) -> Payload {
    let origin = PayloadOrigin {
        skill_name: emission.from.clone(),
        entry_skill_name: None,
        trigger_kind: TriggerKind::Inline,
        caller_agent_id: None,
        rest: Map::default(),
    };
    let session = session.map(|session| ("session_id".to_owned(), Value::from(session)));
    let meta = Meta {
        dispatch_id: emission.dispatch_id.clone(),
        sent_at: emission.sent_at.millis(),
        origin,
        event_type: None,
        correlation_id: None,
        rest: Map::from_iter(session),
    };
    Payload { kind: PayloadKind::Augment, text: context.to_owned(), meta }
}
