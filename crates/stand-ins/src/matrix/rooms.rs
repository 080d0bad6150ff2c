//! Rooms of the played homeserver: members, state and events, and the transactions that tell them to services.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde_json::{Value, json};

use super::{MatrixPlatform, settings::MatrixAccount};
use crate::harness::{OutgoingRequest, PlatformRow};

/// Most rooms, and most events of all rooms. The oldest events make room for new ones.
const MOST_ROOMS: usize = 1_000;
const MOST_EVENTS: usize = 20_000;

/// A room.
#[derive(Default)]
pub(super) struct HomeRoom {
    /// Membership and display name, by user.
    pub members: BTreeMap<String, (String, String)>,
    /// Contents of state events with an empty key, by type.
    pub state: BTreeMap<String, Value>,
}

impl HomeRoom {
    pub fn is_joined(&self, user: &str) -> bool {
        self.members.get(user).is_some_and(|(membership, _)| membership == "join")
    }

    /// Whether a user hears of events: members and invited people do.
    fn hears(&self, user: &str) -> bool {
        self.members.get(user).is_some_and(|(membership, _)| membership == "join" || membership == "invite")
    }
}

impl MatrixPlatform {
    /// Makes a room. Its id names no server if `room` does not.
    pub(super) fn make_room(&self, room: &str) -> Result<(), String> {
        if !room.starts_with('!') {
            return Err("a room id begins with !".to_owned());
        }
        let mut world = self.world.lock();
        if world.rooms.len() >= MOST_ROOMS {
            return Err("there are too many rooms".to_owned());
        }
        world.rooms.entry(room.to_owned()).or_default();
        Ok(())
    }

    /// Adds an event to a room, and tells it to everybody there. Returns its id.
    pub(super) fn add_event(
        self: &Arc<Self>,
        room: &str,
        sender: &str,
        kind: &str,
        state_key: Option<&str>,
        content: Value,
    ) -> String {
        let id = format!("$event-{}", self.harness.next_id());
        let mut event = json!({
            "type": kind, "event_id": id, "room_id": room, "sender": sender, "content": content,
            "origin_server_ts": self.harness.now_ms(), "unsigned": { "age": 1 },
        });
        if let Some(state_key) = state_key {
            event["state_key"] = json!(state_key);
        }
        let hearers: Vec<MatrixAccount> = {
            let mut world = self.world.lock();
            let known = world.rooms.entry(room.to_owned()).or_default();
            // Somebody who leaves hears of it.
            let before: Vec<bool> =
                self.settings.accounts.iter().map(|account| known.hears(&account.user)).collect();
            match (kind, state_key) {
                ("m.room.member", Some(user)) => {
                    if let Some((before, _)) = known.members.get(user) {
                        event["unsigned"]["prev_content"] = json!({ "membership": before });
                    }
                    let text = |name: &str| event["content"][name].as_str().map(str::to_owned);
                    let shown = text("displayname").unwrap_or_else(|| user.to_owned());
                    known.members.insert(user.to_owned(), (text("membership").unwrap_or_default(), shown));
                }
                (kind, Some("")) => drop(known.state.insert(kind.to_owned(), event["content"].clone())),
                _ => {}
            }
            let accounts = self.settings.accounts.iter().zip(before);
            let hearers = accounts.filter(|(account, before)| *before || known.hears(&account.user));
            let hearers = hearers.map(|(account, _)| account.clone()).collect();
            world.log.push_back((room.to_owned(), event.clone()));
            if world.log.len() > MOST_EVENTS {
                world.log.pop_front();
                world.log_start += 1;
            }
            hearers
        };
        for account in hearers.iter().filter(|account| account.hs_token.is_some()) {
            self.tell(account, std::slice::from_ref(&event), &id);
        }
        self.harness.changed.notify_waiters();
        id
    }

    /// Sends a transaction to an application service, again and again until it is taken.
    pub(super) fn tell(self: &Arc<Self>, account: &MatrixAccount, events: &[Value], transaction: &str) {
        let body = Bytes::from(json!({ "events": events }).to_string());
        let make = || {
            let (platform, account, body) = (self.clone(), account.clone(), body.clone());
            let transaction = transaction.to_owned();
            async move {
                let Some(url) = platform.world.lock().urls.get(&account.user).cloned() else { return };
                let path = transaction.replace('$', "%24");
                let token = account.hs_token.clone().unwrap_or_default();
                let build = |_, _: Option<&Result<_, String>>| OutgoingRequest {
                    method: http::Method::PUT,
                    url: format!("{url}/_matrix/app/v1/transactions/{path}"),
                    headers: vec![
                        ("content-type", "application/json".to_owned()),
                        ("authorization", format!("Bearer {token}")),
                    ],
                    body: body.clone(),
                };
                let user = &account.user;
                let answer =
                    platform.harness.deliver(user, &transaction, build, |answer| answer.status == 200).await;
                let kind = if answer.is_some() { "acknowledged" } else { "unacknowledged" };
                platform.harness.record(PlatformRow::new(user, kind, "transactions").message(transaction));
            }
        };
        self.harness.dispatch(&account.user, make);
    }
}
