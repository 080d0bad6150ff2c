//! Client-server API of the played homeserver, and its errors.

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use http::Response;
use serde_json::{Value, json};

use super::{MatrixPlatform, settings::MatrixAccount};
use crate::harness::{ApiCall, PlatformRow, form, json_response, respond};

/// Largest event, in bytes.
const LARGEST_EVENT: usize = 65_536;

/// An error as a homeserver sends it.
pub(super) struct HomeserverError {
    status: u16,
    body: Value,
}

pub(super) type ClientResult = Result<Response<Body>, HomeserverError>;

impl HomeserverError {
    pub fn new(status: u16, code: &str, message: &str) -> HomeserverError {
        HomeserverError { status, body: json!({ "errcode": code, "error": message }) }
    }

    pub fn too_many(wait: Duration) -> HomeserverError {
        let mut error = HomeserverError::new(429, "M_LIMIT_EXCEEDED", "Too Many Requests");
        error.body["retry_after_ms"] = json!(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        error
    }

    fn forbidden(message: &str) -> HomeserverError {
        HomeserverError::new(403, "M_FORBIDDEN", message)
    }

    fn not_found() -> HomeserverError {
        HomeserverError::new(404, "M_NOT_FOUND", "Not found")
    }
}

impl From<HomeserverError> for Response<Body> {
    fn from(error: HomeserverError) -> Response<Body> {
        json_response(error.status, &error.body)
    }
}

fn ok(body: &Value) -> ClientResult {
    Ok(json_response(200, body))
}

impl MatrixPlatform {
    /// The account whose token a call has.
    pub(super) fn caller(&self, call: &ApiCall) -> Result<&MatrixAccount, HomeserverError> {
        let token = call.credential("Bearer");
        let token =
            token.ok_or_else(|| HomeserverError::new(401, "M_MISSING_TOKEN", "Missing access token"))?;
        let account = self.settings.accounts.iter().find(|account| account.token == token);
        let account = account.filter(|account| !self.world.lock().revoked.contains(&account.user));
        let unknown = || HomeserverError::new(401, "M_UNKNOWN_TOKEN", "Unrecognised access token");
        let account = account.ok_or_else(unknown)?;
        match query(call, "user_id").filter(|user| *user != account.user) {
            None => Ok(account),
            Some(_) => Err(HomeserverError::forbidden("Application service cannot masquerade as this user")),
        }
    }

    pub(super) fn client_api(self: &Arc<Self>, call: &ApiCall) -> ClientResult {
        let account = self.caller(call)?;
        let user = account.user.as_str();
        let segments: Vec<&str> = call.path.split('/').skip(2).collect();
        let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
        let room = call.subject.chat.as_deref().unwrap_or_default();
        if !matches!(call.subject.call.as_str(), "POST join" | "POST leave") && !room.is_empty() {
            let world = self.world.lock();
            if !world.rooms.get(room).is_some_and(|known| known.is_joined(user)) {
                return Err(HomeserverError::forbidden(&format!("User {user} not in room {room}")));
            }
        }
        match call.subject.call.as_str() {
            "GET whoami" => ok(&json!({ "user_id": user, "is_guest": false })),
            "POST register" => {
                let named =
                    format!("@{}:{}", body["username"].as_str().unwrap_or_default(), account.server());
                match named == user {
                    true => Err(HomeserverError::new(400, "M_USER_IN_USE", "User ID already taken.")),
                    false => Err(HomeserverError::new(400, "M_EXCLUSIVE", "Invalid user localpart")),
                }
            }
            "GET profile" => {
                let name = user.trim_start_matches('@').split(':').next().unwrap_or_default();
                ok(&json!({ "displayname": name }))
            }
            "POST join" => self.join(room, user),
            "POST leave" => {
                let content = json!({ "membership": "leave", "reason": body["reason"] });
                self.add_event(room, user, "m.room.member", Some(user), content);
                let reason = body["reason"].as_str().unwrap_or_default();
                self.harness.record(PlatformRow::new(user, "left", "POST leave").chat(room).text(reason));
                ok(&json!({}))
            }
            "PUT send" => self.send(call, user, room, (segments[5], segments[6]), body),
            "PUT redact" => {
                let content = json!({ "redacts": segments[5] });
                let row = PlatformRow::new(user, "deleted", "PUT redact").chat(room).message(segments[5]);
                self.harness.record(row);
                let id = self.add_event(room, user, "m.room.redaction", None, content);
                self.redact(segments[5]);
                ok(&json!({ "event_id": id }))
            }
            "PUT typing" => {
                let state = if body["typing"] == true { "typing" } else { "typing_ended" };
                self.harness.record(PlatformRow::new(user, state, "PUT typing").chat(room));
                ok(&json!({}))
            }
            "GET state" => {
                let world = self.world.lock();
                let state = world.rooms.get(room).and_then(|known| known.state.get(segments[5]));
                ok(state.ok_or_else(HomeserverError::not_found)?)
            }
            "GET joined_members" => {
                let world = self.world.lock();
                let members = world.rooms.get(room).map(|known| known.members.iter());
                let joined =
                    members.into_iter().flatten().filter(|(_, (membership, _))| membership == "join");
                let joined: serde_json::Map<String, Value> =
                    joined.map(|(user, (_, name))| (user.clone(), json!({ "display_name": name }))).collect();
                ok(&json!({ "joined": joined }))
            }
            "GET relations" => {
                let world = self.world.lock();
                let events = world.log.iter().map(|(_, event)| event).filter(|event| {
                    event["type"] == "m.reaction"
                        && event["content"]["m.relates_to"]["event_id"] == segments[5]
                });
                ok(&json!({ "chunk": events.collect::<Vec<_>>() }))
            }
            "GET messages" => self.messages(call, room),
            "POST upload" => {
                let kind = call.header("content-type").unwrap_or("application/octet-stream").to_owned();
                let id = format!("media{}", self.harness.next_id());
                self.world.lock().media.insert(id.clone(), (kind, call.body.clone()));
                ok(&json!({ "content_uri": format!("mxc://{}/{id}", account.server()) }))
            }
            "GET media" => {
                let world = self.world.lock();
                let (kind, content) = world.media.get(segments[5]).ok_or_else(HomeserverError::not_found)?;
                let mut response = respond(200, "", content.clone());
                if let Ok(kind) = kind.parse() {
                    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
                }
                Ok(response)
            }
            _ => Err(HomeserverError::not_found()),
        }
    }

