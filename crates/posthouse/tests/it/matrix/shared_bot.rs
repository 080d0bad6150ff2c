//! Permission matrix of a bot that several tenants share: each agent is linked to a person, all of them were spoken to in one
//! group, and heron has claimed that group.

use posthouse_agent::RelayTransport;
use serde_json::{Value, json};
use stand_ins::telegram::{Injection, TelegramStandIn};

use super::actors::{Actors, RecordedResponse, gateway_token};
use super::doors::{DoorRequest, WrongCaller};
use super::{Cells, Name};
use crate::talk::{PATIENCE, Rider, count, is_told, says};

/// The id of the shared bot.
pub const BOT: &str = "6001";
const BOT_NUMBER: i64 = 6001;
/// The people who are linked to heron, to wren and to otter.
pub const HERONS_PERSON: i64 = 440_044;
pub const WRENS_PERSON: i64 = 550_055;
pub const OTTERS_PERSON: i64 = 660_066;
/// The group that heron has claimed.
pub const GROUP: i64 = -1001;
pub const LINKED: &str = "You are linked now. Your messages to this bot go to your agent.";

/// Heron's person, and somebody whom nobody knows.
pub fn person() -> Name {
    Name::new("440044", "440045")
}

/// Heron's group, and one that nobody has.
pub fn group() -> Name {
    Name::new("-1001", "-1002")
}

/// Somebody writes in the group.
pub fn writes(telegram: &TelegramStandIn, person: i64, text: &str) {
    let message = Injection { chat_type: Some("supergroup".to_owned()), ..Injection::text(GROUP, text) };
    telegram.inject(message.by(person, "Somebody").to_bot(BOT_NUMBER)).unwrap();
}

/// Somebody writes to the shared bot in their own chat with it.
pub fn writes_alone(telegram: &TelegramStandIn, person: i64, text: &str) {
    says(telegram, BOT_NUMBER, person, text);
}

impl Actors {
    /// Calls an operation as the gateway of an agent.
    pub async fn manages(&self, agent: &Value, method: &str, path: &str, body: &Value) -> RecordedResponse {
        let by = WrongCaller::bearer("itself", &gateway_token(agent));
        let request = DoorRequest::to(path);
        self.sends(&by, method, &if method == "GET" { request } else { request.json(body) }).await
    }

    /// What an agent learns about itself, as JSON.
    pub async fn status_of(&self, agent: &Value) -> Value {
        let heard = self.manages(agent, "GET", "/manage/status", &Value::Null).await;
        assert_eq!(heard.status, 200, "{}", heard.whole());
        heard.json()
    }

    /// Links a person to an agent with a code that the agent asked for, and with further members in its body.
    pub async fn links(&self, agent: &Value, person: i64, body: &Value) {
        let heard = self.manages(agent, "POST", "/manage/link", body).await;
        assert_eq!(heard.status, 200, "{}", heard.whole());
        let code = heard.json()["code"].as_str().unwrap().to_owned();
        writes_alone(&self.telegram, person, &format!("/link {code}"));
        assert!(is_told(&self.telegram, person, LINKED).await, "{person}");
    }

