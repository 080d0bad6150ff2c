//! A button that heron showed in the web chat and ana pressed. The press brought heron a capability.

use posthouse_wire::Action;
use posthouse_wire::action::{Metadata, PromptKind, PromptOption};
use serde_json::{Value, json};

use super::actors::Actors;
use super::doors::{DoorRequest, WrongCaller};
use super::web;

/// The chat page of ana, who has a room with heron.
pub struct AnasPage {
    ana: WrongCaller,
    pub room: String,
}

impl AnasPage {
    /// Ana presses a button of heron's, which brings heron a capability.
    pub async fn open(actors: &mut Actors) -> Self {
        let words = ["invite", "create", "ana", "--tenant", "acme", "--agent", "heron"];
        let invitation = web::link(&actors.server.does(&words));
        let ana = web::signs_in(actors, "ana", &invitation).await;
        let mut page = Self { ana, room: String::new() };
        page.room = page.enters(actors).await["room"].as_str().unwrap().to_owned();
        let said = json!({ "text": "hello heron", "nonce": "ana-00001" });
        let heard = actors.sends(&page.ana, "POST", &page.request("messages").json(&said)).await;
        assert_eq!(heard.status, 200, "{}", heard.whole());
        assert_eq!(actors.heron_rides.hears().await.event.text, "hello heron");
        let prompt = Action::Prompt {
            chat_id: page.room.as_str().into(),
            prompt_kind: PromptKind::Choice,
            prompt_id: "p1".into(),
            content: "shall I?".to_owned(),
            options: vec![PromptOption { id: "yes".into(), label: "Yes".to_owned(), style: None }],
            reply_to: None,
            metadata: Metadata::default(),
        };
        let shown = actors.heron_rides.asks("web", &actors.instance.there.clone(), prompt).await;
        let press = json!({ "message_id": shown.message_id.unwrap(), "option_id": "yes" });
        let heard = actors.sends(&page.ana, "POST", &page.request("presses").json(&press)).await;
        assert_eq!(heard.status, 200, "{}", heard.whole());
        assert!(actors.heron_rides.hears().await.event.prompt_response.is_some());
        page
    }

    fn request(&self, operation: &str) -> DoorRequest {
        DoorRequest::to(&format!("/chat/api/rooms/{}/{operation}", self.room))
    }

    async fn enters(&self, actors: &Actors) -> Value {
        let enters = DoorRequest::to("/chat/api/rooms").json(&json!({ "agent": actors.instance.there }));
        actors.sends(&self.ana, "POST", &enters).await.json()
    }

    /// What ana sees of the agent, oldest first.
    pub async fn shows(&self, actors: &Actors) -> Vec<String> {
        let entered = self.enters(actors).await;
        let lines = entered["history"].as_array().unwrap().iter().filter(|line| line["author"] == "agent");
        lines.map(|line| line["text"].as_str().unwrap().to_owned()).collect()
    }
}
