//! `posthouse bench`: measures the performance of the server on this machine.

use clap::Subcommand;

use crate::bench::{self, ClockArgs, EdgeArgs, PostArgs, RelayArgs, SkillsArgs, StoresArgs};

#[derive(Subcommand)]
pub enum Command {
    /// Messages received, stored, delivered and acknowledged; printed as ratios to the bare speed of this
    /// machine
    Relay(RelayArgs),
    /// Jobs armed, held and fired on time; printed as ratios to the bare speed of this machine
    Clock(ClockArgs),
    /// Messages of programs to agents, with a receipt; printed as ratios to messages from a platform
    Post(PostArgs),
    /// Skills listed and written, data searched and written; printed with the bare speed of this disk
    Stores(StoresArgs),
    /// Deliveries of platforms verified and normalized, long answers split; printed as ratios to bare signatures and
    /// JSON
    Edge(EdgeArgs),
    /// Skills parsed, checked and run, and the start of the command line; on request beside the skillscript runtime
    Skills(SkillsArgs),
}

impl Command {
    pub async fn act(self) -> anyhow::Result<()> {
        match self {
            Command::Relay(args) => bench::relay(args).await,
            Command::Clock(args) => bench::clock(args).await,
            Command::Post(args) => bench::post(args).await,
            Command::Stores(args) => bench::stores(args).await,
            Command::Edge(args) => bench::edge(&args),
            Command::Skills(args) => bench::skills(args).await,
        }
    }
}
