//! Says back what it hears, to people and to programs that ask. Start it with the variables that `posthouse agent create NAME --json` prints
//! under `env`; stop it with Ctrl-C.

use posthouse_agent::{Agent, RelayTransport, Settings, WebSocketTransport, termination};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let line = WebSocketTransport::new(Settings::from_env()?)?;
    match line.connect().await {
        Ok(()) => println!("the house knows us; Ctrl-C stops"),
        Err(fault) => println!("{fault}; trying on, Ctrl-C stops"),
    }
    Agent::builder(line)
        .on_message(|message, conversation| async move {
            let sent = conversation.answer(message.text()).await?;
            println!(
                "{} heard, answered in {} message(s)",
                message.author().unwrap_or("somebody"),
                sent.0.len()
            );
            Ok(())
        })
        .run(termination())
        .await?;
    println!("the house keeps what comes from here on");
    Ok(())
}
