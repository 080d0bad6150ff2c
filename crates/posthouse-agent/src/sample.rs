//! Sample agent: shows in a chat how a streamed answer looks.

use std::time::Duration;

use crate::{Conversation, Message, TurnResult};

/// Pause between words: about as fast as a person reads.
const WORD: Duration = Duration::from_millis(60);

/// Answers a person with a few sentences that grow word by word, and a program in one piece. Pass it to
/// [`AgentBuilder::on_message`](crate::AgentBuilder::on_message).
pub async fn answer(message: Message, conversation: Conversation) -> TurnResult {
    let greeting = greeting(message.author(), message.text());
    // A program does not watch the text grow. If it asked a question, it waits for one answer.
    if message.posted().is_some() {
        conversation.answer(&format!("{greeting}\n\n{TO_PROGRAMS}")).await?;
        return Ok(());
    }
    // The typing indicator is optional: if it fails, the answer is still sent.
    let _ = conversation.typing().await;
    let mut stream = conversation.stream().every(Duration::from_millis(250));
    for word in format!("{greeting}\n\n{TO_PEOPLE}").split_inclusive(' ') {
        stream.push(word).await?;
        conversation.timepiece().after(WORD).await;
    }
    stream.finish().await?;
    Ok(())
}

const TO_PEOPLE: &str = "I am the sample agent of this server. I hold no credential for this chat. Your message was \
                         stored until I had accepted it, and my answer grows here because I edit it while I write. Put \
                         an agent of your own in my place whenever you like.";

const TO_PROGRAMS: &str = "I am the sample agent of this server. Your message was stored until I had accepted it, and \
                           my reply is stored with its receipt. Put an agent of your own in my place whenever you like.";

fn greeting(author: Option<&str>, text: &str) -> String {
    let hello = author.map_or("Hello".to_owned(), |name| format!("Hello {name}"));
    match text.trim() {
        "" => format!("{hello}! You sent a message without text."),
        text => format!("{hello}! You said: “{text}”."),
    }
}
