//! Delivery of Feishu events: over the connections of an app, or encrypted and signed to its address.

use std::sync::Arc;

use aws_lc_rs::cipher::{AES_256, PaddedBlockEncryptingKey, UnboundCipherKey};
use aws_lc_rs::digest;
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde_json::{Value, json};

use super::{FeishuPlatform, settings::FeishuApp};
use crate::harness::{OutgoingRequest, PlatformRow, ReceiverAnswer};

/// A payload as an app with an encrypt key gets it.
fn encrypted(key: &str, payload: &str) -> Option<String> {
    let hash = digest::digest(&digest::SHA256, key.as_bytes());
    let key = UnboundCipherKey::new(&AES_256, hash.as_ref()).ok()?;
    let mut text = payload.as_bytes().to_vec();
    let context = PaddedBlockEncryptingKey::cbc_pkcs7(key).ok()?.encrypt(&mut text).ok()?;
    let iv: &[u8] = (&context).try_into().ok()?;
    let whole = [iv, &text].concat();
    Some(json!({"encrypt": BASE64_STANDARD.encode(whole)}).to_string())
}

/// A request with the signature of an app. The check of an address is not signed.
fn request(app: &FeishuApp, url: &str, payload: &Value, now_ms: i64, nonce: u64) -> OutgoingRequest {
    let is_check = payload["type"] == "url_verification";
    let mut headers = vec![("content-type", "application/json; charset=utf-8".to_owned())];
    let plain = payload.to_string();
    let body = match app.encrypt_key.as_str() {
        "" => plain,
        key => encrypted(key, &plain).unwrap_or_default(),
    };
    if !app.encrypt_key.is_empty() && !is_check {
        let (time, nonce) = ((now_ms / 1000).to_string(), format!("nonce-{nonce}"));
        let signed =
            [time.as_bytes(), nonce.as_bytes(), app.encrypt_key.as_bytes(), body.as_bytes()].concat();
        let signature = hex::encode(digest::digest(&digest::SHA256, &signed));
        headers.extend([
            ("x-lark-request-timestamp", time),
            ("x-lark-request-nonce", nonce),
            ("x-lark-signature", signature),
        ]);
    }
    OutgoingRequest { method: http::Method::POST, url: url.to_owned(), headers, body: Bytes::from(body) }
}

impl FeishuPlatform {
    /// Delivers an event to an app. Returns the event's id.
    pub(super) fn announce(self: &Arc<Self>, app: &FeishuApp, kind: &str, event: &Value) -> String {
        let id = format!("event-{}", self.harness.next_id());
        let payload = json!({
            "schema": "2.0", "event": event,
            "header": {"event_id": id, "event_type": kind, "token": app.verification_token, "app_id": app.id,
                "create_time": self.harness.now_ms().to_string(), "tenant_key": app.tenant_key()},
        });
        let (has_socket, url) =
            (self.open_sockets(&app.id) > 0, self.world.lock().urls.get(&app.id).cloned());
        let make = || {
            let (feishu, app, id, payload, url) =
                (self.clone(), app.clone(), id.clone(), payload.clone(), url.clone());
            async move {
                match url {
                    _ if has_socket => feishu.deliver_to_socket(&app, &id, &payload).await,
                    Some(url) => feishu.deliver_to_url(&app, &id, &payload, &url).await,
                    None => {
                        let row = PlatformRow::new(app.id, "undelivered", "event").message(id);
                        feishu.harness.record(row.text("the app has neither a connection nor an address"));
                    }
                }
            }
        };
        self.harness.dispatch(&app.id, make);
        id
    }

    async fn deliver_to_url(&self, app: &FeishuApp, id: &str, payload: &Value, url: &str) {
        let build = |_: u32, _: Option<&Result<ReceiverAnswer, String>>| {
            request(app, url, payload, self.harness.now_ms(), self.harness.next_id())
        };
        let answer = self.harness.deliver(&app.id, id, build, |answer| answer.status == 200).await;
        let (kind, data) = match answer {
            Some(answer) => ("acknowledged", serde_json::from_slice(&answer.body).unwrap_or_default()),
            None => ("unacknowledged", Value::Null),
        };
        self.harness.record(PlatformRow::new(app.id.clone(), kind, "event").message(id).raw(data));
    }

    /// Stores an address after it has answered a challenge.
    pub(super) fn set_url(self: &Arc<Self>, app: Option<&str>, url: Option<String>) {
        let app = {
            let mut world = self.world.lock();
            let app = app.map_or_else(|| world.apps.first(), |id| world.app(id)).cloned();
            let Some(app) = app else { return };
            world.urls.remove(&app.id);
            app
        };
        let Some(url) = url else { return };
        let feishu = self.clone();
        self.harness.spawn(async move {
            let challenge = format!("challenge-{}", feishu.harness.next_id());
            let check =
                json!({"challenge": challenge, "token": app.verification_token, "type": "url_verification"});
            let request = request(&app, &url, &check, feishu.harness.now_ms(), 0);
            let answer = feishu.harness.attempt(&app.id, "url_verification", 1, request).await;
            let echoes = |answer: ReceiverAnswer| {
                let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                answer.status == 200 && said["challenge"] == *challenge
            };
            let kind = match answer.is_ok_and(echoes) {
                true => {
                    feishu.world.lock().urls.insert(app.id.clone(), url);
                    "url_verified"
                }
                false => "url_refused",
            };
            feishu.harness.record(PlatformRow::new(app.id, kind, "url_verification"));
        });
    }
}
