//! A small agent to talk to while there is no other: it shows what an answer looks like on its way.

use std::time::Duration;

use crate::{Conversation, Message, Turn};

/// The pause between words; about as fast as a person reads.
const WORD: Duration = Duration::from_millis(60);

/// Answers a person with a few sentences that grow word by word, and a program in one piece. Give it to
/// [`AgentBuilder::on_message`](crate::AgentBuilder::on_message).
pub async fn answer(message: Message, conversation: Conversation) -> Turn {
    let greeting = greeting(message.author(), message.text());
    // Nobody watches what is said to a program, and whoever asked waits for one answer.
    if message.posted().is_some() {
        conversation.answer(&format!("{greeting}\n\n{TO_PROGRAMS}")).await?;
        return Ok(());
    }
    // An adornment: where it cannot be shown, the answer still can.
    let _ = conversation.typing().await;
    let mut stream = conversation.stream().every(Duration::from_millis(250));
    for word in format!("{greeting}\n\n{TO_PEOPLE}").split_inclusive(' ') {
        stream.push(word).await?;
        conversation.timepiece().after(WORD).await;
    }
    stream.finish().await?;
    Ok(())
}

const TO_PEOPLE: &str = "I am the sample agent of this house. I hold no key to this chat: your message was kept until I \
                         had taken it, and my answer grows here because I edit it while I write. Put an agent of your \
                         own in my place whenever you like.";

const TO_PROGRAMS: &str = "I am the sample agent of this house. Your message was kept until I had taken it, and what I \
                           say to it is kept with its receipt. Put an agent of your own in my place whenever you like.";

fn greeting(author: Option<&str>, text: &str) -> String {
    let hello = author.map_or("Hello".to_owned(), |name| format!("Hello {name}"));
    match text.trim() {
        "" => format!("{hello}! You sent something without words."),
        text => format!("{hello}! You said: “{text}”."),
    }
}
