//! Callbacks of WeCom: the handshake of a URL, sealed deliveries, passive replies and streams.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    WeComPlatform,
    envelope::{open, seal, signature},
    inject::Account,
    settings::{WeComApp, WeComBot},
};
use crate::harness::{OutgoingRequest, PlatformRow, ReceiverAnswer, form};

/// How often the platform asks for more of an answer.
const MOST_POLLS: usize = 400;

/// Keys of callbacks.
#[derive(Clone)]
struct CallbackKeys {
    account: String,
    token: String,
    aes_key: String,
    receiver: String,
}

impl CallbackKeys {
    fn of_app(app: &WeComApp) -> CallbackKeys {
        CallbackKeys {
            account: app.account(),
            token: app.token.clone(),
            aes_key: app.aes_key.clone(),
            receiver: app.corp.clone(),
        }
    }

    fn of_bot(bot: &WeComBot) -> CallbackKeys {
        CallbackKeys {
            account: bot.id.clone(),
            token: bot.token.clone(),
            aes_key: bot.aes_key.clone(),
            receiver: String::new(),
        }
    }
}

/// The text between two tags, without its CDATA section.
fn element<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (found, _) = rest.split_once(&format!("</{name}>"))?;
    Some(found.strip_prefix("<![CDATA[").and_then(|found| found.strip_suffix("]]>")).unwrap_or(found))
}

impl WeComPlatform {
    /// Stores the URL of an account's callbacks, and verifies it.
    pub(super) fn set_callback(self: &Arc<Self>, account: Option<&str>, url: &str) -> Result<(), String> {
        let keys = match self.account(account).ok_or("no such application or AI bot")? {
            Account::App(app) => CallbackKeys::of_app(&app),
            Account::Bot(bot) => CallbackKeys::of_bot(&bot),
        };
        let (platform, url) = (self.clone(), url.to_owned());
        self.harness.spawn(async move {
            let echo = format!("{}", 8_823_712 + platform.harness.next_id());
            let Some((query, sealed)) = platform.sealed(&keys, &echo) else { return };
            let query = format!("{query}&{}", form::write_pairs(&[("echostr".to_owned(), sealed)]));
            let request = OutgoingRequest {
                method: http::Method::GET,
                url: format!("{url}?{query}"),
                headers: Vec::new(),
                body: Bytes::new(),
            };
            let answer = platform.harness.attempt(&keys.account, "verification", 1, request).await;
            let echoes = answer.is_ok_and(|answer| answer.status == 200 && answer.body == echo.as_bytes());
            if echoes {
                platform.world.lock().callbacks.insert(keys.account.clone(), url);
            }
            let kind = if echoes { "callback_verified" } else { "callback_refused" };
            platform.harness.record(PlatformRow::new(keys.account, kind, "verification"));
        });
        Ok(())
    }

    /// A sealed text, and the query that proves it.
    fn sealed(&self, keys: &CallbackKeys, text: &str) -> Option<(String, String)> {
        let number = self.harness.next_id();
        let (timestamp, nonce) = ((self.harness.now_ms() / 1000).to_string(), format!("n{number}"));
        let sealed = seal(&keys.aes_key, text, &keys.receiver, number)?;
        let signed = signature(&keys.token, &timestamp, &nonce, &sealed);
        let query = form::write_pairs(&[
            ("msg_signature".to_owned(), signed),
            ("timestamp".to_owned(), timestamp),
            ("nonce".to_owned(), nonce),
        ]);
        Some((query, sealed))
    }

    fn request(&self, keys: &CallbackKeys, text: &str) -> Option<OutgoingRequest> {
        let url = self.world.lock().callbacks.get(&keys.account).cloned()?;
        let (query, sealed) = self.sealed(keys, text)?;
        let (kind, body) = if keys.receiver.is_empty() {
            ("application/json", json!({"encrypt": sealed}).to_string())
        } else {
            let body = format!(
                "<xml><ToUserName><![CDATA[{}]]></ToUserName><Encrypt><![CDATA[{sealed}]]></Encrypt></xml>",
                keys.receiver
            );
            ("text/xml", body)
        };
        Some(OutgoingRequest {
            method: http::Method::POST,
            url: format!("{url}?{query}"),
            headers: vec![("content-type", kind.to_owned())],
            body: body.into(),
        })
    }

