//! A small agent to talk to while there is no other: it shows what an answer looks like on its way.

use std::time::Duration;

use crate::{Conversation, Message, Turn};

/// The pause between words; about as fast as a person reads.
const WORD: Duration = Duration::from_millis(60);

/// Answers any message with a few sentences that grow word by word. Give it to
/// [`AgentBuilder::on_message`](crate::AgentBuilder::on_message).
pub async fn answer(message: Message, conversation: Conversation) -> Turn {
    // An adornment: where it cannot be shown, the answer still can.
    let _ = conversation.typing().await;
    let mut stream = conversation.stream().every(Duration::from_millis(250));
    for word in words(message.author(), message.text()).split_inclusive(' ') {
        stream.push(word).await?;
        conversation.timepiece().after(WORD).await;
    }
    stream.finish().await?;
    Ok(())
}

fn words(author: Option<&str>, text: &str) -> String {
    let greeting = author.map_or("Hello".to_owned(), |name| format!("Hello {name}"));
    let said = match text.trim() {
        "" => "You sent something without words.".to_owned(),
        text => format!("You said: “{text}”."),
    };
    format!(
        "{greeting}! {said}\n\nI am the sample agent of this house. I hold no key to this chat: your message was \
         kept until I had taken it, and my answer grows here because I edit it while I write. Put an agent of your \
         own in my place whenever you like."
    )
}
