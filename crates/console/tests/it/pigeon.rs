//! A platform for tests: it knows one token and calls its bot 7001.

use std::sync::Arc;

use async_trait::async_trait;
use edge::platform::{
    InteractionAck, Need, Platform, PlatformBot, Raw, Reading, Refusal, Settled, Trouble, Verified,
};
use edge::{Bot, Intake};
use posthouse_wire::{Descriptor, Outcome};
use relay::{Carried, Order, StopRule};
use serde_json::Map;
use tokio_util::sync::CancellationToken;

pub const TOKEN: &str = "canary-token";

pub struct Pigeon;

#[async_trait]
impl Platform for Pigeon {
    fn name(&self) -> &'static str {
        "pigeon"
    }

    fn descriptor(&self, _bot: &Bot) -> Descriptor {
        Descriptor::new("pigeon", "Pigeon")
    }

    fn stop_rule(&self) -> StopRule {
        StopRule::Text
    }

    fn needs(&self) -> &'static [Need] {
        &[
            Need { name: "token", about: "the token on its ring", generated: false },
            Need { name: "webhook_secret", about: "what the platform proves itself with", generated: true },
        ]
    }

    async fn meet(&self, draft: &Bot) -> Result<PlatformBot, Trouble> {
        match draft.credentials.get("token") {
            Some(token) if token.matches(TOKEN) => {
                let mut settings = Map::new();
                settings.insert("username".to_owned(), "homer".into());
                Ok(PlatformBot { id: "7001".to_owned(), settings })
            }
            _ => Err(Trouble("the loft does not know this token".to_owned())),
        }
    }

    fn verify(&self, _bot: &Bot, _raw: Raw) -> Result<Verified, Refusal> {
        Err(Refusal::unproven("pigeons carry no signature"))
    }

    fn normalize(&self, _bot: &Bot, _verified: Verified) -> Result<Reading, Refusal> {
        Ok(Reading::default())
    }

    async fn acknowledge_interaction(&self, _bot: &Bot, _courtesy: InteractionAck) {}

    async fn carry(&self, _bot: &Bot, _order: Order) -> Carried {
        Outcome::failed("pigeons only rest in these tests").into()
    }

    async fn register(&self, _bot: &Bot, _door: Option<&str>) -> Result<Settled, Trouble> {
        Ok(Settled::Called)
    }

    async fn fetch(&self, _bot: Arc<Bot>, _intake: Intake, _stop: CancellationToken) {}
}
