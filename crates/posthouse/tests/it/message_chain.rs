//! Chains of messages: a skill writes to one agent, whose answer starts a skill that asks another agent. One trace shows
//! all of it.

use serde_json::{Value, json};

use crate::receiver::Receiver;
use crate::test_server::TestServer;
use crate::tools::ToolClient;

/// Writes to heron in a skill that another one calls.
const MORNING: &str =
    "# Skill: morning\n# Status: Approved\ngo:\n    $ execute_skill name=\"greet\"\ndefault: go\n";
const GREET: &str = "# Skill: greet\n# Status: Approved\ngo:\n    notify(agent=\"heron\", message=\"any news?\")\n\
                     default: go\n";
/// Asks otter what to do about the news.
const FOLLOW: &str = "# Skill: follow\n# Status: Approved\n# Vars: NEWS\n# Triggers: event: news\ngo:\n    \
                      exchange(agent=\"otter\", message=\"what about ${NEWS}?\", timeout=60) -> R\n    \
                      emit(text=\"${R.content}\")\ndefault: go\n";

/// A tenant whose agents heron and otter are behind a webhook that answers every question.
struct Fixture {
    server: TestServer,
    receiver: Receiver,
    program: ToolClient,
}

impl Fixture {
    async fn open() -> Self {
        let server = TestServer::open(&[]);
        let receiver = Receiver::open().await;
        let program = Self::tenant(&server, "acme");
        let url = receiver.at("answering");
        let agents = json!({ "agents": { "heron": { "url": url }, "otter": { "url": url } } }).to_string();
        let file = server.secret_file("connector.json", &agents);
        let words =
            ["connector", "create", "hook", "--tenant", "acme", "--kind", "webhook", "--settings", &file];
        server.does(&words);
        for (name, text) in [("morning", MORNING), ("greet", GREET), ("follow", FOLLOW)] {
            let file = server.secret_file(name, text);
            server.does(&["skill", "write", name, &file, "--tenant", "acme"]);
        }
        Self { server, receiver, program }
    }

    fn tenant(server: &TestServer, name: &str) -> ToolClient {
        server.does(&["tenant", "create", name]);
        ToolClient::create(server, &["--tenant", name])
    }

