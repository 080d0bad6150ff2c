//! Plays Discord until interrupted: `cargo run -p stand-ins --example discord -- 42:secret@posty`.
//! The first line of output is the base URL; open it in a browser.

use stand_ins::discord::{DiscordBot, DiscordStandIn, Settings};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bots =
        std::env::args().skip(1).map(|bot| bot.parse::<DiscordBot>()).collect::<Result<Vec<_>, _>>()?;
    let discord = DiscordStandIn::start(Settings { bots, ..Settings::default() }).await?;
    println!("{}", discord.base_url());
    tokio::signal::ctrl_c().await?;
    discord.stop().await;
    Ok(())
}
