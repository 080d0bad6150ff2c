//! Stand-in for services that send signed webhooks: Standard Webhooks, GitHub, GitLab, Stripe, bearer.
//!
//! It has no API of its own. [`WebhookInjection`] sends one event to a URL on this machine.

use std::{io, sync::Arc, time::Duration};

use aws_lc_rs::hmac;
use axum::body::Body;
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{Response, request::Parts};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::harness::{
    ApiCall, CallSubject, Harness, HarnessSettings, OutgoingRequest, PlatformRow, StandIn, StandInPlatform,
    json_response, respond,
};

/// State and behaviour of the sender, run by [`WebhookStandIn`].
pub struct WebhookPlatform {
    harness: Arc<Harness>,
}

/// A running sender of webhooks.
pub type WebhookStandIn = StandIn<WebhookPlatform>;

/// The scheme with which a webhook proves its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WebhookScheme {
    /// `webhook-id`, `webhook-timestamp`, `webhook-signature`. The secret is `whsec_` and base64.
    Standard,
    /// `X-Hub-Signature-256`, `X-GitHub-Event`, `X-GitHub-Delivery`.
    Github,
    /// `X-Gitlab-Token`, `X-Gitlab-Event`.
    Gitlab,
    /// `Stripe-Signature`.
    Stripe,
    /// `Authorization: Bearer`.
    Bearer,
}

/// What a service does.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum WebhookInjection {
    /// Sends an event, again after a pause until the receiver answers 2xx.
    Send {
        /// URL on this machine.
        url: String,
        /// Proof of origin.
        scheme: WebhookScheme,
        /// Secret of the scheme.
        secret: String,
        /// JSON body.
        body: Value,
        /// Name of the event. Default `push`.
        #[serde(default = "push")]
        event: String,
        /// Id of the delivery. Default: a new one.
        #[serde(default)]
        delivery: Option<String>,
    },
}

fn push() -> String {
    "push".to_owned()
}

impl StandIn<WebhookPlatform> {
    /// Binds the address and starts to answer.
    ///
    /// # Errors
    /// When the address cannot be bound, or is not on loopback.
    pub async fn start(settings: HarnessSettings) -> io::Result<WebhookStandIn> {
        StandIn::run(settings, |harness| WebhookPlatform { harness }).await
    }
}

impl StandInPlatform for WebhookPlatform {
    type Injection = WebhookInjection;
    const NAME: &'static str = "Webhook";
    const EXAMPLE: &'static str = r#"{"do": "send", "url": "http://127.0.0.1:7678/", "scheme": "bearer", "secret": "s", "body": {"text": "TEXT"}}"#;

    fn harness(&self) -> &Arc<Harness> {
        &self.harness
    }

    fn subject(&self, _head: &Parts, _path: &str, _body: &[u8]) -> Option<CallSubject> {
        None
    }

    async fn perform(self: Arc<Self>, _call: ApiCall) -> Response<Body> {
        self.not_found()
    }

    fn too_many(&self, _retry_after: Duration, _global: bool) -> Response<Body> {
        json_response(429, &json!({"message": "too many requests"}))
    }

    fn not_found(&self) -> Response<Body> {
        respond(404, "text/plain", "not found")
    }

    fn inject(self: &Arc<Self>, injection: WebhookInjection) -> Result<Value, String> {
        let WebhookInjection::Send { url, scheme, secret, body, event, delivery } = injection;
        let id = delivery.unwrap_or_else(|| format!("msg_{}", self.harness.next_id()));
        let body = Bytes::from(body.to_string());
        // A secret that cannot be a key is refused now, not at the time of delivery.
        let now_s = self.harness.now_ms() / 1000;
        headers(scheme, &secret, &event, &id, &body, now_s)?;
        let make = || {
            let (platform, url, secret) = (self.clone(), url.clone(), secret.clone());
            let (event, id, body) = (event.clone(), id.clone(), body.clone());
            async move { platform.send(&url, scheme, &secret, &event, &id, body).await }
        };
        self.harness.dispatch("webhook", make);
        Ok(json!({"delivery": id}))
    }

    fn reset(&self) {}
}

impl WebhookPlatform {
    async fn send(&self, url: &str, scheme: WebhookScheme, secret: &str, event: &str, id: &str, body: Bytes) {
        let build = |_, _: Option<&Result<_, String>>| OutgoingRequest {
            method: http::Method::POST,
            url: url.to_owned(),
            headers: headers(scheme, secret, event, id, &body, self.harness.now_ms() / 1000)
                .unwrap_or_default(),
            body: body.clone(),
        };
        let accepted = |answer: &crate::harness::ReceiverAnswer| (200..300).contains(&answer.status);
        let answer = self.harness.deliver("webhook", id, build, accepted).await;
        let kind = if answer.is_some() { "acknowledged" } else { "unacknowledged" };
        self.harness.record(PlatformRow::new("webhook", kind, event.to_owned()).message(id));
    }
}

