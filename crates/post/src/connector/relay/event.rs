//! Inbox events of the relay connector: a dispatched item as the agent gets it, with the preamble line.

use posthouse_time::Moment;
use posthouse_wire::delivery::{Kind, Posted};
use posthouse_wire::{ChatId, EntryId, Event, MessageType};

use crate::conversations::names::{BOT, PLATFORM};
use crate::dispatch::DispatchItem;

/// The event of an item from this sender.
pub(super) fn of(
    id: &EntryId,
    sender: &str,
    item: &DispatchItem,
    chat: &ChatId,
    preamble: bool,
    now: Moment,
) -> Event {
    let (text, kind, word, meta) = match item {
        DispatchItem::Deliver { payload } | DispatchItem::Ask { payload } => {
            (payload.text.as_str(), payload.kind, payload.kind.word(), Some(payload.meta.clone()))
        }
        // A wake has no envelope.
        DispatchItem::Wake { opts, .. } => {
            (opts.context.as_deref().unwrap_or_default(), Kind::Augment, "wake", None)
        }
    };
    let preamble = preamble_for(text, word, sender, preamble);
    let mut event = Event {
        text: format!("{}{text}", preamble.as_deref().unwrap_or_default()),
        message_type: MessageType::Text,
        message_id: Some(id.as_str().into()),
        bot_id: Some(BOT.into()),
        received_at: Some(now.to_string()),
        post: Some(Box::new(Posted {
            kind,
            meta,
            expects_reply: matches!(item, DispatchItem::Ask { .. }),
            preamble,
        })),
        ..Event::default()
    };
    let source = &mut event.source;
    source.platform = PLATFORM.into();
    source.chat_id = Some(chat.clone());
    source.chat_type = "dm".to_owned();
    source.chat_name = Some(sender.to_owned());
    source.user_id = Some(format!("post:{sender}").into());
    source.user_name = Some(sender.to_owned());
    source.message_id = Some(id.as_str().into());
    event
}

/// The first line with kind and sender. A text that begins with `/` always gets it, because the agent would run it
/// as a command. An empty text gets it too, because a stock agent ignores empty messages.
fn preamble_for(text: &str, word: &str, sender: &str, always: bool) -> Option<String> {
    let needed = text.trim_start().starts_with('/') || text.is_empty();
    if !always && !needed {
        return None;
    }
    let line = format!("[posthouse {word} from {sender}]");
    Some(if text.is_empty() { line } else { format!("{line}\n\n") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_and_an_empty_text_always_get_the_first_line() {
        let line = |text, always| preamble_for(text, "wake", "desk", always);
        assert_eq!(line("hello", false), None);
        assert_eq!(line("hello", true).as_deref(), Some("[posthouse wake from desk]\n\n"));
        assert_eq!(line(" /stop", false).as_deref(), Some("[posthouse wake from desk]\n\n"));
        assert_eq!(line("", false).as_deref(), Some("[posthouse wake from desk]"));
    }
}
