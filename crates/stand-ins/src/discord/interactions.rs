//! Interactions of Discord: delivered signed to a URL or over the gateway, and answered within three seconds.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    DiscordPlatform,
    errors::RestError,
    messages::{Authorship, EPHEMERAL, MessageBody},
};
use crate::harness::{OutgoingRequest, PlatformRow};

const PING: u64 = 1;
const COMPONENT: u64 = 3;
const AUTOCOMPLETE: u64 = 4;
const MODAL_SUBMIT: u64 = 5;

/// An interaction that waits for its answers.
pub(super) struct StandInInteraction {
    pub id: String,
    pub application: String,
    pub channel: String,
    pub kind: u64,
    pub created_ms: i64,
    /// Type of the first answer.
    pub answered: Option<u64>,
    /// The message that `@original` means.
    pub original: Option<String>,
    /// The message whose button was pressed.
    pub source: Option<String>,
}

impl DiscordPlatform {
    /// Delivers an interaction to the URL of the application, or to its gateway sessions.
    pub(super) fn deliver_interaction(self: &Arc<Self>, token: String, body: Value) -> Result<usize, String> {
        let application = body["application_id"].as_str().unwrap_or_default().to_owned();
        let mut world = self.world.lock();
        let bot = world.bot(&application).ok_or("no such application")?;
        let Some(url) = bot.interactions_url.clone() else {
            return Ok(world.dispatch(&application, "INTERACTION_CREATE", body["guild_id"].as_str(), &body));
        };
        drop(world);
        let bytes = Bytes::from(body.to_string());
        let id = body["id"].as_str().unwrap_or_default().to_owned();
        let make = || {
            let (discord, url, token) = (self.clone(), url.clone(), token.clone());
            let (application, bytes, id) = (application.clone(), bytes.clone(), id.clone());
            async move {
                let request = discord.signed(&application, &url, bytes, true);
                let deadline = discord.settings.interaction_deadline;
                let attempt = discord.harness.attempt(&application, &id, 1, request);
                let outcome = match tokio::time::timeout(deadline, attempt).await {
                    Ok(Ok(answer)) if answer.status == 200 => serde_json::from_slice(&answer.body)
                        .map_err(|_| "the answer is not JSON".to_owned())
                        .and_then(|fields| {
                            let body = MessageBody { fields, files: Vec::new() };
                            discord.first_answer(&token, body).map(drop).map_err(|error| format!("{error:?}"))
                        }),
                    Ok(Ok(answer)) => Err(format!("status {}", answer.status)),
                    Ok(Err(error)) => Err(error),
                    Err(_) => Err("no answer in time".to_owned()),
                };
                if let Err(reason) = outcome {
                    let row = PlatformRow::new(application, "interaction_failed", "interaction").message(id);
                    discord.harness.record(row.text(reason));
                }
            }
        };
        self.harness.dispatch(&application, make);
        Ok(1)
    }

    /// A request with a signature, right or wrong.
    fn signed(&self, application: &str, url: &str, body: Bytes, is_right: bool) -> OutgoingRequest {
        let timestamp = (self.harness.now_ms() / 1000).to_string();
        let world = self.world.lock();
        let signed: &[u8] = if is_right { &body } else { b"something else" };
        let signature =
            world.bot(application).map(|bot| bot.key.sign(&timestamp, signed)).unwrap_or_default();
        OutgoingRequest {
            method: http::Method::POST,
            url: url.to_owned(),
            headers: vec![
                ("content-type", "application/json".to_owned()),
                ("user-agent", "Discord-Interactions/1.0 (+https://discord.com)".to_owned()),
                ("x-signature-ed25519", signature),
                ("x-signature-timestamp", timestamp),
            ],
            body,
        }
    }

    /// Checks an interactions URL as the platform does: it must answer a ping, and refuse one with a wrong signature.
    pub(super) async fn probe(&self, application: &str, url: &str) -> Result<(), String> {
        let ping = |id: u64| {
            let body = json!({
                "id": id.to_string(), "application_id": application, "type": PING, "token": format!("ping-{id}"),
                "version": 1, "entitlements": [], "authorizing_integration_owners": {},
                "user": {"id": "643945264868098049", "username": "discord", "discriminator": "0", "global_name": null},
            });
            Bytes::from(body.to_string())
        };
        let id = self.harness.next_id();
        let wrong = self.signed(application, url, ping(id), false);
        let refused = self.harness.attempt(application, "probe", 1, wrong).await?;
        if refused.status != 401 {
            return Err(format!("a wrong signature was answered with {}", refused.status));
        }
        let right = self.signed(application, url, ping(id), true);
        let answer = self.harness.attempt(application, "ping", 1, right).await?;
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if answer.status != 200 || body["type"] != PING {
            return Err(format!("a ping was answered with {} {body}", answer.status));
        }
        Ok(())
    }

