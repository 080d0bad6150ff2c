//! Injections into WeCom: messages, files, menu clicks and presses of people.

use std::sync::Arc;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    WeComPlatform,
    envelope::encrypt,
    settings::{WeComApp, WeComBot},
};
use crate::harness::PlatformRow;

fn ana() -> String {
    "ana".to_owned()
}

/// What a person does.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum WeComInjection {
    /// Writes a text.
    Message {
        /// Text.
        text: String,
        /// Who. Default `ana`.
        #[serde(default = "ana")]
        user: String,
        /// Group chat with an AI bot, which the text mentions. Default: the direct chat.
        #[serde(default)]
        chat: Option<String>,
        /// `<corp>-<agent>` or bot id. Default: the first application, or else the first AI bot.
        #[serde(default)]
        account: Option<String>,
    },
    /// Sends a picture.
    Image {
        /// Content in base64.
        base64: String,
        /// Who. Default `ana`.
        #[serde(default = "ana")]
        user: String,
        /// As for `message`.
        #[serde(default)]
        account: Option<String>,
    },
    /// Presses a button of a card, or chooses in the menu of an application.
    Press {
        /// Key of the button.
        key: String,
        /// The `task_id` of the card. Default: that of no card.
        #[serde(default)]
        card: Option<String>,
        /// Who. Default `ana`.
        #[serde(default = "ana")]
        user: String,
        /// Whether it is the menu.
        #[serde(default)]
        menu: bool,
        /// As for `message`.
        #[serde(default)]
        account: Option<String>,
    },
    /// Delivers this text: XML to an application, JSON to an AI bot.
    Raw {
        /// Decrypted text.
        text: String,
        /// As for `message`.
        #[serde(default)]
        account: Option<String>,
    },
}

/// An application or an AI bot.
pub(super) enum Account {
    App(WeComApp),
    Bot(WeComBot),
}

impl WeComPlatform {
    pub(super) fn account(&self, name: Option<&str>) -> Option<Account> {
        let is = |id: &str| name.is_none_or(|name| name == id);
        let app = self.settings.apps.iter().find(|app| is(&app.account())).cloned().map(Account::App);
        app.or_else(|| self.settings.bots.iter().find(|bot| is(&bot.id)).cloned().map(Account::Bot))
    }

    pub(super) fn act(self: &Arc<Self>, injection: WeComInjection) -> Result<Value, String> {
        let (WeComInjection::Message { account, .. }
        | WeComInjection::Image { account, .. }
        | WeComInjection::Press { account, .. }
        | WeComInjection::Raw { account, .. }) = &injection;
        match self.account(account.as_deref()).ok_or("no such application or AI bot")? {
            Account::App(app) => self.act_on_app(&app, injection),
            Account::Bot(bot) => self.act_on_bot(&bot, injection),
        }
    }

