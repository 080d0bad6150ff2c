//! Signed tokens (JWT) of foreign issuers: parsing, and checks of their claims. Nothing in them is trusted yet.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use posthouse_time::Moment;
use serde_json::{Map, Value};

/// Longest accepted token, in bytes. Tokens with many group names are long.
const LONGEST: usize = 16 << 10;
/// Allowed difference in seconds between the issuer's clock and this one.
const LEEWAY_SECONDS: f64 = 60.0;
/// Prefix of the audience of a token that manages one agent.
const AGENT: &str = "agent:";

/// The accepted signature algorithms. There is no other, and none without a public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JwtAlgorithm {
    Rs256,
    Rs384,
    Rs512,
    Es256,
    Es384,
}

impl JwtAlgorithm {
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rs256,
            "RS384" => Self::Rs384,
            "RS512" => Self::Rs512,
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            _ => return None,
        })
    }
}

/// A parsed token whose signature has not been checked.
pub(super) struct UncheckedJwt<'a> {
    pub algorithm: JwtAlgorithm,
    pub kid: Option<String>,
    claims: Map<String, Value>,
    /// The bytes that the signature covers.
    pub signed: &'a [u8],
    pub signature: Vec<u8>,
}

impl<'a> UncheckedJwt<'a> {
    /// `None` for a text that is not a token, or one that no key could make valid.
    pub fn read(text: &'a str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let header = object(header)?;
        // No extension is known, so none may be critical. A detached payload is one.
        if header.contains_key("crit") || header.contains_key("b64") {
            return None;
        }
        let kid = match header.get("kid") {
            None => None,
            Some(Value::String(kid)) => Some(kid.clone()),
            Some(_) => return None,
        };
        Some(Self {
            algorithm: JwtAlgorithm::named(header.get("alg")?.as_str()?)?,
            kid,
            claims: object(claims)?,
            signed: signed.as_bytes(),
            signature: decode(signature)?,
        })
    }

    /// A claim that is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.claims.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    /// Whether the token has not expired and has begun. `exp` is required.
    pub fn is_current(&self, now: Moment) -> bool {
        let now = now.millis() as f64 / 1000.0;
        let seconds = |name| self.claims.get(name).and_then(Value::as_f64);
        let begun = |name| {
            !self.claims.contains_key(name) || seconds(name).is_some_and(|at| at <= now + LEEWAY_SECONDS)
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
        match self.claims.get("aud")? {
            Value::String(one) => Some(vec![one]),
            Value::Array(several) => several.iter().map(Value::as_str).collect(),
            _ => None,
        }
    }
}

fn object(part: &str) -> Option<Map<String, Value>> {
    serde_json::from_slice(&decode(part)?).ok()
}

/// Base64 as RFC 7515 writes it, without padding.
pub(super) fn decode(part: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(part).ok()
}

#[cfg(test)]
mod tests {
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
            token(plain, "{}") + "=",
            token(plain, "{}") + ".e30",
            token(plain, &format!(r#"{{"iss":"{}"}}"#, "x".repeat(LONGEST))),
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
