//! `posthouse stand-in`

use std::net::SocketAddr;

use anyhow::Context;
use clap::Subcommand;
use serde_json::json;
use stand_ins::telegram::{Bot, Settings, serve};

use super::paper::Paper;
use crate::house::termination;

#[derive(Subcommand)]
pub enum Command {
    /// Plays the Telegram Bot API until interrupted; the first line printed is its base URL
    #[command(
        after_help = "People, faults and the transcript are under /_stand-in/ of that URL.\n\nExample:\n  \
        posthouse stand-in telegram --bot 7001:secret@posty_bot"
    )]
    Telegram {
        /// Where to listen, on loopback; without a port of its own any free one
        #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
        listen: SocketAddr,
        /// A bot that it knows, by its token; may be said several times
        #[arg(long = "bot", value_name = "ID:SECRET[@USERNAME]")]
        bots: Vec<Bot>,
    },
}

impl Command {
    pub async fn act(self, paper: &Paper) -> anyhow::Result<()> {
        let Command::Telegram { listen, bots } = self;
        let telegram = serve(listen, Settings { bots, ..Settings::default() })
            .await
            .with_context(|| format!("cannot listen on {listen}"))?;
        let url = telegram.base_url();
        // One line in either form, so that whoever started us can wait for it.
        paper.text(&if paper.json { format!("{}\n", json!({ "url": url })) } else { format!("{url}\n") })?;
        termination().await?;
        telegram.stop().await;
        Ok(())
    }
}
