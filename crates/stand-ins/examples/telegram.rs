//! Plays Telegram until interrupted: `cargo run -p stand-ins --example telegram -- 42:secret@posty_bot`.
//! The first line of output is the base URL; open it in a browser.

use stand_ins::telegram::{Settings, StandInBot, serve};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bots =
        std::env::args().skip(1).map(|bot| bot.parse::<StandInBot>()).collect::<Result<Vec<_>, _>>()?;
    let listen = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let telegram = serve(listen, Settings { bots, ..Settings::default() }).await?;
    println!("{}", telegram.base_url());
    tokio::signal::ctrl_c().await?;
    telegram.stop().await;
    Ok(())
}
