//! Names of emoji on Slack, for those that agents react with.

/// The name of an emoji. A name, with or without colons, stays as it is.
pub(super) fn name_of(emoji: &str) -> Option<&str> {
    let emoji = emoji.trim();
    let name = emoji.trim_matches(':');
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-+'".contains(&byte);
    if !name.is_empty() && name.len() <= 100 && name.bytes().all(is_name) {
        return Some(name);
    }
    // The coloured form and the tone of the skin make no difference here.
    let plain =
        emoji.trim_end_matches(['\u{fe0f}', '\u{1f3fb}', '\u{1f3fc}', '\u{1f3fd}', '\u{1f3fe}', '\u{1f3ff}']);
    NAMES.iter().find(|(known, _)| known.trim_end_matches('\u{fe0f}') == plain).map(|(_, name)| *name)
}

static NAMES: &[(&str, &str)] = &[
    ("👍", "+1"),
    ("👎", "-1"),
    ("👀", "eyes"),
    ("✅", "white_check_mark"),
    ("☑️", "ballot_box_with_check"),
    ("✔️", "heavy_check_mark"),
    ("❌", "x"),
    ("❎", "negative_squared_cross_mark"),
    ("⚠️", "warning"),
    ("🚫", "no_entry_sign"),
    ("⛔", "no_entry"),
    ("🛑", "octagonal_sign"),
    ("❓", "question"),
    ("❗", "exclamation"),
    ("‼️", "bangbang"),
    ("💯", "100"),
    ("🎉", "tada"),
    ("🎊", "confetti_ball"),
    ("🥳", "partying_face"),
    ("🚀", "rocket"),
    ("🔥", "fire"),
    ("✨", "sparkles"),
    ("⭐", "star"),
    ("🌟", "star2"),
    ("💡", "bulb"),
    ("🤔", "thinking_face"),
    ("🤖", "robot_face"),
    ("🧠", "brain"),
    ("👋", "wave"),
    ("🙏", "pray"),
    ("👏", "clap"),
    ("🙌", "raised_hands"),
    ("💪", "muscle"),
    ("🤝", "handshake"),
    ("👌", "ok_hand"),
    ("✌️", "v"),
    ("🤞", "crossed_fingers"),
    ("👉", "point_right"),
    ("👈", "point_left"),
    ("👆", "point_up_2"),
    ("👇", "point_down"),
    ("☝️", "point_up"),
    ("✋", "hand"),
    ("🤷", "shrug"),
    ("🤦", "face_palm"),
    ("🫡", "saluting_face"),
    ("❤️", "heart"),
    ("🧡", "orange_heart"),
    ("💛", "yellow_heart"),
    ("💚", "green_heart"),
    ("💙", "blue_heart"),
    ("💜", "purple_heart"),
    ("🖤", "black_heart"),
    ("💔", "broken_heart"),
    ("😀", "grinning"),
    ("😃", "smiley"),
    ("😄", "smile"),
    ("😁", "grin"),
    ("😆", "laughing"),
    ("😅", "sweat_smile"),
    ("😂", "joy"),
    ("🤣", "rolling_on_the_floor_laughing"),
    ("🙂", "slightly_smiling_face"),
    ("🙃", "upside_down_face"),
    ("😉", "wink"),
    ("😊", "blush"),
    ("😍", "heart_eyes"),
    ("😎", "sunglasses"),
    ("😐", "neutral_face"),
    ("😕", "confused"),
    ("🙁", "slightly_frowning_face"),
    ("😢", "cry"),
    ("😭", "sob"),
    ("😡", "rage"),
    ("😱", "scream"),
    ("😴", "sleeping"),
    ("🤯", "exploding_head"),
    ("🥲", "smiling_face_with_tear"),
    ("😬", "grimacing"),
    ("🙄", "face_with_rolling_eyes"),
    ("😮", "open_mouth"),
    ("💀", "skull"),
    ("👻", "ghost"),
    ("💩", "hankey"),
    ("🐛", "bug"),
    ("🔧", "wrench"),
    ("🔨", "hammer"),
    ("🛠️", "hammer_and_wrench"),
    ("⚙️", "gear"),
    ("🔍", "mag"),
    ("🔎", "mag_right"),
    ("📌", "pushpin"),
    ("📎", "paperclip"),
    ("📝", "memo"),
    ("📄", "page_facing_up"),
    ("📈", "chart_with_upwards_trend"),
    ("📉", "chart_with_downwards_trend"),
    ("📊", "bar_chart"),
    ("📅", "date"),
    ("⏰", "alarm_clock"),
    ("⏳", "hourglass_flowing_sand"),
    ("⌛", "hourglass"),
    ("⏱️", "stopwatch"),
    ("🔄", "arrows_counterclockwise"),
    ("♻️", "recycle"),
    ("🔒", "lock"),
    ("🔓", "unlock"),
    ("🔑", "key"),
    ("🔔", "bell"),
    ("🔕", "no_bell"),
    ("📣", "mega"),
    ("💬", "speech_balloon"),
    ("🗑️", "wastebasket"),
    ("🔗", "link"),
    ("🔴", "red_circle"),
    ("🟠", "large_orange_circle"),
    ("🟡", "large_yellow_circle"),
    ("🟢", "large_green_circle"),
    ("🔵", "large_blue_circle"),
    ("⚪", "white_circle"),
    ("⚫", "black_circle"),
    ("➕", "heavy_plus_sign"),
    ("➖", "heavy_minus_sign"),
    ("➡️", "arrow_right"),
    ("⬅️", "arrow_left"),
    ("⬆️", "arrow_up"),
    ("⬇️", "arrow_down"),
    ("☕", "coffee"),
    ("🍕", "pizza"),
    ("🎂", "birthday"),
    ("🏆", "trophy"),
    ("🎯", "dart"),
    ("🌍", "earth_africa"),
    ("☀️", "sunny"),
    ("🌈", "rainbow"),
    ("⚡", "zap"),
    ("❄️", "snowflake"),
    ("💸", "money_with_wings"),
    ("💰", "moneybag"),
    ("🆗", "ok"),
    ("🆕", "new"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emoji_and_names_lead_to_the_name() {
        for (emoji, name) in [
            ("👍", Some("+1")),
            ("👍🏽", Some("+1")),
            ("❤️", Some("heart")),
            ("❤", Some("heart")),
            (":party_parrot:", Some("party_parrot")),
            ("eyes", Some("eyes")),
            ("🦖", None),
            ("", None),
            (": :", None),
        ] {
            assert_eq!(name_of(emoji), name, "{emoji}");
        }
    }

    #[test]
    fn no_emoji_is_named_twice() {
        for (at, (emoji, name)) in NAMES.iter().enumerate() {
            assert!(!NAMES[..at].iter().any(|(other, known)| other == emoji || known == name), "{emoji}");
        }
    }
}
