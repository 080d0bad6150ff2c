//! `posthouse access`: who may write to a bot.

use std::io::{BufRead, IsTerminal, Write};
use std::time::Duration;

use anyhow::Context;
use clap::Subcommand;
use serde_json::{Value, json};

use super::admin_client::AdminClient;
use super::bot::split;
use super::filters::BotFilter;
use super::output::{Output, cell};

#[derive(Subcommand)]
pub enum Command {
    /// Lists who may write to a bot, who may not, and who has asked to
    #[command(
        after_help = "Examples:\n  posthouse access list\n  posthouse access list --bot telegram:7001 --json"
    )]
    List {
        #[command(flatten)]
        filter: BotFilter,
        /// The bot, as an older spelling of --bot
        #[arg(value_name = "PLATFORM:ID", hide = true, conflicts_with_all = ["platform", "bot"])]
        bot_word: Option<String>,
    },
    /// Admits a sender, by the pairing code that the bot gave them or by their id
    #[command(
        after_help = "A person is admitted for their direct conversation with the bot, a group or channel as a \
        whole.\n\nExamples:\n  \
        posthouse access allow telegram:7001 K7QF3M\n  \
        posthouse access allow telegram:7001 user:5550100\n  \
        posthouse access allow telegram:7001 group:-1001"
    )]
    Allow {
        /// The bot that they write to
        #[arg(value_name = "PLATFORM:ID")]
        bot: String,
        /// The pairing code, or user:ID, chat:ID or group:ID
        #[arg(value_name = "CODE")]
        who: String,
    },
    /// Blocks a sender; their messages are dropped without an answer, even if the group or the bot is open
    #[command(after_help = "Examples:\n  posthouse access deny telegram:7001 K7QF3M\n  \
        posthouse access deny telegram:7001 user:5550100")]
    Deny {
        /// The bot that they write to
        #[arg(value_name = "PLATFORM:ID")]
        bot: String,
        /// The pairing code, or user:ID, chat:ID or group:ID
        #[arg(value_name = "CODE")]
        who: String,
    },
    /// Deletes the decision about a sender: from their next message on they are unknown again
    #[command(after_help = "Example:\n  posthouse access remove telegram:7001 user:5550100")]
    Remove {
        /// The bot that they write to
        #[arg(value_name = "PLATFORM:ID")]
        bot: String,
        /// user:ID, chat:ID or group:ID, as `posthouse access list` shows them
        #[arg(value_name = "SUBJECT")]
        who: String,
    },
}

impl Command {
    pub async fn act(self, output: &Output, client: &AdminClient) -> anyhow::Result<()> {
        match self {
            Command::List { filter, bot_word } => {
                let filter = bot_word.map_or(filter, |bot| BotFilter::of_bot(&bot));
                let all = listed(client, &filter).await?;
                let columns = [
                    ("PLATFORM", "platform"),
                    ("BOT", "bot"),
                    ("WHO", "subject"),
                    ("STATE", "state"),
                    ("NAME", "name"),
                    ("CODE", "code"),
                    ("SINCE", "since"),
                ];
                output.list(all, &columns, "there are no decisions and no requests")
            }
            Command::Allow { bot, who } => decide(output, client, &bot, &who, "allow").await,
            Command::Deny { bot, who } => decide(output, client, &bot, &who, "deny").await,
            Command::Remove { bot, who } => {
                let (platform, id) = split(&bot)?;
                let query = [("subject", Some(who.as_str()))];
                let removed = client.delete(&["access", platform, id], &query).await?;
                output.done(&removed, &format!("{} is unknown to {bot} again", cell(&removed["subject"])))
            }
        }
    }
}

async fn listed(client: &AdminClient, filter: &BotFilter) -> anyhow::Result<Vec<Value>> {
    let (platform, id) = filter.parts()?;
    // The server filters by a whole bot only.
    let query = [("platform", platform.filter(|_| id.is_some())), ("bot", id)];
    let mut all = client.list(&["access"], &query).await?;
    filter.retain(&mut all, "bot")?;
    Ok(all)
}

