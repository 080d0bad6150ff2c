//! Bot API methods for updates: polling and webhook, of which only one works at a time.

use std::time::Duration;

use http::Uri;
use serde_json::{json, value::RawValue};

use super::MethodCall;
use crate::telegram::{
    answer::{ApiRefusal, ApiSuccess, raw},
    webhook::{BotWebhook, feed, is_loopback},
    world::World,
};

const WEBHOOK_ACTIVE: &str =
    "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first";
const OTHER_POLLER: &str =
    "terminated by other getUpdates request; make sure that only one bot instance is running";

impl MethodCall<'_> {
    pub(super) async fn get_updates(&self) -> Result<ApiSuccess, ApiRefusal> {
        let limit = usize::try_from(self.params.integer("limit").unwrap_or(100).clamp(1, 100)).unwrap_or(100);
        let timeout = u64::try_from(self.params.integer("timeout").unwrap_or(0).clamp(0, 50)).unwrap_or(0);
        let offset = self.params.integer("offset").unwrap_or(0);
        let allowed = self.params.names("allowed_updates")?;
        let (turn, arrived) = {
            let mut world = self.shared.world.lock();
            let state = self.state(&mut world);
            if state.webhook.is_some() {
                return Err(ApiRefusal::conflict(WEBHOOK_ACTIVE));
            }
            state.polls += 1;
            if let Some(allowed) = allowed {
                state.allowed = allowed;
            }
            let ours = (state.polls, state.arrived.clone());
            self.pass(&mut world, offset);
            ours
        };
        // Tells an older waiting poll that it was replaced.
        arrived.notify_waiters();
        self.shared.changed.notify_waiters();

        let mut patience = std::pin::pin!(tokio::time::sleep(Duration::from_secs(timeout)));
        loop {
            let mut news = std::pin::pin!(arrived.notified());
            news.as_mut().enable();
            {
                let mut world = self.shared.world.lock();
                let state = self.state(&mut world);
                if state.webhook.is_some() {
                    return Err(ApiRefusal::conflict("terminated by setWebhook request"));
                }
                if state.polls != turn {
                    return Err(ApiRefusal::conflict(OTHER_POLLER));
                }
                let batch = state.pending.values().take(limit).map(|(_, body)| as_raw(body));
                let batch: Vec<Box<RawValue>> = batch.collect();
                if !batch.is_empty() || timeout == 0 {
                    return Ok(ApiSuccess::with(&batch));
                }
            }
            tokio::select! {
                () = &mut news => {}
                () = &mut patience => return Ok(ApiSuccess { result: raw(&json!([])), description: None }),
            }
        }
    }

    /// Confirms everything before the offset. A negative offset counts from the end.
    fn pass(&self, world: &mut World, offset: i64) {
        let pending = &world.bots[self.at].pending;
        let passed: Vec<i64> = if offset < 0 {
            let keep = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX);
            pending.keys().copied().take(pending.len().saturating_sub(keep)).collect()
        } else {
            pending.range(..offset).map(|(id, _)| *id).collect()
        };
        for id in passed {
            world.confirm(self.at, id, "offset");
        }
    }

    pub(super) fn set_webhook(&self) -> Result<ApiSuccess, ApiRefusal> {
        let url = self.params.text("url").unwrap_or("").trim();
        if url.is_empty() {
            return self.delete_webhook();
        }
        check_url(url)?;
        let secret = self.params.text("secret_token").filter(|secret| !secret.is_empty());
        if let Some(secret) = secret {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if secret.len() > 256 || !secret.chars().all(plain) {
                return Err(ApiRefusal::bad_request("secret token contains unallowed characters"));
            }
        }
        let connections = self.params.integer("max_connections").unwrap_or(40).clamp(1, 100);
        let connections = usize::try_from(connections).unwrap_or(40);
        let allowed = self.params.names("allowed_updates")?;

        let mut world = self.shared.world.lock();
        let state = self.state(&mut world);
        if let Some(allowed) = allowed {
            state.allowed = allowed;
        }
        if self.params.flag("drop_pending_updates") {
            state.pending.clear();
            if let Some(webhook) = &mut state.webhook {
                webhook.forget_waiting();
            }
        }
        // Setting the same webhook again must not disturb running deliveries.
        if let Some(webhook) = &mut state.webhook
            && webhook.url == url
            && webhook.secret.as_deref() == secret
        {
            webhook.max_connections = connections;
            webhook.wake.notify_one();
            return Ok(ApiSuccess::yes().saying("Webhook is already set"));
        }
        let generation = self.shared.next_generation();
        let mut webhook = BotWebhook::new(url.to_owned(), secret.map(str::to_owned), connections, generation);
        for (update_id, (queue, body)) in &state.pending {
            webhook.enqueue(*queue, *update_id, body.clone(), None);
        }
        let wake = webhook.wake.clone();
        if let Some(replaced) = state.webhook.replace(webhook) {
            replaced.wake.notify_one();
        }
        state.arrived.notify_waiters();
        drop(world);
        self.shared.tasks.spawn(feed(self.shared.clone(), self.at, generation, wake));
        self.shared.changed.notify_waiters();
        Ok(ApiSuccess::yes().saying("Webhook was set"))
    }

    pub(super) fn delete_webhook(&self) -> Result<ApiSuccess, ApiRefusal> {
        let mut world = self.shared.world.lock();
        let state = self.state(&mut world);
        if self.params.flag("drop_pending_updates") {
            state.pending.clear();
        }
        let said = match state.webhook.take() {
            Some(removed) => {
                removed.wake.notify_one();
                "Webhook was deleted"
            }
            None => "Webhook is already deleted",
        };
        drop(world);
        self.shared.changed.notify_waiters();
        Ok(ApiSuccess::yes().saying(said))
    }

    pub(super) fn get_webhook_info(&self, world: &mut World) -> ApiSuccess {
        let state = self.state(world);
        let mut info = json!({
            "url": "",
            "has_custom_certificate": false,
            "pending_update_count": state.pending.len(),
        });
        if let Some(webhook) = &state.webhook {
            info["url"] = json!(webhook.url);
            info["max_connections"] = json!(webhook.max_connections);
            if let Some((date, message)) = &webhook.last_error {
                info["last_error_date"] = json!(date);
                info["last_error_message"] = json!(message);
            }
        }
        if !state.allowed.is_empty() {
            info["allowed_updates"] = json!(state.allowed);
        }
        ApiSuccess::with(&info)
    }
}

/// Accepts https on the platform's ports, as the platform does, and any URL on loopback, for tests.
fn check_url(url: &str) -> Result<(), ApiRefusal> {
    let bad = |what: &str| ApiRefusal::bad_request(format!("bad webhook: {what}"));
    let url: Uri = url.parse().map_err(|_| bad("invalid URL"))?;
    match (url.scheme_str(), url.host()) {
        (Some("http" | "https"), Some(_)) if is_loopback(&url) => Ok(()),
        (Some("https"), Some(_)) if matches!(url.port_u16(), None | Some(443 | 80 | 88 | 8443)) => Ok(()),
        (Some("https"), Some(_)) => Err(bad("webhook can be set up only on ports 80, 88, 443 or 8443")),
        _ => Err(bad("an HTTPS URL must be provided for webhook")),
    }
}

fn as_raw(body: &[u8]) -> Box<RawValue> {
    serde_json::from_slice(body).expect("pending updates are JSON written here")
}
