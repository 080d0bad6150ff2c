//! Ids of Matrix: which texts are ids of users, rooms and events, and the servers that they name.

/// Longest id, in bytes.
const LONGEST: usize = 255;

fn is_id(id: &str, sigil: char) -> bool {
    id.len() > 1
        && id.len() <= LONGEST
        && id.starts_with(sigil)
        && !id.chars().any(|letter| letter.is_control() || letter.is_whitespace())
}

/// The id of a room. Since room version 12 it does not name a server.
pub(super) fn is_room_id(id: &str) -> bool {
    is_id(id, '!')
}

pub(super) fn is_event_id(id: &str) -> bool {
    is_id(id, '$')
}

pub(super) fn is_user_id(id: &str) -> bool {
    is_id(id, '@') && server_of(id).is_some()
}

/// The server that an id names. It may have a port: `hs.test:8448`.
pub(super) fn server_of(id: &str) -> Option<&str> {
    id.split_once(':').map(|(_, server)| server).filter(|server| !server.is_empty())
}

/// The server and the id of a file, from its address `mxc://server/id`.
pub(super) fn media_parts(address: &str) -> Option<(&str, &str)> {
    let (server, id) = address.strip_prefix("mxc://")?.split_once('/')?;
    let is_part = |part: &str, more: &[u8]| {
        (1..=LONGEST).contains(&part.len())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte))
            && !part.bytes().all(|byte| byte == b'.')
    };
    (is_part(server, b".-:[]") && is_part(id, b"-_")).then_some((server, id))
}

/// The default id of a bot: its user id, in the letters that an id of a bot may have.
pub(super) fn bot_id(user: &str) -> String {
    let id = user.trim_start_matches('@').replacen(':', ".", 1);
    let letter = |letter: char| match letter {
        letter if letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-') => letter,
        _ => '-',
    };
    id.chars().map(letter).take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_told_apart() {
        assert!(is_room_id("!r1:hs.test") && is_room_id("!82u5aBc"));
        assert!(!is_room_id("#alias:hs.test") && !is_room_id("!") && !is_room_id("!a b"));
        assert!(is_user_id("@ana:hs.test") && !is_user_id("@ana") && !is_user_id("@ana:"));
        assert!(is_event_id("$1") && !is_event_id("$1\n") && !is_event_id(&"$".repeat(256)));
        assert_eq!((server_of("!r:hs.test:8448"), server_of("!82u5")), (Some("hs.test:8448"), None));
    }

    #[test]
    fn an_address_of_a_file_leads_nowhere_else() {
        assert_eq!(media_parts("mxc://hs.test:8448/aB_-1"), Some(("hs.test:8448", "aB_-1")));
        for wrong in [
            "mxc://hs.test",
            "https://hs.test/a",
            "mxc:///a",
            "mxc://hs/..",
            "mxc://../a",
            "mxc://hs/a/b",
            "mxc://h/a?b",
        ] {
            assert_eq!(media_parts(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_bot_is_named_after_its_user() {
        assert_eq!(bot_id("@posty:hs.test"), "posty.hs.test");
        assert_eq!(bot_id("@a/b=c:[::1]:8448"), "a-b-c.---1--8448");
    }
}
