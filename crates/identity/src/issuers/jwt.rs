//! Signed tokens (JWT) of foreign issuers: checks of their claims. Nothing in them is trusted yet.

use posthouse_time::Moment;
use posthouse_wire::jwt::CompactToken;
use serde_json::Value;

/// Allowed difference in seconds between the issuer's clock and this one.
const LEEWAY_SECONDS: f64 = 60.0;
/// Prefix of the audience of a token that manages one agent.
const AGENT: &str = "agent:";

/// A parsed token with checks of its claims. Its signature has not been checked.
pub(super) struct UncheckedJwt<'a>(CompactToken<'a>);

impl<'a> UncheckedJwt<'a> {
    /// `None` for a text that is not a token, or one that no key could make valid.
    pub fn read(text: &'a str) -> Option<Self> {
        CompactToken::read(text).map(Self)
    }

    pub fn unchecked(&self) -> &CompactToken<'a> {
        &self.0
    }

    /// The id of the key that signed it, as the token states it.
    pub fn kid(&self) -> Option<&str> {
        self.0.kid.as_deref()
    }

    /// A claim that is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.claims.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    /// Whether the token has not expired and has begun. `exp` is required.
    pub fn is_current(&self, now: Moment) -> bool {
        let now = now.millis() as f64 / 1000.0;
        let seconds = |name| self.0.claims.get(name).and_then(Value::as_f64);
        let begun = |name| {
            !self.0.claims.contains_key(name) || seconds(name).is_some_and(|at| at <= now + LEEWAY_SECONDS)
        };
        seconds("exp").is_some_and(|end| end > now - LEEWAY_SECONDS) && begun("nbf") && begun("iat")
    }

    /// Whether the token is for this audience.
    pub fn is_for(&self, audience: &str) -> bool {
        self.audiences().is_some_and(|all| all.contains(&audience))
    }

    /// The agent whose management the token is for. `None` unless its audience names exactly one.
    pub fn managed_agent(&self) -> Option<&str> {
        let mut agents = self.audiences()?.into_iter().filter_map(|audience| audience.strip_prefix(AGENT));
        agents.next().filter(|id| !id.is_empty() && agents.next().is_none())
    }

    fn audiences(&self) -> Option<Vec<&str>> {
        match self.0.claims.get("aud")? {
            Value::String(one) => Some(vec![one]),
            Value::Array(several) => several.iter().map(Value::as_str).collect(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    fn token(header: &str, claims: &str) -> String {
        let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
        format!("{}.{}.{}", encode(header), encode(claims), encode("signature"))
    }

    #[test]
    fn only_the_listed_algorithms_are_read() {
        for alg in ["RS256", "RS384", "RS512", "ES256", "ES384"] {
            let text = token(&format!(r#"{{"alg":"{alg}"}}"#), "{}");
            assert!(UncheckedJwt::read(&text).is_some(), "{alg}");
        }
        for alg in ["none", "None", "HS256", "HS512", "PS256", "EdDSA", "ES256K", "ES512", "rs256", ""] {
            let text = token(&format!(r#"{{"alg":"{alg}"}}"#), "{}");
            assert!(UncheckedJwt::read(&text).is_none(), "{alg}");
        }
    }

    #[test]
    fn texts_that_are_no_tokens_are_refused() {
        let plain = r#"{"alg":"RS256"}"#;
        for text in [
            String::new(),
            ".".to_owned(),
            "..".to_owned(),
            "...".to_owned(),
            "a.b.c".to_owned(),
            "eyJ.eyJ.eyJ".to_owned(),
            token("[]", "{}"),
            token(plain, "[]"),
            token(plain, "null"),
            token("{}", "{}"),
            token(r#"{"alg":7}"#, "{}"),
            token(r#"{"alg":"RS256","kid":7}"#, "{}"),
            token(r#"{"alg":"RS256","crit":["exp"]}"#, "{}"),
            token(r#"{"alg":"RS256","b64":false}"#, "{}"),
            token(plain, "{}") + ".e30",
            token(plain, &format!(r#"{{"iss":"{}"}}"#, "x".repeat(16 << 10))),
            token(plain, &"[".repeat(9_000)),
        ] {
            assert!(UncheckedJwt::read(&text).is_none(), "{text:.80}");
        }
    }

    #[test]
    fn times_are_numbers_within_the_leeway() {
        let now = Moment::from_seconds(1_000);
        let current = |claims: &str| {
            let text = token(r#"{"alg":"RS256"}"#, claims);
            UncheckedJwt::read(&text).is_some_and(|token| token.is_current(now))
        };
        for claims in
            [r#"{"exp":1001}"#, r#"{"exp":941}"#, r#"{"exp":1001,"nbf":1060,"iat":1060}"#, r#"{"exp":1e9}"#]
        {
            assert!(current(claims), "{claims}");
        }
        for claims in [
            "{}",
            r#"{"exp":940}"#,
            r#"{"exp":"1001"}"#,
            r#"{"exp":null}"#,
            r#"{"exp":true}"#,
            r#"{"exp":-1e400}"#,
            r#"{"exp":1001,"nbf":1061}"#,
            r#"{"exp":1001,"iat":1061}"#,
            r#"{"exp":1001,"nbf":"1"}"#,
            r#"{"exp":1001,"iat":null}"#,
        ] {
            assert!(!current(claims), "{claims}");
        }
    }

    #[test]
    fn the_audience_is_one_text_or_a_list_of_texts() {
        let read = |aud: &str| token(r#"{"alg":"RS256"}"#, &format!(r#"{{"aud":{aud}}}"#));
        for (aud, is_for, managed) in [
            (r#""posthouse""#, true, None),
            (r#"["other","posthouse"]"#, true, None),
            (r#"["posthouse",7]"#, false, None),
            (r#""POSTHOUSE""#, false, None),
            (r#"[]"#, false, None),
            ("7", false, None),
            (r#""agent:inst_1""#, false, Some("inst_1")),
            (r#"["posthouse","agent:inst_1"]"#, true, Some("inst_1")),
            (r#"["agent:inst_1","agent:inst_2"]"#, false, None),
            (r#""agent:""#, false, None),
        ] {
            let text = read(aud);
            let token = UncheckedJwt::read(&text).unwrap();
            assert_eq!((token.is_for("posthouse"), token.managed_agent()), (is_for, managed), "{aud}");
        }
    }
}
