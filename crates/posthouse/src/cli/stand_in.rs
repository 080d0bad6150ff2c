//! `posthouse stand-in`: chat platforms played on loopback.

use std::net::SocketAddr;

use anyhow::Context;
use clap::Subcommand;
use serde_json::json;
use stand_ins::telegram::{Settings, StandInBot, serve};

use super::output::Output;
use crate::wiring::termination;

#[derive(Subcommand)]
pub enum Command {
    /// Plays the Telegram Bot API until interrupted; the first line printed is its base URL
    #[command(
        after_help = "The URLs below /_stand-in/ control people and faults, and show the transcript.\n\nExample:\n  \
        posthouse stand-in telegram --bot 7001:secret@posty_bot"
    )]
    Telegram {
        /// Loopback address to listen on; port 0 chooses a free port
        #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
        listen: SocketAddr,
        /// Token of a bot that it knows; can be repeated
        #[arg(long = "bot", value_name = "ID:SECRET[@USERNAME]")]
        bots: Vec<StandInBot>,
    },
}

impl Command {
    pub async fn act(self, output: &Output) -> anyhow::Result<()> {
        let Command::Telegram { listen, bots } = self;
        let telegram = serve(listen, Settings { bots, ..Settings::default() })
            .await
            .with_context(|| format!("cannot listen on {listen}"))?;
        let url = telegram.base_url();
        // One line in both formats, so that the parent process can wait for it.
        output.text(&if output.json {
            format!("{}\n", json!({ "url": url }))
        } else {
            format!("{url}\n")
        })?;
        termination().await?;
        telegram.stop().await;
        Ok(())
    }
}
