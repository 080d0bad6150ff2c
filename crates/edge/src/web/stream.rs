//! A room as it happens: server-sent events, first what was said, then what is being said.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use ledger::Line;
use posthouse_time::Moment;
use posthouse_wire::ChatId;
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::Web;
use super::hub::News;

/// How far back a page looks.
pub(super) const HISTORY: u16 = 500;

/// A comment this often tells proxies and pages that the line is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A page that comes back is told again what changed shortly before it left, in case a clock was set
/// back meanwhile. Lines are known by their ids, so it does no harm.
const MARGIN: Duration = Duration::from_secs(60);

/// Everything in the room that changed since `after`, then everything that changes, until the house
/// closes or the page leaves.
pub(super) async fn watch(
    web: Arc<Web>,
    room: ChatId,
    after: Option<Moment>,
    closing: CancellationToken,
) -> Result<Response, ledger::Fault> {
    let (past, live) = {
        // With the pen in hand nothing is written between the look back and the look ahead.
        let _pen = web.hub.pen(&room).await;
        let live = web.hub.watch(&room);
        (changed_since(&web, &room, after).await?, live)
    };
    let watcher = Watcher { web, room, live: Some(live), past, last: after, closing };
    let events = stream::unfold(watcher, |mut watcher| async {
        let event = watcher.next().await?;
        Some((Ok::<_, Infallible>(event), watcher))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

async fn changed_since(
    web: &Web,
    room: &ChatId,
    after: Option<Moment>,
) -> Result<VecDeque<Line>, ledger::Fault> {
    let lines = web.rooms.history(room, HISTORY).await?;
    let after = after.map(|after| after - MARGIN);
    Ok(lines.into_iter().filter(|line| after.is_none_or(|after| changed(line) >= after)).collect())
}

fn changed(line: &Line) -> Moment {
    line.edited.map_or(line.said, |edited| edited.max(line.said))
}

/// One page looking into one room.
struct Watcher {
    web: Arc<Web>,
    room: ChatId,
    /// Always there until dropped.
    live: Option<Receiver<News>>,
    past: VecDeque<Line>,
    last: Option<Moment>,
    closing: CancellationToken,
}

impl Watcher {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(line) = self.past.pop_front() {
                return Some(self.stamped("line", &shown(&line), Some(changed(&line))));
            }
            let live = self.live.as_mut()?;
            let heard = tokio::select! {
                () = self.closing.cancelled() => return None,
                heard = live.recv() => heard,
            };
            match heard {
                Ok(News::Line(line)) => {
                    return Some(self.stamped("line", &shown(&line), Some(changed(&line))));
                }
                Ok(News::Edit { message, text, at }) => {
                    let data = json!({ "message_id": message, "text": text, "edited": at.millis() });
                    return Some(self.stamped("edit", &data, Some(at)));
                }
                Ok(News::Typing { on, text }) => {
                    return Some(self.stamped("typing", &json!({ "on": on, "text": text }), None));
                }
                // Too far behind: look it up instead. The page leaves and comes back if that fails.
                Err(RecvError::Lagged(_)) => {
                    self.past = changed_since(&self.web, &self.room, self.last).await.ok()?
                }
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// The id is the moment of the change: what the page names when it comes back.
    fn stamped(&mut self, name: &str, data: &Value, at: Option<Moment>) -> Event {
        let event = Event::default().event(name).data(data.to_string());
        let Some(at) = at else { return event };
        self.last = self.last.max(Some(at));
        event.id(self.last.unwrap_or(at).millis().to_string())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.live = None;
        self.web.hub.left(&self.room);
    }
}

/// A line as the page reads it.
pub(super) fn shown(line: &Line) -> Value {
    json!({
        "message_id": line.message,
        "author": if line.by_agent { "agent" } else { "person" },
        "text": line.text,
        "reply_to": line.reply_to,
        "said": line.said.millis(),
        "edited": line.edited.map(Moment::millis),
    })
}
