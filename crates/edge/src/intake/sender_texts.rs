//! Notices to senders whose messages reach no agent.

use identity::PairingCode;
use posthouse_wire::Source;

/// Notice to a sender whose message was not stored because the inbox is full.
pub(super) const MAILBOX_FULL: &str =
    "This mailbox is full, so your message was not delivered. Please try again later.";
/// Notice to a sender whose message was not stored because a quota is used up.
pub(super) const TOO_MANY_MESSAGES: &str = "Too many messages were sent here in the last minute, so your message was not \
                                            delivered. Please try again in a few minutes.";

/// Whether a notice may be sent. In a channel it would be published to all readers.
pub(super) fn may_answer(source: &Source) -> bool {
    source.chat_type != "channel"
}

/// The text with which a stranger gets their pairing code.
pub(super) fn pairing_notice(code: &PairingCode) -> String {
    let who = if code.admits_whole_chat() { "this chat" } else { "you" };
    format!(
        "This bot does not know {who} yet. To use it, give this pairing code to the person who runs it: {code}\n\
         The code is valid for one hour.",
        code = code.code(),
    )
}