    /// Delivers a text until it is accepted. Returns the answer.
    async fn call_back(&self, keys: &CallbackKeys, event: &str, text: &str) -> Option<ReceiverAnswer> {
        self.request(keys, text)?;
        let build = |_, _: Option<&Result<_, String>>| {
            self.request(keys, text).unwrap_or_else(|| OutgoingRequest {
                method: http::Method::POST,
                url: String::new(),
                headers: Vec::new(),
                body: Bytes::new(),
            })
        };
        let answer = self.harness.deliver(&keys.account, event, build, |answer| answer.status == 200).await;
        let kind = if answer.is_some() { "acknowledged" } else { "unacknowledged" };
        self.harness.record(PlatformRow::new(keys.account.clone(), kind, "callback").message(event));
        answer
    }

    pub(super) fn deliver_to_app(self: &Arc<Self>, app: &WeComApp, event: &str, text: String) {
        let make = || {
            let (platform, keys) = (self.clone(), CallbackKeys::of_app(app));
            let (event, text) = (event.to_owned(), text.clone());
            async move {
                let Some(answer) = platform.call_back(&keys, &event, &text).await else { return };
                let body = String::from_utf8_lossy(&answer.body).into_owned();
                if body.is_empty() || body == "success" {
                    return;
                }
                let reply = element(&body, "Encrypt").and_then(|sealed| {
                    let parts = ["TimeStamp", "Nonce", "MsgSignature"].map(|name| element(&body, name));
                    let [Some(timestamp), Some(nonce), Some(signed)] = parts else { return None };
                    let is_proven = signature(&keys.token, timestamp, nonce, sealed) == signed;
                    open(&keys.aes_key, sealed, &keys.receiver).filter(|_| is_proven)
                });
                let row = match &reply {
                    Some(text) => PlatformRow::new(keys.account, "passive_reply", "callback")
                        .text(element(text, "Content").unwrap_or_default())
                        .chat(format!(
                            "{}:{}",
                            keys.receiver,
                            element(text, "ToUserName").unwrap_or_default()
                        )),
                    None => PlatformRow::new(keys.account, "passive_reply_refused", "callback"),
                };
                platform.harness.record(row.message(event));
            }
        };
        self.harness.dispatch(&app.account(), make);
    }

    pub(super) fn deliver_to_bot(self: &Arc<Self>, bot: &WeComBot, event: &str, chat: &str, body: Value) {
        let make = || {
            let (platform, bot, body) = (self.clone(), bot.clone(), body.clone());
            let (event, chat) = (event.to_owned(), chat.to_owned());
            async move {
                if !platform.send_event(&bot.id, &body) {
                    platform.call_back_bot(&bot, &event, &chat, &body).await;
                }
            }
        };
        self.harness.dispatch(&bot.id, make);
    }

    /// Delivers a message by callback, and asks for the answer until it is finished.
    async fn call_back_bot(&self, bot: &WeComBot, event: &str, chat: &str, body: &Value) {
        let keys = CallbackKeys::of_bot(bot);
        let Some(answer) = self.call_back(&keys, event, &body.to_string()).await else { return };
        let mut reply = self.passive_reply(&keys, &answer);
        for _ in 0..MOST_POLLS {
            let Some(stream) = reply.as_ref().map(|reply| reply["stream"].clone()) else { return };
            let content = stream["content"].as_str().unwrap_or_default();
            if stream["finish"] == true {
                let row = PlatformRow::new(bot.id.clone(), "sent", "stream").chat(chat).message(event);
                self.harness.record(row.text(content).raw(stream));
                return;
            }
            tokio::time::sleep(self.settings.poll_pause).await;
            let question = json!({
                "msgid": format!("poll{}", self.harness.next_id()), "aibotid": bot.id, "chattype": body["chattype"],
                "from": body["from"], "msgtype": "stream", "stream": {"id": stream["id"]},
            });
            let Some(request) = self.request(&keys, &question.to_string()) else { return };
            let Ok(answer) = self.harness.attempt(&bot.id, "stream", 1, request).await else { return };
            reply = self.passive_reply(&keys, &answer);
        }
    }

    /// The sealed JSON of an answer, if it is proven.
    fn passive_reply(&self, keys: &CallbackKeys, answer: &ReceiverAnswer) -> Option<Value> {
        let body: Value = serde_json::from_slice(&answer.body).ok()?;
        let text = |name: &str| body[name].as_str();
        let sealed = text("encrypt")?;
        let signed = signature(&keys.token, text("timestamp")?, text("nonce")?, sealed);
        if text("msgsignature")? != signed {
            self.harness.record(PlatformRow::new(keys.account.clone(), "passive_reply_refused", "callback"));
            return None;
        }
        serde_json::from_str(&open(&keys.aes_key, sealed, &keys.receiver)?).ok()
    }
}
