//! `posthouse bot try`: the message that a webhook becomes, with settings that can be changed until it fits.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::Args;
use edge::webhook::Webhook;
use edge::webhook::rendering::RenderedWebhook;
use serde_json::{Map, Value, json};

use super::super::admin_client::AdminClient;
use super::super::output::Output;
use super::{named_setting, read_settings, split};

/// A recorded body and the settings to try.
#[derive(Args)]
pub struct TryArgs {
    /// A file with the body of a webhook
    file: PathBuf,
    /// Use the settings of this bot
    #[arg(long, value_name = "PLATFORM:ID")]
    bot: Option<String>,
    /// A JSON file with settings
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// One of the settings, such as --set template='{who}'; can be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// The name of the event, as its header would give it
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
}

impl TryArgs {
    /// Whether the settings of an existing bot are wanted.
    pub fn needs_server(&self) -> bool {
        self.bot.is_some()
    }

    pub async fn act(self, output: &Output, client: Option<&AdminClient>) -> anyhow::Result<()> {
        let mut settings: Map<String, Value> = match (&self.bot, client) {
            (Some(bot), Some(client)) => {
                let (platform, id) = split(bot)?;
                let shown = client.get(&["bots", platform, id], &[]).await?;
                shown["settings"].as_object().cloned().unwrap_or_default()
            }
            _ => Map::new(),
        };
        if let Some(file) = &self.settings {
            settings.extend(read_settings(file)?);
        }
        for word in &self.set {
            let (name, value) = named_setting(word)?;
            settings.insert(name.to_owned(), value.into());
        }
        let body =
            std::fs::read(&self.file).with_context(|| format!("cannot read {}", self.file.display()))?;
        let rendered =
            Webhook::try_out(&settings, &body, self.event.as_deref()).map_err(|why| anyhow!(why))?;
        let (becomes, text) = match rendered {
            RenderedWebhook::Text(text) => ("message", Some(text)),
            RenderedWebhook::Filtered => ("filtered", None),
            RenderedWebhook::Empty => ("empty", None),
        };
        if output.json {
            return output.text(&format!("{}\n", json!({ "becomes": becomes, "text": text })));
        }
        match text {
            Some(text) => output.text(&format!("{text}\n")),
            None if becomes == "filtered" => output.text("no message: the filter does not want this event\n"),
            None => output.text("no message: the text is empty\n"),
        }
    }
}
