//! Forwards: interactions for agents that want them whole (relay contract section 15), without anything secret.
//!
//! An interaction of a platform carries a token that acts as the bot, and comes with a signature. Here only fields that
//! are known to be safe are copied into a new body. A field that is not listed is left out, even one that the platform
//! adds tomorrow. Of the headers only the content type is copied, and nothing of the request's URL.

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use ledger::BotRef;
use posthouse_wire::passthrough::Forward;
use serde_json::{Map, Value};

/// A verified interaction as the platform sent it.
pub struct RawInteraction<'r> {
    pub on: &'r BotRef,
    pub headers: &'r HeaderMap,
    pub body: &'r [u8],
}

impl RawInteraction<'_> {
    /// The interaction with its known-safe fields. `None` if it is not a JSON object, or if the fields of its platform are
    /// not known. The profile is set when the route is known.
    pub fn sanitized(&self) -> Option<Forward> {
        let fields = known_safe(self.on.platform.as_str())?;
        let body: Map<String, Value> = serde_json::from_slice(self.body).ok()?;
        let copied = Value::Object(copy_fields(fields, &body)).to_string();
        let content_type = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let is_json = content_type.and_then(|value| value.split(';').next()).map(str::trim);
        let headers = is_json.filter(|kind| kind.eq_ignore_ascii_case(JSON));
        Some(Forward {
            platform: self.on.platform.clone(),
            bot_id: self.on.bot.clone(),
            method: "POST".to_owned(),
            // Not the path of the request, which may contain a secret.
            path: format!("/interactions/{}", self.on.bot),
            headers: headers.map(|_| (CONTENT_TYPE.to_string(), JSON.to_owned())).into_iter().collect(),
            body_b64: Forward::encoded(copied.as_bytes()),
            profile: None,
        })
    }
}

/// The one content type that is forwarded. Parameters are left out.
const JSON: &str = "application/json";

/// How a known-safe field is copied.
enum CopyRule {
    /// A text, number, boolean or null. An object or a list in its place is left out.
    Scalar,
    /// An object, of which these fields are copied.
    Fields(&'static [(&'static str, CopyRule)]),
    /// A list. Items that fit are copied.
    Each(&'static CopyRule),
}

/// The known-safe fields of a platform's interactions.
fn known_safe(platform: &str) -> Option<&'static [(&'static str, CopyRule)]> {
    match platform {
        "discord" => Some(DISCORD_INTERACTION),
        _ => None,
    }
}

/// Not among them: `token`, with which anybody can answer as the bot, and `resolved`, whose files have signed URLs.
static DISCORD_INTERACTION: &[(&str, CopyRule)] = &[
    ("id", CopyRule::Scalar),
    ("application_id", CopyRule::Scalar),
    ("type", CopyRule::Scalar),
    ("guild_id", CopyRule::Scalar),
    ("channel_id", CopyRule::Scalar),
    ("locale", CopyRule::Scalar),
    ("guild_locale", CopyRule::Scalar),
    ("channel", CopyRule::Fields(DISCORD_CHANNEL)),
    ("member", CopyRule::Fields(&[("nick", CopyRule::Scalar), ("user", CopyRule::Fields(DISCORD_USER))])),
    ("user", CopyRule::Fields(DISCORD_USER)),
    ("message", CopyRule::Fields(&[("id", CopyRule::Scalar)])),
    ("data", CopyRule::Fields(DISCORD_DATA)),
];

static DISCORD_CHANNEL: &[(&str, CopyRule)] = &[
    ("id", CopyRule::Scalar),
    ("type", CopyRule::Scalar),
    ("name", CopyRule::Scalar),
    ("parent_id", CopyRule::Scalar),
];

static DISCORD_USER: &[(&str, CopyRule)] = &[
    ("id", CopyRule::Scalar),
    ("username", CopyRule::Scalar),
    ("global_name", CopyRule::Scalar),
    ("bot", CopyRule::Scalar),
];