    /// Runs the first skill, and returns the body of its message to heron.
    async fn greets(&self) -> Value {
        let params = json!({ "name": "execute_skill", "arguments": { "name": "morning" } });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let (_, _, answer) = self.program.post("/rpc", &[], &call.to_string()).await;
        assert!(answer.contains(r#"\"errors\":[]"#), "{answer}");
        self.receiver.called(|call| call.body["agent_id"] == "heron").await.body
    }

    /// Sends the event, and returns the status and the body of the response.
    async fn sends_news(client: &ToolClient, cause: &str) -> (u16, Value) {
        let cause = [("posthouse-cause", cause)];
        let (status, _, body) = client.post("/v1/events/news", &cause, r#"{"NEWS":"rain"}"#).await;
        (status, serde_json::from_str(&body).unwrap())
    }

    fn trace(&self, id: &str) -> Vec<Value> {
        self.server.does(&["message", "trace", id])["items"].as_array().unwrap().clone()
    }
}

fn dispatch(body: &Value) -> &str {
    body["meta"]["dispatch_id"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_shows_a_chain_of_two_agents_and_the_skills_between_them() {
    let fixture = Fixture::open().await;
    let greeting = fixture.greets().await;
    let origin = json!({ "skill_name": "greet", "entry_skill_name": "morning", "trigger_kind": "inline" });
    assert_eq!(greeting["meta"]["origin"], origin, "{greeting}");
    let (status, accepted) = Fixture::sends_news(&fixture.program, dispatch(&greeting)).await;
    assert_eq!(status, 202, "{accepted}");
    let follow = accepted["run_id"].as_str().unwrap();
    let question = fixture.receiver.called(|call| call.body["agent_id"] == "otter").await.body;
    let origin = json!({ "skill_name": "follow", "trigger_kind": "event" });
    assert_eq!(question["meta"]["origin"], origin, "{question}");

    let (first, last) = (dispatch(&greeting), dispatch(&question));
    for id in [first, last, follow] {
        let items = fixture.trace(id);
        let step = |dispatch: &str| {
            let found = items.iter().filter(|item| item["dispatch_id"] == dispatch).collect::<Vec<_>>();
            assert_eq!(found.len(), 1, "{id}: {items:?}");
            found[0].clone()
        };
        assert_eq!(items.len(), 2, "{id}: {items:?}");
        assert_eq!((&step(first)["what"], &step(last)["what"]), (&json!("deliver"), &json!("exchange")));
        assert_eq!((&step(first)["led_to"], &step(last)["runs"]), (&json!([follow]), &json!([follow])));
    }
    let shown = fixture.server.does(&["run", "show", follow, "--tenant", "acme"]);
    assert_eq!((&shown["cause"], &shown["dispatches"]), (&json!(first), &json!([last])), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_names_only_a_message_of_its_sender_as_the_cause() {
    let fixture = Fixture::open().await;
    let greeting = fixture.greets().await;
    let stranger = Fixture::tenant(&fixture.server, "zen");
    let file = fixture.server.secret_file("follow", FOLLOW);
    fixture.server.does(&["skill", "write", "follow", &file, "--tenant", "zen"]);
    fixture.server.does(&["agent", "create", "owl", "--tenant", "acme"]);
    let owl = ToolClient::create(&fixture.server, &["--tenant", "acme", "--agent", "owl"]);
    let refused = Fixture::sends_news(&fixture.program, "nobody-sent-this").await;
    assert_eq!((refused.0, &refused.1["code"]), (422, &json!("unknown_cause")), "{refused:?}");
    for (who, id) in
        [(&stranger, dispatch(&greeting)), (&owl, dispatch(&greeting)), (&fixture.program, "a b")]
    {
        assert_eq!(Fixture::sends_news(who, id).await, refused, "{id}");
    }
    assert_eq!(fixture.trace(dispatch(&greeting))[0]["led_to"], Value::Null);
    // An agent may name what it got.
    let key = [("idempotency-key", "for-owl")];
    let told = fixture.program.post("/v1/notify", &key, r#"{"agent":"owl","message":"rain"}"#).await;
    assert_eq!(told.0, 200, "{told:?}");
    let accepted = Fixture::sends_news(&owl, "for-owl").await;
    assert_eq!(accepted.0, 202, "{accepted:?}");
    assert_eq!(fixture.trace("for-owl")[0]["led_to"], json!([accepted.1["run_id"]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_dispatch_id_in_two_tenants_is_two_chains() {
    let fixture = Fixture::open().await;
    let zen = Fixture::tenant(&fixture.server, "zen");
    let file = fixture.server.secret_file("follow", FOLLOW);
    fixture.server.does(&["skill", "write", "follow", &file, "--tenant", "zen"]);
    for (client, tenant) in [(&fixture.program, "acme"), (&zen, "zen")] {
        fixture.server.does(&["agent", "create", "owl", "--tenant", tenant]);
        let key = [("idempotency-key", "greeting")];
        let told = client.post("/v1/notify", &key, r#"{"agent":"owl","message":"rain"}"#).await;
        assert_eq!(told.0, 200, "{told:?}");
    }
    let accepted = Fixture::sends_news(&zen, "greeting").await;
    assert_eq!(accepted.0, 202, "{accepted:?}");
    let led_to: Vec<Value> = fixture.trace("greeting").iter().map(|item| item["led_to"].clone()).collect();
    assert_eq!(led_to.len(), 2, "{led_to:?}");
    assert!(led_to.contains(&Value::Null) && led_to.contains(&json!([accepted.1["run_id"]])), "{led_to:?}");
}
