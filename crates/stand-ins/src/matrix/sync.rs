//! Sync of the played homeserver: events since a position, held until there are some.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{
    MatrixPlatform,
    api::{ClientResult, HomeserverError, query},
};
use crate::harness::{ApiCall, json_response};

/// Longest time for which a poll is held.
const LONGEST_HOLD: Duration = Duration::from_secs(30);

impl MatrixPlatform {
    pub(super) async fn sync(self: &Arc<Self>, call: &ApiCall) -> ClientResult {
        let user = self.caller(call)?.user.clone();
        let since = match query(call, "since") {
            None => 0,
            Some(since) => {
                let position = since.strip_prefix('s').and_then(|position| position.parse::<usize>().ok());
                position.ok_or_else(|| HomeserverError::new(400, "M_UNKNOWN", "Invalid stream token"))?
            }
        };
        let filter: Value =
            query(call, "filter").and_then(|filter| serde_json::from_str(&filter).ok()).unwrap_or_default();
        let most = filter["room"]["timeline"]["limit"].as_u64().unwrap_or(10);
        let most = usize::try_from(most).unwrap_or(10);
        let hold = query(call, "timeout")
            .and_then(|hold| hold.parse().ok())
            .map_or(Duration::ZERO, Duration::from_millis);
        let mut end = std::pin::pin!(tokio::time::sleep(hold.min(LONGEST_HOLD)));
        let mut is_over = hold.is_zero();
        loop {
            let mut news = std::pin::pin!(self.harness.changed.notified());
            news.as_mut().enable();
            let (answer, is_empty) = self.since(&user, since, most);
            if !is_empty || is_over {
                return Ok(json_response(200, &answer));
            }
            tokio::select! {
                () = &mut news => {}
                () = &mut end => is_over = true,
                () = self.harness.stop.cancelled() => is_over = true,
            }
            // The token may have been revoked while the poll was held.
            self.caller(call)?;
        }
    }

    /// The rooms with events since a position, and whether there are none.
    fn since(&self, user: &str, since: usize, most: usize) -> (Value, bool) {
        let world = self.world.lock();
        let mut joined: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        let mut invited: BTreeMap<&str, Value> = BTreeMap::new();
        for (room, event) in world.log.iter().skip(since.saturating_sub(world.log_start)) {
            let membership = world.rooms.get(room).and_then(|known| known.members.get(user));
            match membership.map(|(membership, _)| membership.as_str()) {
                Some("join") => {
                    let mut event = event.clone();
                    event.as_object_mut().map(|event| event.remove("room_id"));
                    joined.entry(room).or_default().push(event);
                }
                Some("invite") if event["type"] == "m.room.member" && event["state_key"] == user => {
                    let stripped = json!({ "type": "m.room.member", "sender": event["sender"],
                        "state_key": user, "content": event["content"] });
                    invited.insert(room, json!({ "invite_state": { "events": [stripped] } }));
                }
                _ => {}
            }
        }
        let is_empty = joined.is_empty() && invited.is_empty();
        let joined: BTreeMap<&str, Value> = joined
            .into_iter()
            .map(|(room, events)| {
                let skipped = events.len().saturating_sub(most);
                let first = events.get(skipped).map(|event| event["event_id"].clone());
                let at = world.log.iter().position(|(_, event)| Some(&event["event_id"]) == first.as_ref());
                let timeline = json!({ "events": &events[skipped..], "limited": skipped > 0,
                    "prev_batch": format!("s{}", world.log_start + at.unwrap_or(world.log.len())) });
                (room, json!({ "timeline": timeline }))
            })
            .collect();
        let answer = json!({ "next_batch": format!("s{}", world.log_start + world.log.len()),
            "rooms": { "join": joined, "invite": invited, "leave": {} } });
        (answer, is_empty)
    }

    /// The events of a room before a position and after another, newest first.
    pub(super) fn messages(&self, call: &ApiCall, room: &str) -> ClientResult {
        let position = |name: &str| {
            query(call, name)
                .and_then(|token| token.strip_prefix('s').and_then(|at| at.parse::<usize>().ok()))
        };
        let (from, to) = (position("from").unwrap_or(usize::MAX), position("to").unwrap_or(0));
        let most = query(call, "limit").and_then(|most| most.parse().ok()).unwrap_or(10_usize);
        let world = self.world.lock();
        let start = world.log_start;
        let events = world.log.iter().enumerate().map(|(at, (of, event))| (start + at, of, event));
        let events = events.filter(|(at, of, _)| (to..from).contains(at) && *of == room);
        let mut found: Vec<(usize, &Value)> = events.map(|(at, _, event)| (at, event)).collect();
        found.reverse();
        found.truncate(most);
        let mut answer = json!({ "start": format!("s{from}"),
            "chunk": found.iter().map(|(_, event)| event).collect::<Vec<_>>() });
        if let Some((last, _)) = found.last() {
            answer["end"] = json!(format!("s{last}"));
        }
        Ok(json_response(200, &answer))
    }
}
