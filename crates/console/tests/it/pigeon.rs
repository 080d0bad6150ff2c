//! A platform for tests: it knows one token and calls its bot 7001.

use std::sync::Arc;

use async_trait::async_trait;
use edge::platform::{
    BotTrouble, EventDelivery, InteractionAck, Platform, PlatformBot, Raw, Reading, RequiredSecret,
    VerifiedBody, WebhookRefusal,
};
use edge::{Intake, OpenedBot};
use posthouse_wire::{Descriptor, Outcome};
use relay::{EgressResult, PermittedAction, StopRule};
use serde_json::Map;
use tokio_util::sync::CancellationToken;

pub const TOKEN: &str = "canary-token";

pub struct Pigeon;

#[async_trait]
impl Platform for Pigeon {
    fn name(&self) -> &'static str {
        "pigeon"
    }

    fn descriptor(&self, _bot: &OpenedBot) -> Descriptor {
        Descriptor::new("pigeon", "Pigeon")
    }

    fn stop_rule(&self) -> StopRule {
        StopRule::Text
    }

    fn required_secrets(&self) -> &'static [RequiredSecret] {
        &[
            RequiredSecret { name: "token", about: "the token on its ring", generated: false },
            RequiredSecret {
                name: "webhook_secret",
                about: "what the platform proves itself with",
                generated: true,
            },
        ]
    }

    async fn check_credentials(&self, draft: &OpenedBot) -> Result<PlatformBot, BotTrouble> {
        match draft.credentials.get("token") {
            Some(token) if token.matches(TOKEN) => {
                let mut settings = Map::new();
                settings.insert("username".to_owned(), "homer".into());
                Ok(PlatformBot { id: "7001".to_owned(), settings })
            }
            _ => Err(BotTrouble::CredentialRefused("the loft does not know this token".to_owned())),
        }
    }

    fn verify(&self, _bot: &OpenedBot, _raw: Raw) -> Result<VerifiedBody, WebhookRefusal> {
        Err(WebhookRefusal::unproven("pigeons carry no signature"))
    }

    fn normalize(&self, _bot: &OpenedBot, _verified: VerifiedBody) -> Result<Reading, WebhookRefusal> {
        Ok(Reading::default())
    }

    async fn acknowledge_interaction(&self, _bot: &OpenedBot, _courtesy: InteractionAck) {}

    async fn carry(&self, _bot: &OpenedBot, _order: PermittedAction) -> EgressResult {
        Outcome::failed("pigeons only rest in these tests").into()
    }

    async fn register(&self, _bot: &OpenedBot, _door: Option<&str>) -> Result<EventDelivery, BotTrouble> {
        Ok(EventDelivery::Pushed)
    }

    async fn fetch(&self, _bot: Arc<OpenedBot>, _intake: Intake, _stop: CancellationToken) {}
}
