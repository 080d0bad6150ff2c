//! A platform for tests: it knows one token and calls its bot 7001.

use async_trait::async_trait;
use edge::OpenedBot;
use edge::platform::{
    BotField, BotTrouble, EventDelivery, Platform, PlatformBot, Reading, VerifiedRequest, WebhookRefusal,
};
use posthouse_wire::{Descriptor, Outcome};
use relay::{EgressResult, PermittedAction, StopRule};
use serde_json::Map;

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

    fn fields(&self) -> &'static [BotField] {
        const FIELDS: &[BotField] = &[
            BotField::secret("token", "the token on its ring"),
            BotField::secret("webhook_secret", "what the platform proves itself with").generated(),
            BotField::setting("loft", "where it lives").optional(),
        ];
        FIELDS
    }

    fn delivery(&self, _bot: &OpenedBot, door: Option<&str>) -> EventDelivery {
        if door.is_some() { EventDelivery::Webhook } else { EventDelivery::Polling }
    }

    fn setup_steps(&self, _bot: &OpenedBot, _door: Option<&str>) -> Vec<String> {
        vec!["Feed it.".to_owned()]
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

    fn normalize(&self, _bot: &OpenedBot, _verified: VerifiedRequest) -> Result<Reading, WebhookRefusal> {
        Ok(Reading::default())
    }

    async fn perform(&self, _bot: &OpenedBot, _order: PermittedAction) -> EgressResult {
        Outcome::failed("pigeons only rest in these tests").into()
    }

    async fn register(&self, _bot: &OpenedBot, _door: Option<&str>) -> Result<(), BotTrouble> {
        Ok(())
    }
}
