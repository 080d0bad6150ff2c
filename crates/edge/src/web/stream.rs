//! Server-sent events of a room: first its history, then live changes.
//!
//! Messages are read from the ledger in small pages, as fast as the browser reads the stream. A stream that nobody
//! reads uses little memory.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, FuturesUnordered, StreamExt};
use futures_util::{FutureExt, future};
use ledger::{BotRef, Room, RoomMessage, ShownPrompt};
use posthouse_time::Moment;
use posthouse_wire::{ChatId, EntryId, MessageId, TenantId};
use relay::{Relay, STOP};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::hub::{MessageMark, NextUpdate, RoomUpdate, Watch};
use super::prompts::shown_prompt;
use super::streams::OpenStream;
use super::{Web, bot_ref};

/// Length of the history, in messages and in bytes of text.
const HISTORY: u16 = 500;
const HISTORY_BYTES: usize = 512 * 1024;

/// Amount of text that is read from the ledger at a time.
const PAGE_BYTES: usize = 64 * 1024;

/// Interval of comments that show proxies and browsers that the stream is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A page that reconnects gets again what changed shortly before it left, in case the clock was set back meanwhile.
/// Messages have ids, so repeating them does no harm.
const MARGIN: Duration = Duration::from_secs(60);

/// Duration of one wait for an acknowledgement, before the next one starts.
const WAIT: Duration = Duration::from_secs(60 * 60);

/// Largest number of messages whose acknowledgement one page waits for. While it is reached, further messages are not
/// shown as delivered.
const AWAITED: usize = 64;

/// Number of latest messages that are searched for an answer.
const LATEST: u16 = 8;

/// The latest messages of a room, as JSON for the page.
pub(super) async fn history(web: &Web, room: &Room, tenant: &TenantId) -> Result<Vec<Value>, ledger::Fault> {
    let start = web.rooms.place_before_latest(&room.id, HISTORY, HISTORY_BYTES).await?;
    let messages = web.rooms.messages_after(&room.id, start, None, HISTORY_BYTES).await?;
    let prompts = web.prompts.prompts_in(&bot_ref(&room.instance), &room.id).await?;
    let mut shown = Vec::with_capacity(messages.len());
    for (_, message) in &messages {
        shown.push(web.shown(tenant.as_str(), message, prompt_of(&prompts, message)).await);
        // Rendering many short messages takes long in total.
        tokio::task::yield_now().await;
    }
    Ok(shown)
}