    fn join(self: &Arc<Self>, room: &str, user: &str) -> ClientResult {
        let membership = {
            let world = self.world.lock();
            world
                .rooms
                .get(room)
                .and_then(|known| known.members.get(user))
                .map(|(membership, _)| membership.clone())
        };
        match membership.as_deref() {
            Some("join") => {}
            Some("invite") => {
                self.add_event(room, user, "m.room.member", Some(user), json!({ "membership": "join" }));
                self.harness.record(PlatformRow::new(user, "joined", "POST join").chat(room));
            }
            _ => return Err(HomeserverError::forbidden("You are not invited to this room.")),
        }
        ok(&json!({ "room_id": room }))
    }

    fn send(
        self: &Arc<Self>,
        call: &ApiCall,
        user: &str,
        room: &str,
        (kind, transaction): (&str, &str),
        content: Value,
    ) -> ClientResult {
        if !content.is_object() {
            return Err(HomeserverError::new(400, "M_NOT_JSON", "Content not JSON."));
        }
        let key = format!("{user} {transaction}");
        if let Some(known) = self.world.lock().transactions.get(&key) {
            return ok(&json!({ "event_id": known }));
        }
        if call.body.len() > LARGEST_EVENT {
            return Err(HomeserverError::new(413, "M_TOO_LARGE", "event too large"));
        }
        self.limit(user)?;
        let id = self.add_event(room, user, kind, None, content.clone());
        self.world.lock().transactions.insert(key, id.clone());
        let relation = &content["m.relates_to"];
        let edits = relation["rel_type"] == "m.replace";
        let shown = if edits { &content["m.new_content"] } else { &content };
        let text = shown["body"].as_str().or_else(|| relation["key"].as_str()).unwrap_or_default().to_owned();
        let row = match (kind, edits) {
            ("m.reaction", _) => "reacted",
            (_, true) => "edited",
            _ => "sent",
        };
        let shown_as = relation["event_id"].as_str().filter(|_| row != "sent").unwrap_or(&id);
        let mut row = PlatformRow::new(user, row, "PUT send").chat(room).message(shown_as).text(text);
        row.thread_id =
            relation["event_id"].as_str().filter(|_| relation["rel_type"] == "m.thread").map(str::to_owned);
        row.reply_to = relation["m.in_reply_to"]["event_id"].as_str().map(str::to_owned);
        self.harness.record(row.raw(content));
        ok(&json!({ "event_id": id }))
    }

    fn limit(&self, user: &str) -> Result<(), HomeserverError> {
        let Some(limits) = self.settings.limits else { return Ok(()) };
        let now_ms = self.harness.now_ms();
        let mut world = self.world.lock();
        let window = world.windows.entry(user.to_owned()).or_default();
        let admitted = window.admit(limits.messages_per_10_seconds, 10_000, now_ms);
        admitted.map(drop).map_err(|_| HomeserverError::too_many(Duration::from_secs(2)))
    }

    fn redact(&self, event: &str) {
        let mut world = self.world.lock();
        let found = world.log.iter_mut().find(|(_, known)| known["event_id"] == event);
        if let Some((_, known)) = found {
            known["content"] = json!({});
        }
    }
}

/// A field of the query.
pub(super) fn query(call: &ApiCall, name: &str) -> Option<String> {
    let fields = form::read_pairs(call.head.uri.query().unwrap_or_default().as_bytes());
    fields.into_iter().find(|(field, _)| field == name).map(|(_, value)| value)
}