    /// Checks every interactions URL, and removes those that fail.
    pub(super) fn probe_all(self: &Arc<Self>) {
        let urls: Vec<(String, String)> = {
            let world = self.world.lock();
            let with_url =
                world.bots.iter().filter_map(|bot| Some((&bot.settings.id, bot.interactions_url.clone()?)));
            with_url.map(|(id, url)| (id.clone(), url)).collect()
        };
        for (application, url) in urls {
            let discord = self.clone();
            self.harness.spawn(async move {
                let row = match discord.probe(&application, &url).await {
                    Ok(()) => PlatformRow::new(application, "probe_passed", "interaction"),
                    Err(reason) => {
                        if let Some(bot) = discord.world.lock().bot_mut(&application) {
                            bot.interactions_url = None;
                        }
                        PlatformRow::new(application, "interactions_url_removed", "interaction").text(reason)
                    }
                };
                discord.harness.record(row);
            });
        }
    }

    /// The first answer to an interaction. Returns the message that it made, if any.
    pub(super) fn first_answer(&self, token: &str, body: MessageBody) -> Result<Option<Value>, RestError> {
        let now_ms = self.harness.now_ms();
        let kind = body.fields["type"].as_u64().unwrap_or(0);
        let data = body.fields["data"].clone();
        let answer =
            MessageBody { fields: if data.is_object() { data } else { json!({}) }, files: body.files };
        let mut world = self.world.lock();
        let found = world.interactions.get(token).ok_or_else(|| RestError::unknown(10062, "interaction"))?;
        if found.answered.is_some() {
            return Err(RestError::new(400, 40060, "Interaction has already been acknowledged."));
        }
        let deadline = i64::try_from(self.settings.interaction_deadline.as_millis()).unwrap_or(i64::MAX);
        if now_ms - found.created_ms > deadline {
            return Err(RestError::unknown(10062, "interaction"));
        }
        let fits = match kind {
            4 | 5 => !matches!(found.kind, PING | AUTOCOMPLETE),
            6 | 7 => found.source.is_some() && matches!(found.kind, COMPONENT | MODAL_SUBMIT),
            8 => found.kind == AUTOCOMPLETE,
            9 => !matches!(found.kind, PING | AUTOCOMPLETE | MODAL_SUBMIT),
            _ => false,
        };
        if !fits {
            return Err(RestError::field(
                &["type"],
                "BASE_TYPE_CHOICES",
                "This value is not one of the choices.",
            ));
        }
        let (application, channel, source) =
            (found.application.clone(), found.channel.clone(), found.source.clone());
        let base_url = self.harness.base_url();
        let by =
            Authorship { channel: &channel, author: &application, kind: 20, now_ms, base_url: &base_url };
        let message = match kind {
            4 => {
                answer.check(true)?;
                Some(world.write(by, &answer, None))
            }
            5 => {
                let flags = answer.fields["flags"].as_u64().unwrap_or(0) & EPHEMERAL | 1 << 7;
                let loading =
                    MessageBody { fields: json!({"content": "", "flags": flags}), files: Vec::new() };
                Some(world.write(by, &loading, None))
            }
            7 => {
                answer.check(false)?;
                source.as_ref().map(|source| world.change(source, &answer, now_ms)).transpose()?
            }
            _ => None,
        };
        if let Some(found) = world.interactions.get_mut(token) {
            found.answered = Some(kind);
            found.original = match &message {
                Some(message) => message["id"].as_str().map(str::to_owned),
                None => source.filter(|_| kind == 6),
            };
        }
        if let Some(message) = &message
            && message["flags"].as_u64().unwrap_or(0) & EPHEMERAL == 0
        {
            world.announce_message(if kind == 7 { "MESSAGE_UPDATE" } else { "MESSAGE_CREATE" }, message);
        }
        drop(world);
        let described = answer.described();
        let row = |kind: &'static str| {
            PlatformRow::new(application.clone(), kind, "interaction").chat(channel.clone())
        };
        self.harness.record(row("interaction_answered").raw(json!({"type": kind, "data": described})));
        let id = message.as_ref().and_then(|message| message["id"].as_str()).unwrap_or_default();
        if matches!(kind, 4 | 7) {
            let row = row(if kind == 4 { "sent" } else { "edited" });
            self.harness.record(row.message(id).text(answer.text()).raw(described));
        }
        Ok(message)
    }
}