/// Headers of a request, with the proof of its origin.
fn headers(
    scheme: WebhookScheme,
    secret: &str,
    event: &str,
    id: &str,
    body: &[u8],
    now_s: i64,
) -> Result<Vec<(&'static str, String)>, String> {
    let sign = |key: &[u8], parts: &[&[u8]]| {
        hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), &parts.concat()).as_ref().to_vec()
    };
    let time = now_s.to_string();
    let mut headers = vec![("content-type", "application/json".to_owned())];
    headers.extend(match scheme {
        WebhookScheme::Standard => {
            let key = BASE64_STANDARD.decode(secret.trim_start_matches("whsec_"));
            let key = key.map_err(|_| "the secret of Standard Webhooks is base64")?;
            let signature = sign(&key, &[id.as_bytes(), b".", time.as_bytes(), b".", body]);
            vec![
                ("webhook-id", id.to_owned()),
                ("webhook-timestamp", time),
                ("webhook-signature", format!("v1,{}", BASE64_STANDARD.encode(signature))),
            ]
        }
        WebhookScheme::Github => vec![
            ("x-github-event", event.to_owned()),
            ("x-github-delivery", id.to_owned()),
            ("x-hub-signature-256", format!("sha256={}", hex::encode(sign(secret.as_bytes(), &[body])))),
        ],
        WebhookScheme::Gitlab => vec![
            ("x-gitlab-event", event.to_owned()),
            ("x-gitlab-event-uuid", id.to_owned()),
            ("x-gitlab-token", secret.to_owned()),
        ],
        WebhookScheme::Stripe => {
            let signature = sign(secret.as_bytes(), &[time.as_bytes(), b".", body]);
            vec![("stripe-signature", format!("t={time},v1={}", hex::encode(signature)))]
        }
        WebhookScheme::Bearer => vec![("authorization", format!("Bearer {secret}"))],
    });
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(headers: &[(&'static str, String)], name: &str) -> String {
        headers.iter().find(|(one, _)| *one == name).map(|(_, value)| value.clone()).unwrap_or_default()
    }

    /// Recorded requests, signed by others with the secrets of the vectors.
    #[test]
    fn vectors_of_signed_webhooks_get_the_same_headers() {
        let folder = std::env::var_os("POSTHOUSE_VECTORS").map_or_else(
            || std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors"),
            std::path::PathBuf::from,
        );
        let text = std::fs::read_to_string(folder.join("platforms/verify_webhook.json")).unwrap();
        let vectors: Value = serde_json::from_str(&text).unwrap();
        let mut checked = 0;
        for case in vectors["cases"].as_array().unwrap() {
            let accepted = case["expect"]["accept"] == true && case.get("config_override").is_none();
            let header = |name: &str| {
                let headers = case["request"]["headers"].as_array().unwrap();
                let pair = headers.iter().find(|pair| pair[0].as_str().unwrap().eq_ignore_ascii_case(name));
                pair.map(|pair| pair[1].as_str().unwrap().to_owned())
            };
            let body = BASE64_STANDARD.decode(case["request"]["body_b64"].as_str().unwrap()).unwrap();
            let secret = |name: &str| vectors["config"][name].as_str().unwrap_or_default().to_owned();
            if let (true, Some(signature)) = (accepted, header("webhook-signature")) {
                let time = header("webhook-timestamp").unwrap().parse().unwrap();
                let secret = secret("standard_secret");
                let made = headers(
                    WebhookScheme::Standard,
                    &secret,
                    "",
                    &header("webhook-id").unwrap(),
                    &body,
                    time,
                )
                .unwrap();
                assert!(
                    signature.split(' ').any(|one| one == found(&made, "webhook-signature")),
                    "{}",
                    case["name"]
                );
                checked += 1;
            }
            if let (true, Some(signature)) = (accepted, header("x-hub-signature-256")) {
                let made =
                    headers(WebhookScheme::Github, &secret("github_secret"), "", "", &body, 0).unwrap();
                assert_eq!(found(&made, "x-hub-signature-256"), signature.to_lowercase(), "{}", case["name"]);
                checked += 1;
            }
        }
        assert!(checked >= 2, "only {checked} cases were compared");
    }
}