/// A command with its options, a pressed component, or a form.
static DISCORD_DATA: &[(&str, CopyRule)] = &[
    ("id", CopyRule::Scalar),
    ("name", CopyRule::Scalar),
    ("type", CopyRule::Scalar),
    ("target_id", CopyRule::Scalar),
    ("options", CopyRule::Each(&DISCORD_OPTION)),
    ("custom_id", CopyRule::Scalar),
    ("component_type", CopyRule::Scalar),
    ("values", CopyRule::Each(&CopyRule::Scalar)),
    ("components", CopyRule::Each(&DISCORD_COMPONENT)),
];

static DISCORD_OPTION: CopyRule = CopyRule::Fields(&[
    ("name", CopyRule::Scalar),
    ("type", CopyRule::Scalar),
    ("value", CopyRule::Scalar),
    ("focused", CopyRule::Scalar),
    // Groups of sub-commands have sub-commands, which have options.
    ("options", CopyRule::Each(&DISCORD_OPTION)),
]);

static DISCORD_COMPONENT: CopyRule = CopyRule::Fields(&[
    ("type", CopyRule::Scalar),
    ("custom_id", CopyRule::Scalar),
    ("value", CopyRule::Scalar),
    ("components", CopyRule::Each(&DISCORD_COMPONENT)),
]);

fn copy_fields(fields: &[(&str, CopyRule)], from: &Map<String, Value>) -> Map<String, Value> {
    let copied =
        fields.iter().filter_map(|(name, rule)| Some(((*name).to_owned(), copy(rule, from.get(*name)?)?)));
    copied.collect()
}