async fn decide(
    output: &Output,
    client: &AdminClient,
    bot: &str,
    who: &str,
    decision: &str,
) -> anyhow::Result<()> {
    let (platform, id) = split(bot)?;
    // A pairing code contains no colon.
    let body = match who.contains(':') {
        true => json!({ "decision": decision, "subject": who }),
        false => json!({ "decision": decision, "code": who }),
    };
    let decided = client.post(&["access", platform, id], &[], &body).await?;
    let may = if decision == "allow" { "may write to" } else { "can no longer write to" };
    output.done(&decided, &format!("{} {may} {bot}", named(&decided)))
}

/// `user:5 (Ann)`. The id comes first because senders choose their names themselves.
fn named(one: &Value) -> String {
    match one["name"].as_str() {
        Some(_) => format!("{} ({})", cell(&one["subject"]), cell(&one["name"])),
        None => cell(&one["subject"]),
    }
}

/// How long to wait for the first message to a new bot.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_secs(1);

/// Right after a closed bot was created, waits for the first person to write to it and offers to admit
/// them. Does nothing unless standard input and output are a terminal.
pub async fn offer_first_pairing(output: &Output, client: &AdminClient, bot: &Value) -> anyhow::Result<()> {
    let alone = !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal();
    if output.json || alone || bot["open"] == true || bot["shared"] == true {
        return Ok(());
    }
    let name = format!("{}:{}", cell(&bot["platform"]), cell(&bot["id"]));
    output.text(&format!(
        "\nOnly people whom you admit can write to this bot. Write to it now to be the first (Ctrl-C to skip; \
         later: posthouse access allow {name} CODE)\n"
    ))?;
    let waiting = tokio::time::timeout(PATIENCE, first_pending(client, &name));
    let pending = tokio::select! {
        _ = tokio::signal::ctrl_c() => return output.text("\n"),
        pending = waiting => match pending {
            Ok(pending) => pending?,
            Err(_) => return output.text("Nobody wrote yet.\n"),
        },
    };
    let question = format!(
        "{} wrote to it and was given the code {}. Admit them? [y/N] ",
        named(&pending),
        cell(&pending["code"])
    );
    output.text(&question)?;
    std::io::stdout().flush()?;
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map(|_| line)
    });
    let answer = answer.await.context("cannot read the answer")??;
    if !matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        return output.text(&format!("Not admitted. Later: posthouse access list --bot {name}\n"));
    }
    let code = pending["code"].as_str().unwrap_or_default();
    decide(output, client, &name, code, "allow").await
}

async fn first_pending(client: &AdminClient, bot: &str) -> anyhow::Result<Value> {
    let filter = BotFilter::of_bot(bot);
    loop {
        let all = listed(client, &filter).await?;
        if let Some(pending) = first_to_ask(all) {
            return Ok(pending);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The oldest pending request. The server lists requests by subject, not by time.
fn first_to_ask(all: Vec<Value>) -> Option<Value> {
    let waiting = all.into_iter().filter(|one| one["state"] == "pending");
    waiting.min_by(|one, other| one["since"].as_str().cmp(&other["since"].as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_behind_the_id_and_cannot_move_the_cursor() {
        assert_eq!(named(&json!({ "subject": "user:5", "name": "Ann\u{1b}[2J" })), "user:5 (Ann\u{fffd}[2J)");
        assert_eq!(named(&json!({ "subject": "chat:-7", "name": null })), "chat:-7");
    }

    #[test]
    fn the_person_who_asked_first_is_offered() {
        let one = |subject: &str, state: &str, since: &str| json!({ "subject": subject, "state": state, "since": since });
        let all = vec![
            one("user:1", "pending", "2026-01-01T00:00:02.000Z"),
            one("user:2", "allowed", "2026-01-01T00:00:00.000Z"),
            one("user:9", "pending", "2026-01-01T00:00:01.500Z"),
        ];
        assert_eq!(first_to_ask(all).unwrap()["subject"], "user:9");
        assert_eq!(first_to_ask(vec![one("user:2", "denied", "2026-01-01T00:00:00.000Z")]), None);
    }
}
