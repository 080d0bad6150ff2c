//! Answers questions of programs: `posthouse ask NAME "2 + 3"` waits for the answer. Start it with the
//! variables that `posthouse agent create NAME --json` prints under `env`; stop it with Ctrl-C.

use posthouse_agent::{Agent, Conversation, Message, Settings, TurnResult, WebSocketTransport, termination};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let line = WebSocketTransport::new(Settings::from_env()?)?;
    println!("listening; stop with Ctrl-C");
    Agent::builder(line).on_message(add).run(termination()).await?;
    Ok(())
}

async fn add(message: Message, conversation: Conversation) -> TurnResult {
    // Only a program that asked a question waits for an answer.
    if !message.posted().is_some_and(|posted| posted.expects_reply) {
        println!("{}: {}", message.author().unwrap_or("somebody"), message.text());
        return Ok(());
    }
    // Other messages are stored with the receipt and do not count as the answer.
    conversation.say("adding").await?;
    let numbers: Result<Vec<i64>, _> =
        message.text().split('+').map(|number| number.trim().parse()).collect();
    let sum = numbers.ok().and_then(|numbers| numbers.into_iter().try_fold(0_i64, i64::checked_add));
    // The program gets an object as data, not only as text.
    let answer = match sum {
        Some(sum) => serde_json::json!({ "sum": sum }),
        None => serde_json::json!({ "error": "send numbers with + between them" }),
    };
    conversation.answer(&answer.to_string()).await?;
    Ok(())
}
