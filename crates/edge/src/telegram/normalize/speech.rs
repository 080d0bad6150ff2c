//! Text of a message: removes mentions of the bot and detects commands.

use std::ops::Range;

use super::BotAccount;
use crate::telegram::update::TelegramEntity;

/// The text of a message for the agent.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Speech {
    pub text: String,
    pub mentions_us: bool,
    /// It begins with a command.
    pub command: bool,
    /// It begins with a command that names another bot.
    pub for_another: bool,
}

impl Speech {
    pub fn plain(text: String) -> Self {
        Self { text, ..Self::default() }
    }

    /// Removes mentions of the bot from `text`. A text that is only a mention stays as it is.
    pub fn parse(text: &str, entities: &[TelegramEntity<'_>], account: &BotAccount<'_>) -> Self {
        let mut speech = Self::default();
        let mut cuts: Vec<Range<usize>> = Vec::new();
        for entity in entities {
            // Offsets outside the text, or inside a character, are ignored.
            let Some(span) = span(text, entity.offset, entity.length) else { continue };
            let marked = &text[span.clone()];
            match &*entity.kind {
                "mention" if marked.strip_prefix('@').is_some_and(|name| account.is_called(name)) => {
                    cuts.push(with_what_follows(text, span));
                }
                "text_mention" if entity.user.as_ref().is_some_and(|user| Some(user.id) == account.id) => {
                    cuts.push(with_what_follows(text, span));
                }
                "bot_command" => {
                    speech.command |= span.start == 0;
                    match marked.split_once('@') {
                        Some((command, name)) if account.is_called(name) => {
                            cuts.push(span.start + command.len()..span.end);
                        }
                        Some(_) => speech.for_another |= span.start == 0,
                        None => {}
                    }
                }
                _ => {}
            }
        }
        speech.mentions_us = !cuts.is_empty();
        speech.text = without(text, cuts);
        speech
    }
}

/// UTF-16 offsets as a range of bytes; `None` unless both ends are character boundaries.
fn span(text: &str, offset: i64, length: i64) -> Option<Range<usize>> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(length).ok().filter(|length| *length > 0)?)?;
    let (mut units, mut from) = (0, None);
    // The end of the text is a boundary as well.
    let borders = text.char_indices().map(|(at, letter)| (at, letter.len_utf16())).chain([(text.len(), 0)]);
    for (at, width) in borders {
        if units == start {
            from = from.or(Some(at));
        }
        if units >= end {
            return (units == end).then_some(from?..at);
        }
        units += width;
    }
    None
}

/// Extends a mention by the punctuation and white space after it.
fn with_what_follows(text: &str, span: Range<usize>) -> Range<usize> {
    let rest = &text[span.end..];
    let after = rest.trim_start_matches([',', ':', '-']).trim_start();
    span.start..span.end + (rest.len() - after.len())
}

fn without(text: &str, mut cuts: Vec<Range<usize>>) -> String {
    if cuts.is_empty() {
        return text.to_owned();
    }
    cuts.sort_by_key(|cut| cut.start);
    let (mut left, mut at) = (String::with_capacity(text.len()), 0);
    for cut in cuts {
        if cut.start > at {
            left.push_str(&text[at..cut.start]);
        }
        at = at.max(cut.end);
    }
    left.push_str(&text[at..]);
    match left.trim() {
        "" => text.to_owned(),
        trimmed => trimmed.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNT: BotAccount<'static> = BotAccount { id: Some(666), username: Some("posty_bot") };

    fn hear(text: &str, entities: &str) -> Speech {
        let entities: Vec<TelegramEntity<'_>> = serde_json::from_str(entities).unwrap();
        Speech::parse(text, &entities, &ACCOUNT)
    }

    fn mention(offset: i64, length: i64) -> String {
        format!(r#"[{{"type":"mention","offset":{offset},"length":{length}}}]"#)
    }

    #[test]
    fn our_mention_goes_with_what_follows_it() {
        for (text, at, left) in [
            ("@posty_bot hi", 0, "hi"),
            ("@Posty_Bot hi", 0, "hi"),
            ("@posty_bot, hi", 0, "hi"),
            ("hi @posty_bot", 3, "hi"),
            ("so @posty_bot  how", 3, "so how"),
            ("👩🏽‍🚀 @posty_bot go", 8, "👩🏽‍🚀 go"),
            ("𝔘@posty_bot𝔘", 2, "𝔘𝔘"),
            ("@posty_bot", 0, "@posty_bot"),
            (" @posty_bot ", 1, " @posty_bot "),
        ] {
            let speech = hear(text, &mention(at, 10));
            assert_eq!((speech.text.as_str(), speech.mentions_us), (left, true), "{text}");
        }
    }

    #[test]
    fn others_are_mentioned_without_us_hearing_our_name() {
        for (text, length) in [("@other_bot hi", 10), ("@posty_botx hi", 11), ("posty_bot hi", 9)] {
            let speech = hear(text, &mention(0, length));
            assert_eq!((speech.text.as_str(), speech.mentions_us), (text, false), "{text}");
        }
    }

    #[test]
    fn a_name_without_username_is_a_mention_by_id() {
        let named = |id: i64| {
            hear(
                "Posty hi",
                &format!(r#"[{{"type":"text_mention","offset":0,"length":5,"user":{{"id":{id}}}}}]"#),
            )
        };
        assert_eq!(named(666), Speech { text: "hi".into(), mentions_us: true, ..Speech::default() });
        assert!(!named(667).mentions_us);
    }

    #[test]
    fn offsets_that_make_no_sense_mark_nothing() {
        let text = "𝔘 @posty_bot";
        for (offset, length) in [
            (1, 10),
            (-1, 10),
            (3, -1),
            (3, 0),
            (3, 11),
            (i64::MAX, i64::MAX),
            (i64::MIN, i64::MAX),
            (0, 1),
            (99, 1),
        ] {
            let speech = hear(text, &mention(offset, length));
            assert_eq!((speech.text.as_str(), speech.mentions_us), (text, false), "{offset} {length}");
        }
        assert!(hear(text, &mention(3, 10)).mentions_us);
        assert!(!hear("", &mention(0, 1)).mentions_us);
    }

    #[test]
    fn marks_that_overlap_are_cut_once() {
        let twice = r#"[{"type":"mention","offset":3,"length":10},{"type":"mention","offset":3,"length":10},
            {"type":"text_mention","offset":0,"length":13,"user":{"id":666}}]"#;
        assert_eq!(hear("hi @posty_bot go", twice).text, "go");
    }

    #[test]
    fn a_command_loses_our_name_and_one_for_another_bot_is_told_apart() {
        let command = |text: &str, length: i64| {
            hear(text, &format!(r#"[{{"type":"bot_command","offset":0,"length":{length}}}]"#))
        };
        let ours = command("/ask@posty_bot why", 14);
        assert_eq!((ours.text.as_str(), ours.mentions_us, ours.command), ("/ask why", true, true));
        assert_eq!(command("/stop@posty_bot", 15).text, "/stop", "what the relay takes for a stop");
        let theirs = command("/ask@other_bot why", 14);
        assert_eq!((theirs.for_another, theirs.mentions_us), (true, false));
        let bare = command("/ask why", 4);
        assert_eq!((bare.for_another, bare.mentions_us, bare.command), (false, false, true));
    }
}
