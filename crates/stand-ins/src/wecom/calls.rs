//! Calls of WeCom's API: access tokens, messages, cards, files, response URLs.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Response, header};
use serde_json::{Value, json};

use super::{WeComPlatform, settings::WeComApp};
use crate::harness::{ApiCall, PlatformRow, RefusedCall, form, json_response, respond};

/// Lifetime of an access token.
const TOKEN_SECONDS: i64 = 7200;
/// Lifetime of a response URL.
const RESPONSE_URL_MS: i64 = 3600 * 1000;
/// WeCom cuts longer texts.
const MOST_TEXT: usize = 2048;

/// A file of a person or of an application.
pub(super) struct WeComFile {
    pub account: String,
    pub kind: String,
    pub content: Bytes,
}

/// An error as WeCom sends it: with status 200.
pub(super) fn error(code: i64, message: &str) -> Response<Body> {
    let message = format!("{message}, hint: [1765000000_stand_in], from ip: 127.0.0.1");
    let mut response = json_response(200, &json!({"errcode": code, "errmsg": message}));
    response.extensions_mut().insert(RefusedCall);
    response
}

fn done(mut body: Value) -> Response<Body> {
    body["errcode"] = json!(0);
    body["errmsg"] = json!("ok");
    json_response(200, &body)
}

impl WeComPlatform {
    pub(super) fn add_file(&self, account: &str, kind: &str, content: Bytes) -> String {
        let id = format!("MEDIA{}", self.harness.next_id());
        let file = WeComFile { account: account.to_owned(), kind: kind.to_owned(), content };
        self.world.lock().files.insert(id.clone(), file);
        id
    }

    pub(super) fn grant_token(&self, call: &ApiCall) -> Response<Body> {
        let (corp, secret) = (query(call, "corpid"), query(call, "corpsecret"));
        let app = self.settings.apps.iter().find(|app| app.corp == corp && app.secret == secret);
        let Some(app) = app.filter(|app| !self.world.lock().revoked.contains(&app.account())) else {
            return error(40_001, "invalid credential");
        };
        let token = format!("access-token-{}", self.harness.next_id());
        let until_ms = self.harness.now_ms() + TOKEN_SECONDS * 1000;
        self.world.lock().tokens.insert(token.clone(), (app.account(), until_ms));
        self.harness.record(PlatformRow::new(app.account(), "token_granted", "gettoken"));
        done(json!({"access_token": token, "expires_in": TOKEN_SECONDS}))
    }

    /// The application that makes a call.
    fn caller(&self, call: &ApiCall) -> Result<&WeComApp, (i64, &'static str)> {
        let token = query(call, "access_token");
        let known = self.world.lock().tokens.get(&token).cloned();
        let (account, until_ms) = known.ok_or((40_014, "invalid access_token"))?;
        if self.harness.now_ms() >= until_ms {
            return Err((42_001, "access_token expired"));
        }
        let app = self.settings.apps.iter().find(|app| app.account() == account);
        app.ok_or((40_014, "invalid access_token"))
    }

    pub(super) fn api(&self, call: &ApiCall) -> Response<Body> {
        let app = match self.caller(call) {
            Ok(app) => app,
            Err((code, message)) => return error(code, message),
        };
        let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
        match call.subject.call.as_str() {
            "message/send" => self.take_message(app, &body),
            "message/update_template_card" => self.update_card(app, &body),
            "media/upload" => self.upload(app, call),
            "media/get" => self.download(app, &query(call, "media_id")),
            _ if query(call, "agentid") == app.agent.to_string() => {
                done(json!({"agentid": app.agent, "name": "Stand-in"}))
            }
            _ => error(301_002, "no permission to this agent"),
        }
    }

