//! Plays Slack until interrupted: `cargo run -p stand-ins --example slack -- A1:xoxb-x:xapp-y:secret@posty`.
//! The first line of output is the base URL; open it in a browser.

use stand_ins::slack::{Settings, SlackApp, SlackStandIn};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let apps = std::env::args().skip(1).map(|app| app.parse::<SlackApp>()).collect::<Result<Vec<_>, _>>()?;
    let slack = SlackStandIn::start(Settings { apps, ..Settings::default() }).await?;
    println!("{}", slack.base_url());
    tokio::signal::ctrl_c().await?;
    slack.stop().await;
    Ok(())
}
