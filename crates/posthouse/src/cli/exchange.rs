//! `posthouse exchange`: questions of programs and their state.

use anyhow::anyhow;
use clap::Subcommand;
use posthouse_agent::post::{Fault, QuestionProgress};
use posthouse_wire::CorrelationId;
use serde_json::{Value, json};

use super::filters::{PageArgs, more};
use super::output::{Output, at, cell, without_control_characters};
use super::program_client::{CredentialArgs, ProgramClient};
use super::server_address::ServerOptions;

#[derive(Subcommand)]
pub enum Command {
    /// Lists questions and their state, newest first
    #[command(after_help = "Examples:\n  posthouse exchange list --tenant acme\n  \
        posthouse exchange list --client-id tenant:ten_… --client-secret-file secret --json")]
    List {
        #[command(flatten)]
        page: PageArgs<50, 200>,
        #[command(flatten)]
        credential: CredentialArgs,
    },
    /// Shows the state of one question, with its answer if there is one; does not wait
    #[command(after_help = "`posthouse ask --attach` waits for the answer.\n\nExample:\n  \
        posthouse exchange show release-7 --tenant acme")]
    Show {
        /// Its correlation id
        #[arg(value_name = "CORRELATION_ID")]
        question: String,
        #[command(flatten)]
        credential: CredentialArgs,
    },
}

impl Command {
    pub async fn act(self, output: &Output, server: &ServerOptions) -> anyhow::Result<()> {
        match self {
            Command::List { page: PageArgs { limit, after }, credential } => {
                let program = credential.connect(server).await?;
                let page = program.post.exchanges(after.as_deref(), Some(limit)).await;
                list(output, &json!(page.map_err(|fault| program.error(fault))?))
            }
            Command::Show { question, credential } => {
                let program = credential.connect(server).await?;
                let shown = state_of(&program, &CorrelationId::from(question)).await?;
                if output.json {
                    return output.value(&shown);
                }
                output.text(&render(&shown))
            }
        }
    }
}

fn list(output: &Output, page: &Value) -> anyhow::Result<()> {
    if output.json {
        return output.value(page);
    }
    let mut items = page["items"].as_array().cloned().unwrap_or_default();
    for question in &mut items {
        for time in ["opened_at", "deadline"] {
            question[time] = at(&question[time]).into();
        }
    }
    let columns = [
        ("QUESTION", "correlation_id"),
        ("AGENT", "agent_id"),
        ("CONNECTOR", "connector"),
        ("STATE", "state"),
        ("ASKED", "opened_at"),
        ("UNTIL", "deadline"),
        ("DISPATCH", "dispatch_id"),
        ("WHY", "error"),
    ];
    output.list(items, &columns, "there are no questions")?;
    more(page);
    Ok(())
}

/// State of a question. Even a timeout or a failure is a result here, not an error.
async fn state_of(program: &ProgramClient, question: &CorrelationId) -> anyhow::Result<Value> {
    let (state, mut shown) = match program.post.question(question).await {
        Ok(QuestionProgress::Answered(answer)) => ("answered", json!(answer)),
        Ok(QuestionProgress::Open { deadline }) => ("open", json!({ "deadline": deadline })),
        Err(Fault::Timeout(why)) => ("timed_out", json!({ "error": why, "error_kind": null })),
        Err(Fault::Refused { code, detail, cause_kind, .. }) if code == "delivery_failed" => {
            ("failed", json!({ "error": detail, "error_kind": cause_kind }))
        }
        Err(Fault::Refused { status: 404, .. }) => {
            return Err(anyhow!("you have no question with the id `{question}`"));
        }
        Err(fault) => return Err(program.error(fault)),
    };
    shown["correlation_id"] = json!(question);
    shown["state"] = state.into();
    Ok(shown)
}

fn render(question: &Value) -> String {
    let id = cell(&question["correlation_id"]);
    match question["state"].as_str() {
        Some("answered") => {
            let content = without_control_characters(question["content"].as_str().unwrap_or_default());
            let (agent, when) = (cell(&question["agent_id"]), at(&question["sent_at"]));
            format!("{id}  answered by {agent}  {when}\n\n{}\n", content.trim_end_matches('\n'))
        }
        Some("open") => format!("{id}  open until {}\n", at(&question["deadline"])),
        Some("timed_out") => format!("{id}  timed out: {}\n", cell(&question["error"])),
        _ => format!("{id}  failed: {}\n", cell(&question["error"])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_told_as_it_stands() {
        for (question, text) in [
            (
                json!({ "correlation_id": "q-1", "state": "answered", "agent_id": "heron", "sent_at": 1_765_000_000_000_i64, "content": "two\nlines\u{1b}\n" }),
                "q-1  answered by heron  2025-12-06T05:46:40.000Z\n\ntwo\nlines\u{fffd}\n",
            ),
            (
                json!({ "correlation_id": "q-2", "state": "open", "deadline": 1_765_000_000_000_i64 }),
                "q-2  open until 2025-12-06T05:46:40.000Z\n",
            ),
            (
                json!({ "correlation_id": "q-3", "state": "timed_out", "error": "no answer within 5 ms" }),
                "q-3  timed out: no answer within 5 ms\n",
            ),
            (json!({ "correlation_id": "q-4", "state": "failed", "error": "away" }), "q-4  failed: away\n"),
        ] {
            assert_eq!(render(&question), text);
        }
    }
}
