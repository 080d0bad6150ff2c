//! `posthouse receipt`: receipts of the messages of programs.

use anyhow::{Context, bail};
use clap::Subcommand;
use posthouse_agent::post::{Fault, ReceiptQuery, ReceiptState};
use posthouse_wire::DispatchId;
use serde_json::{Value, json};

use super::admin_client::AdminClient;
use super::filters::{PageArgs, more};
use super::output::{Output, aligned, at, cell, without_control_characters};
use super::program_client::{CredentialArgs, ProgramClient};
use super::server_address::ServerOptions;

#[derive(Subcommand)]
pub enum Command {
    /// Lists receipts, newest first
    #[command(
        after_help = "The operator sees the receipts of all tenants, or of one; a client credential sees its own.\n\n\
        Examples:\n  \
        posthouse receipt list\n  \
        posthouse receipt list --tenant acme --agent heron --state failed\n  \
        posthouse receipt list --client-id tenant:ten_… --client-secret-file secret"
    )]
    List {
        /// Only messages to this agent
        #[arg(long, value_name = "AGENT")]
        agent: Option<String>,
        /// Only this state: scheduled, queued, delivered, acknowledged, failed or expired
        #[arg(long)]
        state: Option<String>,
        #[command(flatten)]
        page: PageArgs<50, 200>,
        #[command(flatten)]
        credential: CredentialArgs,
    },
    /// Shows every receipt of one dispatch, and what agents replied to it
    #[command(after_help = "Examples:\n  posthouse receipt show 7f3c9d52-…\n  \
        posthouse receipt show deploy-418 --client-id tenant:ten_… --client-secret-file secret")]
    Show {
        /// The dispatch id, as `posthouse notify` prints it
        #[arg(value_name = "DISPATCH")]
        dispatch: String,
        #[command(flatten)]
        credential: CredentialArgs,
    },
}

impl Command {
    pub async fn act(self, output: &Output, server: &ServerOptions) -> anyhow::Result<()> {
        match self {
            Command::List { agent, state, page: PageArgs { limit, after }, credential } => {
                // Only one page: the user asks for the newest receipts.
                if credential.is_program() {
                    let program = credential.connect(server).await?;
                    let state = state.as_deref().map(receipt_state).transpose()?;
                    let page = program
                        .post
                        .receipts(&ReceiptQuery { agent, state, after, limit: Some(limit) })
                        .await;
                    return list(output, &json!(page.map_err(|fault| program.error(fault))?));
                }
                let limit = limit.to_string();
                let query = [
                    ("agent", agent.as_deref()),
                    ("state", state.as_deref()),
                    ("limit", Some(limit.as_str())),
                    ("after", after.as_deref()),
                    ("tenant", credential.tenant.as_deref()),
                ];
                list(output, &AdminClient::new(server)?.get(&["receipts"], &query).await?)
            }
            Command::Show { dispatch, credential } => {
                // Programs choose dispatch ids, so several tenants may have the same one. A tenant that is
                // named sees only its own.
                let shown = match credential.is_program() || credential.tenant.is_some() {
                    true => of_dispatch(&credential.connect(server).await?, &dispatch).await?,
                    false => AdminClient::new(server)?.get(&["receipts", &dispatch], &[]).await?,
                };
                if output.json {
                    return output.value(&shown);
                }
                let receipts: Vec<String> =
                    shown["items"].as_array().into_iter().flatten().map(render).collect();
                output.text(&receipts.join("\n"))
            }
        }
    }
}

/// The receipts of one dispatch of a program.
async fn of_dispatch(program: &ProgramClient, dispatch: &str) -> anyhow::Result<Value> {
    match program.post.receipt(&DispatchId::new(dispatch)).await {
        Ok(receipts) => Ok(json!({ "dispatch_id": dispatch, "items": receipts })),
        Err(Fault::Refused { status: 404, .. }) => {
            bail!("you have no receipt with the dispatch id `{dispatch}`")
        }
        Err(fault) => Err(program.error(fault)),
    }
}

fn receipt_state(word: &str) -> anyhow::Result<ReceiptState> {
    let known = || ReceiptState::ALL.map(ReceiptState::word).join(", ");
    ReceiptState::from_word(word).with_context(|| format!("`state` must be one of {}", known()))
}