fn copy(rule: &CopyRule, from: &Value) -> Option<Value> {
    match (rule, from) {
        (CopyRule::Scalar, Value::Object(_) | Value::Array(_)) => None,
        (CopyRule::Scalar, scalar) => Some(scalar.clone()),
        (CopyRule::Fields(fields), Value::Object(object)) => Some(Value::Object(copy_fields(fields, object))),
        (CopyRule::Each(item), Value::Array(items)) => {
            Some(Value::Array(items.iter().filter_map(|from| copy(item, from)).collect()))
        }
        (CopyRule::Fields(_) | CopyRule::Each(_), _) => None,
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const CANARY: &str = "canary-7f3a";

    fn discord() -> BotRef {
        BotRef { platform: "discord".into(), bot: "app1".into() }
    }

    /// The interaction of the vector with everything secret that the platform adds, and what is forwarded of it.
    fn forwarded(body: &[u8]) -> Option<Forward> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for secret in
            ["x-signature-ed25519", "x-signature-timestamp", "authorization", "cookie", "x-forwarded-for"]
        {
            headers.insert(HeaderName::from_static(secret), HeaderValue::from_static(CANARY));
        }
        RawInteraction { on: &discord(), headers: &headers, body }.sanitized()
    }

    fn body(of: &Forward) -> Value {
        serde_json::from_slice(&of.body()).unwrap()
    }

    fn vectors(file: &str) -> Vec<Value> {
        let folder = std::env::var_os("POSTHOUSE_VECTORS").map_or_else(
            || std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors"),
            std::path::PathBuf::from,
        );
        let file: Value = serde_json::from_slice(&std::fs::read(folder.join(file)).unwrap()).unwrap();
        file["cases"].as_array().unwrap().clone()
    }

    #[test]
    fn the_interactions_of_the_vectors_are_forwarded_as_they_are_and_their_secrets_are_not() {
        let cases = ["passthrough.json", "hermes-0.20.5/passthrough.json"].into_iter().flat_map(vectors);
        let (mut whole, mut dropped) = (0, 0);
        for case in cases {
            let id = &case["id"];
            let expected: Forward = serde_json::from_str(&case["forward"].to_string()).unwrap();
            let Ok(Value::Object(mut sent)) = serde_json::from_slice(&expected.body()) else {
                assert_eq!(forwarded(&expected.body()), None, "{id}");
                dropped += 1;
                continue;
            };
            let wanted = Value::Object(sent.clone());
            for secret in
                ["token", "response_url", "signature", "authorization", "resolved", "app_permissions"]
            {
                sent.insert(secret.to_owned(), json!(CANARY));
            }
            for holder in ["data", "member", "user", "channel", "message"] {
                if let Some(Value::Object(holder)) = sent.get_mut(holder) {
                    holder.insert("token".to_owned(), json!({ "value": CANARY }));
                }
            }
            let forward = forwarded(Value::Object(sent).to_string().as_bytes()).unwrap();
            // Options that are no list are left out. A stock gateway ignores them too.
            let odd = !wanted["data"]["options"].is_null() && !wanted["data"]["options"].is_array();
            if !odd {
                assert_eq!(body(&forward), wanted, "{id}");
                whole += 1;
            }
            let line = serde_json::to_string(&forward).unwrap();
            assert!(!line.contains(CANARY) && !body(&forward).to_string().contains(CANARY), "{id}: {line}");
            assert_eq!(
                (forward.path.as_str(), forward.method.as_str()),
                ("/interactions/app1", "POST"),
                "{id}"
            );
            assert_eq!(forward.headers, [("content-type".to_owned(), "application/json".to_owned())], "{id}");
        }
        assert!(whole >= 40 && dropped >= 5, "{whole} forwarded, {dropped} dropped");
    }

    #[test]
    fn what_is_known_of_no_platform_is_not_forwarded() {
        let on = BotRef { platform: "pigeon".into(), bot: "b1".into() };
        let raw = RawInteraction { on: &on, headers: &HeaderMap::new(), body: br#"{"type":2}"# };
        assert_eq!(raw.sanitized(), None);
    }

    #[test]
    fn a_parameter_of_the_content_type_is_left_out() {
        let (on, mut headers) = (discord(), HeaderMap::new());
        let kind = HeaderValue::from_str(&format!("Application/JSON; token={CANARY}")).unwrap();
        headers.insert(CONTENT_TYPE, kind);
        let raw = RawInteraction { on: &on, headers: &headers, body: b"{}" };
        assert_eq!(
            raw.sanitized().unwrap().headers,
            [("content-type".to_owned(), "application/json".to_owned())]
        );
    }

    /// Puts the canary into every field that is not listed, and beside and inside of those that are.
    fn with_canaries(fields: &[(&str, CopyRule)], names: &[String], depth: u32) -> Value {
        let mut object = Map::new();
        for name in names.iter().filter(|name| fields.iter().all(|(known, _)| known != name)) {
            object.insert(name.clone(), json!({ "value": CANARY, CANARY: [CANARY] }));
        }
        for (name, rule) in fields {
            object.insert((*name).to_owned(), canary_in(rule, names, depth));
        }
        Value::Object(object)
    }

    fn canary_in(rule: &CopyRule, names: &[String], depth: u32) -> Value {
        match rule {
            CopyRule::Scalar => json!({ "id": CANARY, "value": [CANARY] }),
            CopyRule::Fields(fields) => with_canaries(fields, names, depth),
            CopyRule::Each(_) if depth == 0 => json!([[CANARY], CANARY.len()]),
            CopyRule::Each(item) => json!([canary_in(item, names, depth - 1), [CANARY], { CANARY: CANARY }]),
        }
    }

    proptest! {
        #[test]
        fn no_secret_in_a_field_that_is_not_listed_passes(
            names in proptest::collection::vec("[a-z_]{1,12}|token|response_url|signature|authorization", 1..8),
        ) {
            let sent = with_canaries(DISCORD_INTERACTION, &names, 3).to_string();
            let forward = forwarded(sent.as_bytes()).unwrap();
            let line = serde_json::to_string(&forward).unwrap();
            prop_assert!(sent.contains(CANARY) && !line.contains(CANARY));
            let copied = body(&forward).to_string();
            prop_assert!(!copied.contains(CANARY), "{}", copied);
        }

        #[test]
        fn a_copied_value_is_the_value_that_was_sent(text in ".{0,40}", number in any::<i64>()) {
            let sent = json!({
                "type": 2, "id": number, "user": { "id": text, "username": text },
                "data": { "name": text, "values": [text, number], "options": [{ "name": "q", "value": text }] },
            });
            prop_assert_eq!(body(&forwarded(sent.to_string().as_bytes()).unwrap()), sent);
        }
    }
}