    fn take_message(&self, app: &WeComApp, body: &Value) -> Response<Body> {
        if body["agentid"] != app.agent {
            return error(40_056, "invalid agentid");
        }
        let (user, kind) = (body["touser"].as_str(), body["msgtype"].as_str());
        let (Some(user), Some(kind)) = (user.filter(|user| !user.is_empty()), kind) else {
            return error(40_008, "invalid message type");
        };
        if user.starts_with("nobody") {
            return error(81_013, "user & party & tag all invalid");
        }
        let said = match kind {
            "text" => body["text"]["content"].as_str(),
            "markdown" => body["markdown"]["content"].as_str(),
            "template_card" => body["template_card"]["main_title"]["title"].as_str(),
            "image" | "voice" | "video" | "file" => {
                let media = body[kind]["media_id"].as_str().unwrap_or_default();
                let world = self.world.lock();
                world.files.get(media).filter(|file| file.account == app.account()).map(|_| "")
            }
            _ => None,
        };
        let Some(said) = said else { return error(40_007, "invalid media_id or content") };
        let seconds = body["duplicate_check_interval"].as_i64().unwrap_or(1800);
        let same = format!("{user} {kind} {}", body[kind]);
        let now_ms = self.harness.now_ms();
        let mut world = self.world.lock();
        if let Some((at_ms, message)) = world.same_messages.get(&same)
            && body["enable_duplicate_check"] == 1
            && now_ms - at_ms < seconds * 1000
        {
            return done(json!({"msgid": message}));
        }
        let message = format!("sent{}", self.harness.next_id());
        world.same_messages.insert(same, (now_ms, message.clone()));
        let mut answer = json!({"msgid": message, "invaliduser": ""});
        if kind == "template_card" {
            let code = format!("response-code-{}", self.harness.next_id());
            world.codes.insert(code.clone(), app.account());
            answer["response_code"] = json!(code);
        }
        drop(world);
        let cut = &said[..said.floor_char_boundary(MOST_TEXT)];
        let row = PlatformRow::new(app.account(), "sent", "message/send")
            .chat(format!("{}:{user}", app.corp))
            .message(&*message);
        self.harness.record(row.text(cut).raw(body.clone()));
        done(answer)
    }

    /// Replaces the buttons of a card, once per code.
    fn update_card(&self, app: &WeComApp, body: &Value) -> Response<Body> {
        let code = body["response_code"].as_str().unwrap_or_default();
        let is_own = self.world.lock().codes.get(code).is_some_and(|owner| *owner == app.account());
        if !is_own {
            return error(42_014, "invalid response_code");
        }
        self.world.lock().codes.remove(code);
        let label = body["button"]["replace_name"].as_str().unwrap_or_default();
        let row = PlatformRow::new(app.account(), "edited", "message/update_template_card");
        self.harness.record(row.text(label));
        done(json!({"invaliduser": []}))
    }

    fn upload(&self, app: &WeComApp, call: &ApiCall) -> Response<Body> {
        let parts = form::parts(&call.head.headers, &call.body).unwrap_or_default();
        let Some(file) = parts.iter().find(|part| part.name == "media" && part.file_name.is_some()) else {
            return error(41_005, "media data missing");
        };
        let kind = file.content_type.clone().unwrap_or_else(|| "application/octet-stream".to_owned());
        let media = self.add_file(&app.account(), &kind, file.content.clone());
        done(json!({"type": query(call, "type"), "media_id": media, "created_at": "1765000000"}))
    }

    fn download(&self, app: &WeComApp, id: &str) -> Response<Body> {
        let world = self.world.lock();
        match world.files.get(id).filter(|file| file.account == app.account()) {
            Some(file) => answer_file(file),
            None => error(40_007, "invalid media_id"),
        }
    }

    /// The encrypted file of a message to an AI bot. Its URL is the credential.
    pub(super) fn hidden_file(&self, call: &ApiCall) -> Response<Body> {
        let world = self.world.lock();
        let id = call.path.rsplit('/').next().unwrap_or_default();
        match world.files.get(id).filter(|_| query(call, "sign") == "secret") {
            Some(file) => answer_file(file),
            None => respond(403, "application/xml", "<Error><Code>AccessDenied</Code></Error>"),
        }
    }

    /// Takes the one answer that a response URL accepts.
    pub(super) fn take_response(self: &Arc<Self>, call: &ApiCall) -> Response<Body> {
        let known = self.world.lock().response_urls.remove(&query(call, "response_code"));
        let now_ms = self.harness.now_ms();
        let known = known.filter(|(_, _, at_ms)| now_ms - at_ms < RESPONSE_URL_MS);
        let Some((bot, chat, _)) = known else { return error(60_140, "invalid response_code") };
        let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
        let Some(text) = body["markdown"]["content"].as_str() else {
            return error(40_008, "invalid message type");
        };
        let row = PlatformRow::new(bot, "sent", "response_url").chat(chat).text(text);
        self.harness.record(row.raw(body.clone()));
        done(json!({}))
    }
}

fn answer_file(file: &WeComFile) -> Response<Body> {
    let mut response = respond(200, "", file.content.clone());
    if let Ok(kind) = file.kind.parse() {
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    let name = HeaderValue::from_static("attachment; filename=\"file\"");
    response.headers_mut().insert(header::CONTENT_DISPOSITION, name);
    response
}

fn query(call: &ApiCall, name: &str) -> String {
    let pairs = form::read_pairs(call.head.uri.query().unwrap_or_default().as_bytes());
    pairs.into_iter().find(|(known, _)| known == name).map(|(_, value)| value).unwrap_or_default()
}