    fn act_on_app(self: &Arc<Self>, app: &WeComApp, injection: WeComInjection) -> Result<Value, String> {
        let number = self.harness.next_id();
        let second = self.harness.now_ms() / 1000;
        let message = format!("{}", 7_000_000_000_000_000_000 + number);
        let (user, kind, fields, said) = match injection {
            WeComInjection::Message { text, user, .. } => {
                let content = text.replace("]]>", "]]]]><![CDATA[>");
                let fields = format!("<Content><![CDATA[{content}]]></Content><MsgId>{message}</MsgId>");
                (user, "text", fields, text)
            }
            WeComInjection::Image { base64, user, .. } => {
                let content = BASE64_STANDARD.decode(base64).map_err(|error| error.to_string())?;
                let media = self.add_file(&app.account(), "image/jpeg", content.into());
                let fields = format!(
                    "<PicUrl><![CDATA[{}/pic/{media}?key=secret]]></PicUrl><MediaId><![CDATA[{media}]]></MediaId>\
                     <MsgId>{message}</MsgId>",
                    self.harness.base_url()
                );
                (user, "image", fields, String::new())
            }
            WeComInjection::Press { key, card, user, menu, .. } => {
                let fields = if menu {
                    format!("<Event><![CDATA[click]]></Event><EventKey><![CDATA[{key}]]></EventKey>")
                } else {
                    let code = format!("response-code-{number}");
                    self.world.lock().codes.insert(code.clone(), app.account());
                    let card = card.unwrap_or_else(|| format!("task{number}"));
                    format!(
                        "<Event><![CDATA[template_card_event]]></Event><EventKey><![CDATA[{key}]]></EventKey>\
                         <TaskId><![CDATA[{card}]]></TaskId><CardType><![CDATA[button_interaction]]></CardType>\
                         <ResponseCode><![CDATA[{code}]]></ResponseCode>"
                    )
                };
                (user, "event", fields, key)
            }
            WeComInjection::Raw { text, .. } => {
                self.deliver_to_app(app, &message, text);
                return Ok(json!({"message_id": message}));
            }
        };
        let text = format!(
            "<xml><ToUserName><![CDATA[{}]]></ToUserName><FromUserName><![CDATA[{user}]]></FromUserName>\
             <CreateTime>{second}</CreateTime><MsgType><![CDATA[{kind}]]></MsgType>{fields}<AgentID>{}</AgentID></xml>",
            app.corp, app.agent
        );
        let chat = format!("{}:{user}", app.corp);
        let row = PlatformRow::new(app.account(), "received", kind).chat(&*chat).message(&*message);
        self.harness.record(row.text(said));
        self.deliver_to_app(app, &message, text);
        Ok(json!({"message_id": message, "chat": chat}))
    }

    fn act_on_bot(self: &Arc<Self>, bot: &WeComBot, injection: WeComInjection) -> Result<Value, String> {
        let number = self.harness.next_id();
        let message = format!("msg{number}");
        let mut event = json!({"msgid": message, "aibotid": bot.id, "chattype": "single"});
        let (user, chat, said) = match injection {
            WeComInjection::Message { text, user, chat, .. } => {
                event["msgtype"] = json!("text");
                let content = if chat.is_some() { format!("@Posty {text}") } else { text.clone() };
                event["text"] = json!({"content": content});
                (user, chat, text)
            }
            WeComInjection::Image { base64, user, .. } => {
                let content = BASE64_STANDARD.decode(base64).map_err(|error| error.to_string())?;
                let hidden = encrypt(&bot.aes_key, &content).ok_or("the key of the bot is not valid")?;
                let media = self.add_file(&bot.id, "application/octet-stream", hidden.into());
                event["msgtype"] = json!("image");
                let url = format!("{}/files/{media}?sign=secret", self.harness.base_url());
                event["image"] = json!({"url": url, "aeskey": bot.aes_key});
                (user, None, String::new())
            }
            WeComInjection::Press { key, card, user, .. } => {
                event["msgtype"] = json!("event");
                event["event"] = json!({
                    "eventtype": "template_card_event",
                    "template_card_event": {
                        "card_type": "button_interaction",
                        "event_key": key,
                        "task_id": card.unwrap_or_else(|| format!("task{number}")),
                    },
                });
                (user, None, key)
            }
            WeComInjection::Raw { text, .. } => {
                let event: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
                self.deliver_to_bot(bot, &message, "", event);
                return Ok(json!({"message_id": message}));
            }
        };
        event["from"] = json!({"userid": user});
        if let Some(chat) = &chat {
            event["chattype"] = json!("group");
            event["chatid"] = json!(chat);
        }
        let chat = chat.unwrap_or(user);
        let code = format!("code{number}");
        self.world
            .lock()
            .response_urls
            .insert(code.clone(), (bot.id.clone(), chat.clone(), self.harness.now_ms()));
        let url = format!("{}/cgi-bin/aibot/response?response_code={code}", self.harness.base_url());
        event["response_url"] = json!(url);
        let kind = event["msgtype"].as_str().unwrap_or_default().to_owned();
        let row = PlatformRow::new(bot.id.clone(), "received", kind).chat(&*chat).message(&*message);
        self.harness.record(row.text(said));
        self.deliver_to_bot(bot, &message, &chat, event);
        Ok(json!({"message_id": message, "chat": chat}))
    }
}
