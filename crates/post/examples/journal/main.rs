//! Example of a custom connector, run without a server: `cargo run -p post --example journal -- FILE` delivers to the
//! agent `desk`, wakes it, asks it, and prints the results. `docs/guide/connector.md` explains how to add a connector
//! to the server.

mod connector;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use connector::Journal;
use post::connector::{AgentConnector, Emission, ExpectedReply};
use posthouse_time::Timepiece;
use posthouse_wire::delivery::{Payload, PayloadKind, WakeOpts};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("desk.log"), PathBuf::from);
    let timepiece = Timepiece::wall();
    let journal = Journal { logs: BTreeMap::from([("desk".to_owned(), file)]), timepiece: timepiece.clone() };

    // In a server the post fills in the meta, and the connector only receives it.
    let meta = json!({
        "dispatch_id": "d-1", "sent_at": timepiece.now().millis(), "correlation_id": "q-1",
        "origin": { "skill_name": "example", "trigger_kind": "cli" },
    });
    let told = Payload {
        kind: PayloadKind::Augment,
        text: "the deploy is through".to_owned(),
        meta: serde_json::from_value(meta)?,
    };
    println!("healthy:  {}", journal.health_check().await);
    println!("deliver:  {:?}", journal.deliver("desk", &told).await?);

    let opts = WakeOpts { context: Some("come and see".to_owned()), ..WakeOpts::default() };
    let emission =
        Emission { dispatch_id: "d-2".into(), sent_at: timepiece.now(), from: "example".to_owned() };
    println!("wake:     {:?}", journal.wake("desk@night", &opts, &emission).await?);

    let question =
        ExpectedReply { correlation_id: "q-1".into(), timeout: Duration::from_secs(5), reply_to: None };
    for (what, agent) in [("ask:     ", "desk"), ("stranger:", "nobody")] {
        let undone = match agent {
            "desk" => journal.request_response(agent, &told, &question).await.err(),
            _ => journal.deliver(agent, &told).await.err(),
        };
        println!("{what} {}", undone.map_or_else(|| "done".to_owned(), |undone| undone.to_string()));
    }
    Ok(())
}