    /// Heron gets a link, a live claim, policies and a stop URL. Wren and otter get a link, and could claim the group
    /// too if heron had not.
    pub async fn share_a_bot(&mut self) {
        let (heron, wren, otter) = (self.heron.clone(), self.wren.clone(), self.otter.clone());
        self.links(&heron, HERONS_PERSON, &json!({})).await;
        writes_alone(&self.telegram, HERONS_PERSON, "hello heron");
        assert_eq!(self.heron_rides.hears().await.event.text, "hello heron");
        writes(&self.telegram, HERONS_PERSON, "all of us");
        assert_eq!(self.heron_rides.hears().await.event.text, "all of us");
        let scope = json!({ "platform": "telegram", "scopeId": GROUP.to_string() });
        let relevance = json!({ "platform": "telegram", "requireAddress": false, "freeResponseScopes": ["-7"],
            "allowOtherBots": false });
        for (path, body) in [
            ("/manage/scope", scope),
            ("/manage/principal", json!({ "policy": "any" })),
            ("/manage/dm-default", json!({ "platform": "telegram", "userId": HERONS_PERSON.to_string() })),
            ("/relay/policy", relevance),
        ] {
            let heard = self.manages(&heron, "POST", path, &body).await;
            assert_eq!(heard.body, r#"{"ok":true}"#, "{path}: {}", heard.whole());
        }
        self.server.does(&["agent", "change", "heron", "--tenant", "acme", "--stop-url", STOP_URL]);
        for (agent, person) in [(&wren, WRENS_PERSON), (&otter, OTTERS_PERSON)] {
            let mut rides = Rider::dial(&self.server, agent, &[("telegram", BOT)]).await;
            self.links(agent, person, &json!({})).await;
            writes_alone(&self.telegram, person, "hello");
            assert_eq!(rides.hears().await.event.text, "hello");
            writes(&self.telegram, person, "all of us");
            assert_eq!(rides.hears().await.event.text, "all of us");
            self.has_read_everything(agent).await;
            rides.transport.disconnect().await;
        }
    }

    /// Waits until an agent has acknowledged everything.
    async fn has_read_everything(&self, agent: &Value) {
        let read = async {
            while self.status_of(agent).await["buffered"] != 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, read).await.expect("it did not acknowledge");
    }

    /// Whoever is linked to heron and whoever may write to it still reaches it. What others sent in its name would come
    /// before this.
    pub async fn still_shares_a_bot(&mut self) {
        for person in [HERONS_PERSON, 330_033] {
            let text = format!("{person} writes to heron");
            writes(&self.telegram, person, &text);
            assert_eq!(self.heron_rides.hears().await.event.text, text);
        }
        writes_alone(&self.telegram, HERONS_PERSON, "are you still here?");
        assert_eq!(self.heron_rides.hears().await.event.text, "are you still here?");
        let shown = self.server.does(&["agent", "show", "heron", "--tenant", "acme"]);
        assert_eq!(shown["stop_url"], STOP_URL);
    }
}

/// Otter's own bot, whose secrets its tenant knows. It can say there that anybody wrote anything.
const OTTERS_BOT: i64 = 8001;
/// Somebody who is linked to no agent.
const NOBODYS_PERSON: i64 = 770_077;

/// Otter links people to itself on its own bot: heron's person, and somebody who is linked to nobody.
pub async fn vouch(actors: &mut Actors, cells: &mut Cells) {
    actors.share_a_bot().await;
    let otter = actors.otter.clone();
    let identities = [("telegram", "8001"), ("telegram", BOT)];
    let mut rides = Rider::dial(&actors.server, &otter, &identities).await;
    for person in [HERONS_PERSON, NOBODYS_PERSON] {
        let told = count(&actors.telegram, person, LINKED);
        let made = actors.manages(&otter, "POST", "/manage/link", &json!({})).await;
        let code = made.json()["code"].as_str().unwrap().to_owned();
        says(&actors.telegram, OTTERS_BOT, person, &format!("/link {code}"));
        let linked = |telegram: &TelegramStandIn| count(telegram, person, LINKED) > told;
        assert!(actors.telegram.until(PATIENCE, linked).await, "its own bot links whom it likes: {person}");
        let body = json!({ "platform": "telegram", "userId": person.to_string() });
        assert_eq!(actors.manages(&otter, "POST", "/manage/dm-default", &body).await.status, 200);
        writes_alone(&actors.telegram, person, &format!("{person} writes alone"));
        writes(&actors.telegram, person, &format!("{person} writes in the group"));
        // What it says to them on the shared bot is refused as for somebody whom nobody knows.
        let stranger = rides.sends("telegram", BOT, "770078", "psst").await;
        let answer = rides.sends("telegram", BOT, &person.to_string(), "psst").await;
        let (there, absent) = (format!("{answer:?}"), format!("{stranger:?}"));
        cells.cell(
            "people of others",
            &format!("otter writes to {person}"),
            !answer.success,
            &there,
            &absent,
        );
    }
    // Heron's policy lets everybody write in its group.
    let herons = [HERONS_PERSON, NOBODYS_PERSON];
    let mut expected = vec![format!("{} writes alone", herons[0])];
    expected.extend(herons.map(|person| format!("{person} writes in the group")));
    let mut heard = Vec::new();
    for _ in &expected {
        heard.push(actors.heron_rides.hears().await.event.text);
    }
    heard.sort();
    expected.sort();
    let shown = format!("{heard:?}");
    cells.cell("people of others", "heron's people reach heron", heard == expected, &shown, &shown);
    // Whatever otter got of them came before this.
    writes_alone(&actors.telegram, OTTERS_PERSON, "the last one");
    let last = rides.hears().await.event.text;
    cells.cell("people of others", "otter gets none of it", last == "the last one", &last, &last);
    rides.transport.disconnect().await;
}

/// Nobody listens there.
const STOP_URL: &str = "http://127.0.0.1:9/stop";