fn list(output: &Output, page: &Value) -> anyhow::Result<()> {
    if output.json {
        return output.value(page);
    }
    let mut items = page["items"].as_array().cloned().unwrap_or_default();
    for receipt in &mut items {
        receipt["accepted_at"] = at(&receipt["accepted_at"]).into();
    }
    let mut columns = vec![
        ("DISPATCH", "dispatch_id"),
        ("TENANT", "tenant"),
        ("AGENT", "agent_id"),
        ("CONNECTOR", "connector"),
        ("ROUTE", "route"),
        ("STATE", "state"),
        ("ACCEPTED", "accepted_at"),
        ("WHY", "error"),
    ];
    // The API for programs does not name the tenant, because a program has only one.
    columns
        .retain(|(_, name)| *name != "tenant" || items.iter().any(|receipt| receipt["tenant"].is_string()));
    output.list(items, &columns, "there are no receipts")?;
    more(page);
    Ok(())
}

/// One receipt as text: recipient, progress, and the agent's replies.
fn render(receipt: &Value) -> String {
    let whose = receipt["tenant"].as_str().map(|_| format!(" of {}", cell(&receipt["tenant"])));
    let mut text = format!(
        "{} {}  {}{} through {}  {}\n",
        cell(&receipt["dispatch_id"]),
        cell(&receipt["route"]),
        cell(&receipt["agent_id"]),
        whose.unwrap_or_default(),
        cell(&receipt["connector"]),
        cell(&receipt["state"]),
    );
    let mut rows = Vec::new();
    for (name, step) in [
        ("sent_at", "emitted"),
        ("accepted_at", "accepted"),
        ("delivered_at", "delivered"),
        ("acknowledged_at", "acknowledged"),
        ("due_at", "due"),
    ] {
        if receipt[name].is_number() {
            rows.push(vec![format!("  {}", at(&receipt[name])), step.to_owned()]);
        }
    }
    for reply in receipt["replies"].as_array().into_iter().flatten() {
        let said =
            without_control_characters(&reply["text"].as_str().unwrap_or_default().replace("\r\n", "\n"));
        let mut lines = said.lines();
        let first = lines.next().unwrap_or("-").to_owned();
        rows.push(vec![format!("  {}", at(&reply["at"])), cell(&reply["kind"]), first]);
        // Further lines of a reply go below its first line.
        rows.extend(lines.map(|line| vec![String::new(), String::new(), line.to_owned()]));
    }
    text.push_str(&aligned(&rows));
    let contract = &receipt["receipt"];
    for (name, value) in [
        ("error", &receipt["error"]),
        ("error kind", &receipt["error_kind"]),
        ("attempts", &receipt["attempts"]),
        ("queue lag (ms)", &receipt["queue_lag_ms"]),
        ("delivery id", &contract["delivery_id"]),
        ("session", &receipt["session_id"]),
        ("woken", &contract["woken"]),
    ] {
        if !value.is_null() {
            text.push_str(&format!("  {name}: {}\n", cell(value)));
        }
    }
    for warning in contract["warnings"].as_array().into_iter().flatten() {
        text.push_str(&format!("  warning: {}\n", cell(warning)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_tells_every_step_that_was_reached_and_nothing_else() {
        let text = render(&json!({
            "dispatch_id": "d-1", "route": "deliver", "agent_id": "heron", "tenant": "acme",
            "connector": "relay", "state": "delivered",
            "sent_at": 1_765_000_000_000_i64, "accepted_at": 1_765_000_000_007_i64,
            "delivered_at": 1_765_000_001_000_i64, "queue_lag_ms": 1000,
            "receipt": { "delivered_at": 1, "delivery_id": "ent_1", "warnings": ["slow"] },
            "replies": [{ "at": 1_765_000_002_000_i64, "kind": "said", "text": "on\r\nit\u{1b}\n\nnow" }],
        }));
        let expected = "d-1 deliver  heron of acme through relay  delivered\n\
            \x20 2025-12-06T05:46:40.000Z  emitted\n\
            \x20 2025-12-06T05:46:40.007Z  accepted\n\
            \x20 2025-12-06T05:46:41.000Z  delivered\n\
            \x20 2025-12-06T05:46:42.000Z  said       on\n\
            \x20                                      it\u{fffd}\n\
            \n\
            \x20                                      now\n\
            \x20 queue lag (ms): 1000\n\
            \x20 delivery id: ent_1\n\
            \x20 warning: slow\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_failure_is_told_with_its_kind_and_how_often_it_was_tried_and_a_program_is_not_told_whose_it_is() {
        let text = render(&json!({
            "dispatch_id": "d-1", "route": "deliver", "agent_id": "desk", "connector": "hooks", "state": "failed",
            "attempts": 3, "error": "the receiver answered 500", "error_kind": "http_status", "receipt": null,
        }));
        let expected = "d-1 deliver  desk through hooks  failed\n\
            \x20 error: the receiver answered 500\n\
            \x20 error kind: http_status\n\
            \x20 attempts: 3\n";
        assert_eq!(text, expected);
    }
}
