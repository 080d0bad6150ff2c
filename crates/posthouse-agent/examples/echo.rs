//! Sends back every message, to people and to programs that ask. Start it with the variables that
//! `posthouse agent create NAME --json` prints under `env`; stop it with Ctrl-C.

use posthouse_agent::{Agent, RelayTransport, Settings, WebSocketTransport, termination};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let line = WebSocketTransport::new(Settings::from_env()?)?;
    match line.connect().await {
        Ok(()) => println!("connected; stop with Ctrl-C"),
        Err(fault) => println!("{fault}; still trying, stop with Ctrl-C"),
    }
    Agent::builder(line)
        .on_message(|message, conversation| async move {
            let sent = conversation.answer(message.text()).await?;
            println!("{}: answered in {} message(s)", message.author().unwrap_or("somebody"), sent.0.len());
            Ok(())
        })
        .run(termination())
        .await?;
    println!("stopped; the server keeps new messages");
    Ok(())
}
