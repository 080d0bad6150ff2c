//! `posthouse message`: traces of messages.

use clap::Subcommand;
use serde_json::Value;

use super::admin_client::AdminClient;
use super::output::{Output, aligned, cell};

#[derive(Subcommand)]
pub enum Command {
    /// Prints every step of one message with its time, and the steps of linked messages and of those that skills sent
    /// before and after it; never their texts
    #[command(
        after_help = "Examples:\n  posthouse message trace ent_0193…\n  posthouse message trace telegram:-1001:42\n  \
        posthouse message trace 0193c0de-…"
    )]
    Trace {
        /// ent_… (inbound), act_… (outbound), run_… (of a skill), PLATFORM:CHAT:MESSAGE, or a dispatch id (of a
        /// program)
        id: String,
    },
}

impl Command {
    pub async fn act(self, output: &Output, client: &AdminClient) -> anyhow::Result<()> {
        let Command::Trace { id } = self;
        let trace = client.get(&["messages", &id], &[]).await?;
        if output.json {
            return output.value(&trace);
        }
        let stories: Vec<String> = trace["items"].as_array().into_iter().flatten().map(render).collect();
        output.text(&stories.join("\n"))
    }
}

fn render(story: &Value) -> String {
    let mut text = format!(
        "{} {}  {}:{} chat {} message {}  {}\n",
        cell(&story["id"]),
        cell(&story["what"]),
        cell(&story["platform"]),
        cell(&story["bot"]),
        cell(&story["chat"]),
        cell(&story["message"]),
        cell(&story["instance_id"]),
    );
    for (field, words) in [("runs", "sent by"), ("led_to", "led to")] {
        for run in story[field].as_array().into_iter().flatten() {
            text.push_str(&format!("  {words} {}\n", cell(run)));
        }
    }
    let steps = story["steps"].as_array().into_iter().flatten();
    let rows: Vec<Vec<String>> = steps
        .map(|step| {
            let note = step["note"].as_str().map(|_| cell(&step["note"])).unwrap_or_default();
            vec![format!("  {}", cell(&step["at"])), cell(&step["what"]), note]
        })
        .collect();
    text.push_str(&aligned(&rows));
    text
}
