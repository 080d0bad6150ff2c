//! Telegram Business: customers of a business are answered in its name.

use std::sync::Arc;

use edge::platform::{Platform, VerifiedRequest};
use posthouse_time::Timepiece;
use relay::{Egress, PermittedAction};
use serde_json::{Value, json};
use stand_ins::telegram::{Filter, Injection};

use super::actors::{Fixture, error, open, send};
use super::test_server::TestServer;

const CONNECTION: &str = "canary-connection";

struct Business {
    fixture: Fixture,
    server: TestServer,
}

impl Business {
    async fn open() -> Self {
        let mut fixture = open(Timepiece::wall()).await;
        fixture.bot.settings.insert("business".to_owned(), json!("on"));
        let platform: Arc<dyn Platform> = Arc::new(fixture.telegram.clone());
        let server = TestServer::with_platform(&fixture.bot, &fixture.clock, platform).await;
        Self { fixture, server }
    }

    /// Person 9 writes, to the business or to the bot itself, and the agent gets it.
    async fn hears(&self, kind: &str, connection: Option<&str>) {
        assert_eq!(self.takes(kind, connection).await, 1);
    }

    /// Person 9 writes. Returns how many messages the agent gets.
    async fn takes(&self, kind: &str, connection: Option<&str>) -> usize {
        let mut message = json!({"text": "hello", "chat": {"id": 9, "type": "private", "first_name": "Eve"},
            "from": {"id": 9, "first_name": "Eve"}});
        if let Some(connection) = connection {
            message["business_connection_id"] = json!(connection);
        }
        let injected = self.fixture.stand_in.inject(Injection::update(json!({ (kind): message }))).unwrap();
        let verified = VerifiedRequest::fetched(injected.update.to_string(), self.fixture.clock.now());
        let platform: Arc<dyn Platform> = Arc::new(self.fixture.telegram.clone());
        let reading = platform.normalize(&self.fixture.bot, verified).unwrap();
        let bot = Arc::new(self.fixture.bot.clone());
        let taken = self.server.intake().take(&platform, &bot, reading, None).await.unwrap();
        taken.entries.len()
    }

    fn order(&self, text: &str) -> PermittedAction {
        let order = self.fixture.order(send("9", text));
        PermittedAction { instance: self.server.agent.clone(), ..order }
    }

    fn last_call(&self) -> Value {
        let sent = self.fixture.stand_in.transcript(&Filter::sent(9)).pop().unwrap();
        serde_json::from_str(sent.raw.get()).unwrap()
    }
}

#[tokio::test]
async fn a_reply_to_a_customer_is_sent_in_the_name_of_the_business() {
    let business = Business::open().await;
    business.hears("business_message", Some(CONNECTION)).await;
    let without = business.fixture.outcome(send("9", "as the bot")).await;
    assert!(error(&without).starts_with("Forbidden"), "the stand-in refuses the bot itself");
    let sent = business.server.edge().perform(business.order("as the business")).await;
    assert!(sent.outcome.success, "{sent:?}");
    assert_eq!(business.last_call()["business_connection_id"], CONNECTION);
    for entry in business.server.texts().await {
        assert!(!entry.contains("canary"), "{entry}");
    }

    // Now they write to the bot itself, and are answered by it.
    business.hears("message", None).await;
    assert!(business.server.edge().perform(business.order("as the bot")).await.outcome.success);
    assert_eq!(business.last_call()["business_connection_id"], Value::Null);
}

#[tokio::test]
async fn another_agent_does_not_speak_for_the_business() {
    let business = Business::open().await;
    business.hears("business_message", Some(CONNECTION)).await;
    let foreign = PermittedAction { instance: "inst_other".into(), ..business.order("psst") };
    let refused = business.server.edge().perform(foreign).await.outcome;
    assert!(error(&refused).starts_with("Forbidden"));
}

#[tokio::test]
async fn a_business_account_that_nobody_asked_for_gets_no_answer_of_the_agent() {
    let mut business = Business::open().await;
    business.hears("business_message", Some(CONNECTION)).await;
    // The operator turns it off. The connection from before is no longer used either.
    business.fixture.bot.settings.insert("business".to_owned(), json!("off"));
    assert_eq!(business.takes("business_message", Some(CONNECTION)).await, 0);
    let order = PermittedAction { instance: business.server.agent.clone(), ..business.order("psst") };
    let connection = posthouse_wire::Secret::new(CONNECTION);
    let sent = business.fixture.telegram.carry_with(&business.fixture.bot, order, None, &connection).await;
    assert!(error(&sent.outcome).starts_with("Forbidden"), "the bot itself has no chat with them");
}