/// Streams everything in the room that changed since `after`, then all further changes, until the page leaves, the
/// invitation is withdrawn or the server shuts down.
pub(super) async fn watch(
    web: Arc<Web>,
    relay: Relay,
    room: Room,
    after: Option<Moment>,
    open: OpenStream,
    closing: CancellationToken,
) -> Result<Response, ledger::Fault> {
    // The lock keeps anything from being stored between the first read and the subscription. Later reads of a long
    // history may repeat a change, which does no harm.
    let locked = Arc::clone(&web);
    let Room { id: room, instance, .. } = room;
    let _lock = locked.locks.lock(&room).await;
    let live = web.hub.watch(&room);
    let mut watcher = Watcher {
        bot: bot_ref(&instance),
        prompts: Vec::new(),
        past: VecDeque::new(),
        next_page: None,
        last: after,
        since: None,
        awaited: FuturesUnordered::new(),
        unanswered: None,
        turn_shown: false,
        web,
        relay,
        room,
        live,
        open,
        closing,
    };
    watcher.look_back().await?;
    let events = stream::unfold(watcher, |mut watcher| async {
        let event = watcher.next().await?;
        Some((Ok::<_, Infallible>(event), watcher))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

fn changed(message: &RoomMessage) -> Moment {
    [message.edited, message.marks.touched].into_iter().flatten().fold(message.sent, Moment::max)
}

/// The prompt that this message shows.
fn prompt_of<'a>(prompts: &'a [ShownPrompt], message: &RoomMessage) -> Option<&'a ShownPrompt> {
    prompts.iter().find(|prompt| prompt.message == message.message)
}

/// A person's message whose acknowledgement is awaited. `acknowledged` is the time of the acknowledgement.
struct Awaited {
    message: MessageId,
    entry: EntryId,
    is_stop: bool,
    acknowledged: Option<Moment>,
}

/// The stream of one page for one room.
struct Watcher {
    web: Arc<Web>,
    relay: Relay,
    room: ChatId,
    /// The web bot of the room's agent.
    bot: BotRef,
    /// The prompts of the room, for the messages that are read from the ledger.
    prompts: Vec<ShownPrompt>,
    live: Watch,
    /// Messages that were read from the ledger and not sent yet.
    past: VecDeque<(i64, RoomMessage)>,
    /// The place after which to read on; `None` if the page has caught up.
    next_page: Option<i64>,
    /// Only messages that changed since then are read.
    since: Option<Moment>,
    /// Time of the latest change that was sent.
    last: Option<Moment>,
    /// Messages that the agent has not acknowledged yet.
    awaited: FuturesUnordered<BoxFuture<'static, Awaited>>,
    /// The person's latest message, while the agent has not written anything after it.
    unanswered: Option<MessageId>,
    /// Whether the page shows an open turn.
    turn_shown: bool,
    open: OpenStream,
    closing: CancellationToken,
}

impl Watcher {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if self.open.ended.is_cancelled() {
                return None;
            }
            let turn = self.web.turns.open_until(&self.room, self.web.timepiece.instant());
            if turn.is_some() != self.turn_shown {
                self.turn_shown = turn.is_some();
                return Some(named("turn", &json!({ "open": self.turn_shown }).to_string()));
            }
            if let Some((_, message)) = self.past.pop_front() {
                let prompt = prompt_of(&self.prompts, &message);
                let update = self.web.update_of(self.open.tenant.as_str(), message, prompt).await;
                return Some(self.shown(&update));
            }
            if let Some(place) = self.next_page {
                // A failure ends the stream; the page then reconnects.
                self.read_on(place).await.ok()?;
                continue;
            }
            let timepiece = self.web.timepiece.clone();
            let turn_over = async {
                match turn {
                    Some(until) => timepiece.sleep_until(until).await,
                    None => future::pending().await,
                }
            };
            let next = tokio::select! {
                () = self.closing.cancelled() => return None,
                () = self.open.ended.cancelled() => return None,
                () = turn_over => continue,
                Some(awaited) = self.awaited.next() => {
                    self.acknowledged(awaited).await.ok()?;
                    continue;
                }
                next = self.live.next() => next,
            };
            match next {
                NextUpdate::Update(update) => return Some(self.shown(&update)),
                NextUpdate::Behind => self.look_back().await.ok()?,
            }
        }
    }

    /// Starts to read what changed since the latest change that was sent.
    async fn look_back(&mut self) -> Result<(), ledger::Fault> {
        let start = self.web.rooms.place_before_latest(&self.room, HISTORY, HISTORY_BYTES).await?;
        self.since = self.last.map(|last| last - MARGIN);
        self.read_on(start).await
    }

    async fn read_on(&mut self, after: i64) -> Result<(), ledger::Fault> {
        self.past = self.web.rooms.messages_after(&self.room, after, self.since, PAGE_BYTES).await?.into();
        self.next_page = self.past.back().map(|(place, _)| *place);
        self.prompts = match self.past.is_empty() {
            true => Vec::new(),
            false => self.web.prompts.prompts_in(&self.bot, &self.room).await?,
        };
        Ok(())
    }

    /// The event for the page. Its id is the time of the change, which the page sends when it reconnects.
    fn shown(&mut self, update: &RoomUpdate) -> Event {
        if let Some(message) = &update.message {
            if !message.is_stop {
                self.unanswered = (!message.by_agent).then(|| message.message.clone());
            }
            if let Some(entry) = &message.awaits
                && self.awaited.len() < AWAITED
            {
                self.wait_for(message.message.clone(), entry.clone(), message.is_stop);
            }
        }
        let event = named(update.name, &update.data);
        let Some(at) = update.at else { return event };
        self.last = self.last.max(Some(at));
        event.id(self.last.unwrap_or(at).millis().to_string())
    }

    fn wait_for(&self, message: MessageId, entry: EntryId, is_stop: bool) {
        let relay = self.relay.clone();
        let wait = async move {
            let acknowledged = relay.acknowledgements().wait_for(&entry, WAIT).await.unwrap_or(None);
            Awaited { message, entry, is_stop, acknowledged }
        };
        self.awaited.push(wait.boxed());
    }

    /// Handles the end of a wait: the agent has acknowledged the message, or still has not.
    async fn acknowledged(&mut self, awaited: Awaited) -> Result<(), ledger::Fault> {
        let Awaited { message, entry, is_stop, acknowledged } = awaited;
        let Some(acknowledged) = acknowledged else {
            self.wait_for(message, entry, is_stop);
            return Ok(());
        };
        // The lock keeps an answer from being stored meanwhile: it must end the turn after the turn has begun.
        let _lock = self.web.locks.lock(&self.room).await;
        let now = self.web.timepiece.now();
        // If several pages watch the room, only the first one stores the delivery and notifies the others.
        if self.web.rooms.delivered(&self.room, &message, now).await? {
            let instant = self.web.timepiece.instant();
            if is_stop {
                self.web.turns.stopped(&self.room, instant);
            } else if self.unanswered.as_ref() == Some(&message)
                && self.web.is_unanswered(&self.room, &message).await?
            {
                let ago = u64::try_from(now.millis() - acknowledged.millis()).unwrap_or(0);
                self.web.turns.begin(&self.room, Duration::from_millis(ago), instant);
            }
            let data = json!({ "message_id": message }).to_string();
            self.web.hub.show(&self.room, RoomUpdate { name: "delivered", data, at: None, message: None });
        }
        Ok(())
    }
}

