//! Incoming texts of Slack in readable form: escapes are decoded, and mentions, channels and links are written out.

/// A text for the agent.
pub(super) struct ReadableText {
    pub text: String,
    /// It mentions the bot.
    pub mentions_bot: bool,
}

/// Rewrites a text of Slack. A mention of `own` is removed with the white space after it, unless nothing else is left.
/// `name_of` returns the name of a person, if it is known.
pub(super) fn readable(raw: &str, own: &str, name_of: impl Fn(&str) -> Option<String>) -> ReadableText {
    let mut text = String::with_capacity(raw.len());
    let (mut rest, mut mentions_bot) = (raw, false);
    while let Some(at) = rest.find('<') {
        let after = &rest[at + 1..];
        // Slack escapes the brackets that people type, so that every other one is markup.
        let Some(end) = after.find(['<', '>']).filter(|end| after.as_bytes()[*end] == b'>') else {
            push_decoded(&mut text, &rest[..=at]);
            rest = after;
            continue;
        };
        push_decoded(&mut text, &rest[..at]);
        let inside = &after[..end];
        rest = &after[end + 1..];
        let (target, label) =
            inside.split_once('|').map_or((inside, None), |(target, label)| (target, Some(label)));
        if !own.is_empty() && target.strip_prefix('@') == Some(own) {
            mentions_bot = true;
            rest = rest.trim_start();
            continue;
        }
        push_reference(&mut text, target, label.filter(|label| !label.is_empty()), &name_of);
    }
    push_decoded(&mut text, rest);
    if !mentions_bot {
        return ReadableText { text, mentions_bot };
    }
    match text.trim() {
        "" => ReadableText { text: raw.to_owned(), mentions_bot },
        trimmed if trimmed.len() == text.len() => ReadableText { text, mentions_bot },
        trimmed => ReadableText { text: trimmed.to_owned(), mentions_bot },
    }
}

/// Writes a mention, a channel, a group or a link.
fn push_reference(
    text: &mut String,
    target: &str,
    label: Option<&str>,
    name_of: &impl Fn(&str) -> Option<String>,
) {
    if let Some(person) = target.strip_prefix('@') {
        text.push('@');
        match name_of(person) {
            Some(name) => text.push_str(&name),
            None => push_decoded(text, label.unwrap_or(person)),
        }
    } else if let Some(channel) = target.strip_prefix('#') {
        text.push('#');
        push_decoded(text, label.unwrap_or(channel));
    } else if let Some(special) = target.strip_prefix('!') {
        match (special.split_once('^'), label) {
            // A group of people, or a date: the label says which.
            (Some(_), Some(label)) => push_decoded(text, label),
            (Some((_, what)), None) => {
                text.push('@');
                push_decoded(text, what.split('^').next().unwrap_or(what));
            }
            (None, _) => {
                text.push('@');
                push_decoded(text, special);
            }
        }
    } else {
        match label {
            Some(label) if label != target && target.strip_prefix("mailto:") != Some(label) => {
                text.push('[');
                push_decoded(text, label);
                text.push_str("](");
                push_decoded(text, target);
                text.push(')');
            }
            label => push_decoded(text, label.unwrap_or(target)),
        }
    }
}

/// The escapes of Slack. Each is decoded once.
const ESCAPES: [(&str, char); 5] =
    [("&amp;", '&'), ("&lt;", '<'), ("&gt;", '>'), ("&quot;", '"'), ("&apos;", '\'')];

fn push_decoded(text: &mut String, mut raw: &str) {
    while let Some(at) = raw.find('&') {
        text.push_str(&raw[..at]);
        raw = &raw[at..];
        match ESCAPES.iter().find_map(|(escape, letter)| Some((raw.strip_prefix(escape)?, letter))) {
            Some((after, letter)) => {
                text.push(*letter);
                raw = after;
            }
            None => {
                text.push('&');
                raw = &raw[1..];
            }
        }
    }
    text.push_str(raw);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(raw: &str) -> String {
        readable(raw, "UBOT", |person| (person == "U1").then(|| "Ana".to_owned())).text
    }

    #[test]
    fn mentions_channels_and_links_are_written_out() {
        for (raw, expected) in [
            ("<@U1> and <@U2> and <@U3|ben>", "@Ana and @U2 and @ben"),
            ("see <#C1|general> or <#C2>", "see #general or #C2"),
            ("<https://a.test/?x=1&amp;y=2|the page>", "[the page](https://a.test/?x=1&y=2)"),
            ("<https://a.test> <mailto:a@b.test|a@b.test>", "https://a.test a@b.test"),
            ("<!here> <!channel|channel> <!subteam^S1|@ops> <!subteam^S2>", "@here @channel @ops @S2"),
            ("<!date^1765000000^{date}|Dec 6>", "Dec 6"),
            ("1 &lt; 2 &amp;amp; 3 & 4 &nbsp;", "1 < 2 &amp; 3 & 4 &nbsp;"),
            ("a < b <c", "a < b <c"),
            ("", ""),
        ] {
            assert_eq!(read(raw), expected, "{raw}");
        }
    }

    #[test]
    fn our_mention_goes_unless_it_is_everything() {
        for (raw, expected) in [
            ("<@UBOT> hi", "hi"),
            ("so <@UBOT>  how", "so how"),
            ("hi <@UBOT|posty>", "hi"),
            ("<@UBOT>", "<@UBOT>"),
            ("<@UBOT2> hi ", "@UBOT2 hi "),
        ] {
            assert_eq!(read(raw), expected, "{raw}");
        }
        assert!(!readable("<@> hi", "", |_| None).mentions_bot, "a bot without an id is never mentioned");
    }

    proptest! {
        #[test]
        fn any_text_is_read(raw in "[<>@#!|&;a-zU1^é]{0,60}") {
            read(&raw);
        }
    }
}
