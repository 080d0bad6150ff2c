//! Counts slowly while you watch the answer grow, and stops when you tell it to: an interrupt cancels the
//! turn at its current await point. Start it with the variables that `posthouse agent create NAME --json`
//! prints.

use std::time::Duration;

use posthouse_agent::{Agent, Conversation, Message, Settings, TurnResult, WebSocketTransport, termination};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let line = WebSocketTransport::new(Settings::from_env()?)?;
    println!("listening; send a number; stop with Ctrl-C");
    Agent::builder(line).on_message(count).run(termination()).await?;
    Ok(())
}

async fn count(message: Message, conversation: Conversation) -> TurnResult {
    let Ok(last) = message.text().trim().parse::<u32>() else {
        conversation.reply("Send a number and I count up to it.").await?;
        return Ok(());
    };
    conversation.typing().await?;
    let mut stream = conversation.stream();
    for number in 1..=last.min(1000) {
        stream.push(&format!("{number} ")).await?;
        // A platform that cannot edit gets one message for every ten.
        if number % 10 == 0 && !conversation.descriptor().supports_edit {
            stream.segment().await?;
        }
        conversation.timepiece().after(Duration::from_millis(200)).await;
    }
    stream.push("and that is all.").await?;
    stream.finish().await?;
    Ok(())
}