fn named(name: &str, data: &str) -> Event {
    Event::default().event(name).data(data)
}

impl Web {
    /// Whether the agent has not written anything after this message, according to the ledger.
    async fn is_unanswered(&self, room: &ChatId, message: &MessageId) -> Result<bool, ledger::Fault> {
        let start = self.rooms.place_before_latest(room, LATEST, PAGE_BYTES).await?;
        let latest = self.rooms.messages_after(room, start, None, PAGE_BYTES).await?;
        let after = latest.iter().rev().take_while(|(_, later)| later.message != *message);
        Ok(!after.into_iter().any(|(_, later)| later.by_agent))
    }

    /// A message as JSON for the page. Text of an agent is also rendered to HTML.
    pub(super) async fn shown(
        &self,
        whose: &str,
        message: &RoomMessage,
        prompt: Option<&ShownPrompt>,
    ) -> Value {
        let html = if message.by_agent { self.renderer.html(whose, &message.text).await } else { None };
        json!({
            "message_id": message.message,
            "author": if message.by_agent { "agent" } else { "person" },
            "text": message.text,
            "html": html,
            "reply_to": message.reply_to,
            "said": message.sent.millis(),
            "edited": message.edited.map(Moment::millis),
            "delivered": message.entry.as_ref().map(|_| message.delivered.is_some()),
            "thread": message.marks.thread,
            "reactions": message.marks.reactions,
            "prompt": prompt.map(shown_prompt),
            "files": message.files.iter().map(super::files::shown).collect::<Vec<_>>(),
        })
    }

    pub(super) async fn update_of(
        &self,
        whose: &str,
        message: RoomMessage,
        prompt: Option<&ShownPrompt>,
    ) -> RoomUpdate {
        let data = self.shown(whose, &message, prompt).await.to_string();
        let at = Some(changed(&message));
        let awaits = message.entry.filter(|_| message.delivered.is_none());
        RoomUpdate {
            name: "line",
            data,
            at,
            message: Some(MessageMark {
                message: message.message,
                by_agent: message.by_agent,
                is_stop: !message.by_agent && message.text == STOP,
                awaits,
            }),
        }
    }
}
