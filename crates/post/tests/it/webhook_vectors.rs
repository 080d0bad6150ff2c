//! Replays the recorded run of the webhook connector of the reference implementation.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use post::connector::{AgentConnector, AskOutcome, ConnectorError, ExpectedReply};
use posthouse_wire::delivery::{Cause, Payload, WakeOpts};
use serde::Serialize;
use serde_json::{Value, json};

use crate::bench::{Bench, NOW, emission, fails, fault};
use crate::receiver::{Receiver, Seen};

/// Steps that record a defect or a gap of the reference. There our own rule is tested instead, by the section of the
/// specification that makes it.
const OURS: [(&str, &str); 4] = [
    ("wake", "2.2: a wake is stamped, and tells its dispatch id and time"),
    ("wake composite", "2.2: the part before the first `@` is the agent, the rest its session"),
    ("wake failing", "1.8: a failed wake is a delivery failure that names status and address"),
    ("request_response", "3: a receiver can be asked"),
];

/// What the recorded receivers answer, inferred from what the reference made of it.
fn says(receiver: &str) -> (u16, &'static str) {
    match receiver {
        "ok" => (200, r#"{"delivered_at":1767225600009,"delivery_id":"d-1"}"#),
        "skipped" => (202, r#"{"id":"m-7","delivery_skipped":true}"#),
        "empty" => (204, ""),
        "text" => (200, "accepted"),
        "ts" => (200, r#"{"ok":true,"ts":"17.5"}"#),
        "bad" => (400, r#"{"error":"no"}"#),
        "down" => (503, ""),
        other => panic!("the vectors name an unknown receiver {other}"),
    }
}

struct Run {
    connector: Arc<dyn AgentConnector>,
    receiver: Receiver,
}

#[tokio::test]
async fn the_recorded_webhook_run_vectors_hold_step_by_step() {
    let folder = std::env::var_os("POSTHOUSE_VECTORS")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors")), PathBuf::from);
    let path = folder.join("skills/contracts/agent-webhook.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let recorded: Value = serde_json::from_str(&text).unwrap();
    let bench = Bench::open().await;
    let receiver = Receiver::open().await;
    let text = |value: &Value| value.as_str().map(|text| text.replace("<base>", &receiver.base));
    let config = &recorded["config"];
    bench.seal(text(&config["authorization"]).as_deref(), text(&config["hmac_secret"]).as_deref()).await;
    let agents = config["agents"].to_string().replace("<base>", &receiver.base);
    let agents: Value = serde_json::from_str(&agents).unwrap();
    let settings = json!({"agents": agents, "timeout_ms": config["timeout_ms"]});
    let run = Run { connector: bench.connector("webhook", settings), receiver };

    let steps = recorded["steps"].as_array().unwrap();
    let payload = steps.iter().find_map(|step| step["sent"][0]["body"].as_str()).unwrap();
    let payload: Payload = serde_json::from_str(payload).unwrap();
    for step in steps {
        let (status, body) = says(step["receiver"].as_str().unwrap());
        run.receiver.says(status, body);
        let label = step["label"].as_str().unwrap();
        if OURS.iter().any(|(ours, _)| *ours == label) {
            run.goes_our_way(label, &payload).await;
        } else {
            run.goes_as_recorded(label, step, &payload).await;
        }
    }
    for (label, section) in OURS {
        assert!(steps.iter().any(|step| step["label"] == label), "{label} ({section}) is not in the vectors");
    }
}

impl Run {
    async fn goes_as_recorded(&self, label: &str, step: &Value, any: &Payload) {
        let connector = &self.connector;
        let outcome = match label {
            "augment" | "template" => {
                let payload = serde_json::from_str(step["sent"][0]["body"].as_str().unwrap()).unwrap();
                self.render(connector.deliver("desk", &payload).await)
            }
            "unknown agent" => self.render(connector.deliver("nobody", any).await),
            "composite address is not decomposed" => self.render(connector.deliver("desk@pane", any).await),
            "wake without wake_url" => {
                self.render(connector.wake("mute", &WakeOpts::default(), &emission("d-1")).await)
            }
            "health ok" | "health down" => json!({"ok": connector.health_check().await}),
            "list_agents" => self.render(connector.list_agents().await),
            other => panic!("the vectors hold an unknown step {other}"),
        };
        assert_eq!(outcome, step["result"], "{step}");
        let sent = step["sent"].as_array().unwrap();
        let seen = self.receiver.seen();
        assert_eq!(seen.len(), sent.len(), "{step}");
        for (seen, sent) in seen.iter().zip(sent) {
            is_as_recorded(seen, sent);
        }
    }

    async fn goes_our_way(&self, label: &str, any: &Payload) {
        let none = WakeOpts::default();
        match label {
            "wake" => {
                let woken = self.connector.wake("desk", &none, &emission("d-7")).await.unwrap();
                assert!(woken.woken && woken.woken_at == NOW && woken.session_id.is_none());
                let seen = self.receiver.one();
                assert_eq!(seen.path, "/wake/desk");
                let body = format!(r#"{{"agent_id":"desk","dispatch_id":"d-7","sent_at":{}}}"#, NOW - 5);
                assert_eq!(seen.body, body.as_bytes());
                assert_eq!(seen.header("authorization"), Some("Bearer t-1"));
                assert!(seen.header("x-signature").unwrap().starts_with("sha256="));
            }
            "wake composite" => {
                let woken = self.connector.wake("desk@pane", &none, &emission("d-7")).await.unwrap();
                assert!(woken.woken && woken.session_id.as_deref() == Some("pane"));
                let body = self.receiver.one().json();
                assert_eq!((&body["agent_id"], &body["session_id"]), (&json!("desk"), &json!("pane")));
            }
            "wake failing" => {
                let failed = fault(self.connector.wake("desk", &none, &emission("d-7")).await);
                assert_eq!((failed.cause_kind, failed.http_status), (Cause::HttpStatus, Some(503)));
                assert_eq!(failed.message, format!("HTTP 503 from {}/wake/desk", self.receiver.base));
                self.receiver.one();
            }
            "request_response" => {
                let timeout = Duration::from_secs(5);
                let question = ExpectedReply { correlation_id: "c-1".into(), timeout, reply_to: None };
                let replied = self.connector.request_response("desk", any, &question).await.unwrap();
                assert!(matches!(replied, AskOutcome::Awaited(_)), "{replied:?}");
                self.receiver.one();
                let unknown = self.connector.request_response("nobody", any, &question).await;
                fails(unknown, Cause::ClientValidation);
            }
            other => panic!("no rule for {other}"),
        }
    }

    /// An outcome in the words of the recording, which calls the receiver `receiver`.
    fn render<T: Serialize>(&self, outcome: Result<T, ConnectorError>) -> Value {
        match outcome {
            Ok(value) => json!({"ok": value}),
            Err(ConnectorError::Failed(failed)) => {
                let message = failed.message.replace(&self.receiver.base, "http://receiver");
                json!({"throws": {"class": "DeliveryFailedError", "message": message}})
            }
            Err(other) => panic!("{other}"),
        }
    }
}

fn is_as_recorded(seen: &Seen, sent: &Value) {
    assert_eq!(
        (seen.method.as_str(), seen.path.as_str()),
        (sent["method"].as_str().unwrap(), sent["path"].as_str().unwrap())
    );
    assert_eq!(std::str::from_utf8(&seen.body).unwrap(), sent["body"].as_str().unwrap());
    for name in ["content-type", "authorization", "x-signature", "accept"] {
        assert_eq!(seen.header(name), sent["headers"][name].as_str(), "{name} in {sent}");
    }
}
