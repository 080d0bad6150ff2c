//! Texts of Matrix messages: without the quotation of old replies, and without the mention of the bot.

use posthouse_wire::MessageType;

use crate::bots::OpenedBot;
use crate::matrix::payload::MessageContent;
use crate::matrix::{DISPLAY_NAME, USER_ID};
use crate::platform::location_text;

/// The text of a message without a file, or the reason why it is no turn.
pub(super) fn words(
    content: &MessageContent<'_>,
    is_reply: bool,
) -> Result<(String, MessageType), &'static str> {
    let body = content.body.as_deref().unwrap_or_default();
    match content.msgtype.as_deref() {
        Some("m.location") => {
            let place = content.geo_uri.as_deref().and_then(coordinates).ok_or("unreadable")?;
            // The body is a sentence with the same coordinates, or the name of the place.
            let name = Some(body).filter(|body| !body.contains("geo:"));
            return Ok((location_text(name, place.0, place.1), MessageType::Location));
        }
        Some("m.text" | "m.notice" | "m.emote") => {}
        // A file without an address that can be used, such as an encrypted one.
        _ => return Err("unsupported"),
    }
    let said = if is_reply { without_quotation(body) } else { body };
    match said.trim().is_empty() {
        true => Err("empty"),
        false => Ok((said.to_owned(), MessageType::Text)),
    }
}

/// Latitude and longitude of `geo:51.5,-0.12;u=35`.
fn coordinates(uri: &str) -> Option<(f64, f64)> {
    let point = uri.strip_prefix("geo:")?.split(';').next()?;
    let mut numbers = point.split(',').map(|number| number.trim().parse::<f64>().ok());
    let (latitude, longitude) = (numbers.next()??, numbers.next()??);
    (latitude.is_finite() && longitude.is_finite()).then_some((latitude, longitude))
}

/// The text without the quotation with which older clients begin a reply.
fn without_quotation(body: &str) -> &str {
    if !body.starts_with("> <") && !body.starts_with("> * <") {
        return body;
    }
    let mut rest = body;
    while rest.starts_with('>') {
        rest = rest.split_once('\n').map_or("", |(_, after)| after);
    }
    let rest = rest.trim_start_matches('\n');
    if rest.trim().is_empty() { body } else { rest }
}

/// The text without the mention of the bot and the white space after it. A text of which nothing would be left is
/// returned as it was.
pub(super) fn without_mention(text: &str, bot: &OpenedBot) -> String {
    let user = bot.setting(USER_ID).unwrap_or_default();
    let localpart = user.split(':').next().unwrap_or_default();
    let names = [Some(user), Some(localpart), bot.setting(DISPLAY_NAME), localpart.strip_prefix('@')];
    let begins = |name: &str| {
        let begin = text.get(..name.len()).filter(|begin| begin.eq_ignore_ascii_case(name))?;
        let rest = &text[begin.len()..];
        // `Postyard` does not begin with a mention of `posty`.
        let is_whole = !rest.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        is_whole.then(|| rest.trim_start_matches([':', ',']).trim_start().to_owned())
    };
    let named = names.into_iter().flatten().filter(|name| !name.is_empty()).find_map(begins);
    let rest = named.unwrap_or_else(|| match user.is_empty() {
        true => text.to_owned(),
        false => text.replace(&format!("{user} "), "").replace(user, ""),
    });
    if rest.trim().is_empty() { text.to_owned() } else { rest.trim().to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_quotation_of_an_old_reply_is_taken_away() {
        assert_eq!(without_quotation("> <@ana:hs> hi\n> there\n\nyes"), "yes");
        assert_eq!(without_quotation("> * <@ana:hs> waves\n\nyes"), "yes");
        for kept in ["> a saying\n\nyes", "> <@ana:hs> only this", "no quotation"] {
            assert_eq!(without_quotation(kept), kept);
        }
    }

    #[test]
    fn a_mention_of_the_bot_is_taken_away() {
        let settings = json!({ "user_id": "@posty:hs.test", "display_name": "Posty Bot" });
        let bot = OpenedBot {
            platform: "matrix".into(),
            id: "posty.hs.test".into(),
            shared: false,
            settings: settings.as_object().unwrap().clone(),
            credentials: Default::default(),
        };
        for (text, left) in [
            ("@posty:hs.test: status", "status"),
            ("Posty Bot, status", "status"),
            ("posty bot status", "status"),
            ("@posty status", "status"),
            ("status, @posty:hs.test please", "status, please"),
            ("postyard is a word", "postyard is a word"),
            ("@posty:hs.test", "@posty:hs.test"),
        ] {
            assert_eq!(without_mention(text, &bot), left, "{text}");
        }
    }

    #[test]
    fn a_place_has_coordinates() {
        assert_eq!(coordinates("geo:51.5,-0.12;u=35"), Some((51.5, -0.12)));
        for wrong in ["geo:", "geo:1", "51.5,-0.12", "geo:inf,0", "geo:a,b"] {
            assert_eq!(coordinates(wrong), None, "{wrong}");
        }
    }
}
