//! Emoji by the names that Feishu has for its reactions.

/// Emoji that agents use, with Feishu's names.
const NAMES: [(&str, &str); 44] = [
    ("👍", "THUMBSUP"),
    ("👎", "ThumbsDown"),
    ("❤", "HEART"),
    ("💔", "HEARTBROKEN"),
    ("👏", "APPLAUSE"),
    ("🙏", "THANKS"),
    ("💪", "MUSCLE"),
    ("👌", "OK"),
    ("✅", "DONE"),
    ("✔", "CheckMark"),
    ("❌", "CrossMark"),
    ("➕", "JIAYI"),
    ("😂", "LAUGH"),
    ("😄", "SMILE"),
    ("😀", "SMILE"),
    ("🙂", "SMILE"),
    ("😊", "BLUSH"),
    ("😍", "LOVE"),
    ("😘", "KISS"),
    ("😉", "WINK"),
    ("😎", "SHOWOFF"),
    ("🤔", "THINKING"),
    ("😭", "CRY"),
    ("😢", "TEARS"),
    ("😱", "TERROR"),
    ("😡", "ANGRY"),
    ("😮", "WOW"),
    ("😴", "SLEEP"),
    ("🤗", "HUG"),
    ("🤣", "LOL"),
    ("😅", "SWEAT"),
    ("😳", "SHY"),
    ("👀", "GLANCE"),
    ("👋", "WAVE"),
    ("🤝", "SHAKE"),
    ("🎉", "PARTY"),
    ("🔥", "Fire"),
    ("🌹", "ROSE"),
    ("🍺", "BEER"),
    ("🎂", "CAKE"),
    ("🎁", "GIFT"),
    ("🏆", "Trophy"),
    ("💣", "BOMB"),
    ("💯", "Hundred"),
];

/// The name of an emoji. A name itself, such as `THUMBSUP`, stays.
pub(super) fn name_of(emoji: &str) -> Option<&str> {
    // Many emoji come with a mark that asks for their coloured form.
    let plain = emoji.trim().trim_end_matches('\u{fe0f}');
    if let Some((_, name)) = NAMES.iter().find(|(known, _)| *known == plain) {
        return Some(name);
    }
    let is_name = (1..=32).contains(&plain.len())
        && plain.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emoji_are_known_by_their_names_on_feishu() {
        assert_eq!(name_of("👍"), Some("THUMBSUP"));
        assert_eq!(name_of("❤️"), Some("HEART"));
        assert_eq!(name_of("Typing"), Some("Typing"));
        for unknown in ["", "🦉", "a/b", "x&y=z"] {
            assert_eq!(name_of(unknown), None, "{unknown}");
        }
    }
}
