//! Delivery of updates to a bot's webhook: in order within a chat, chats in parallel, until a 2xx.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use http::Uri;
use tokio::sync::Notify;

use super::{
    Shared,
    faults::FaultKind,
    moment::{unix_ms, unix_s},
    transcript::WebhookAttempt,
};

#[derive(Clone)]
struct PendingUpdate {
    rank: u64,
    update_id: i64,
    body: Bytes,
    duplicate: bool,
    attempts: u32,
}

/// A webhook and its undelivered updates. A chat's first update stays at the head of its queue until it is
/// settled. `ready` holds the queues whose head may be sent, oldest first.
pub(super) struct BotWebhook {
    pub url: String,
    pub secret: Option<String>,
    pub max_connections: usize,
    pub last_error: Option<(i64, String)>,
    /// Distinguishes this webhook from earlier and later ones.
    pub generation: u64,
    pub wake: Arc<Notify>,
    queues: HashMap<i64, VecDeque<PendingUpdate>>,
    ready: BTreeMap<u64, i64>,
    in_flight: usize,
    next_rank: u64,
    held: Vec<(i64, PendingUpdate)>,
    hold: usize,
}

impl BotWebhook {
    pub fn new(url: String, secret: Option<String>, max_connections: usize, generation: u64) -> BotWebhook {
        BotWebhook {
            url,
            secret,
            max_connections,
            last_error: None,
            generation,
            wake: Arc::new(Notify::new()),
            queues: HashMap::new(),
            ready: BTreeMap::new(),
            in_flight: 0,
            next_rank: 0,
            held: Vec::new(),
            hold: 0,
        }
    }

    /// Queues an update. A fault may duplicate it or hold it back.
    pub fn enqueue(&mut self, queue: i64, update_id: i64, body: Bytes, fault: Option<FaultKind>) {
        let item = PendingUpdate { rank: 0, update_id, body, duplicate: false, attempts: 0 };
        if let Some(FaultKind::ReorderDeliveries { of }) = fault {
            self.hold = of;
        }
        if self.hold > 0 {
            self.held.push((queue, item));
            self.hold -= 1;
            if self.hold == 0 {
                self.release_held();
            }
            return;
        }
        self.push(queue, item.clone());
        if fault == Some(FaultKind::DuplicateDelivery) {
            self.push(queue, PendingUpdate { duplicate: true, ..item });
        }
        self.wake.notify_one();
    }

    /// Releases the updates that a reordering holds back, last first.
    pub fn release_held(&mut self) {
        self.hold = 0;
        for (queue, item) in std::mem::take(&mut self.held).into_iter().rev() {
            self.push(queue, item);
        }
        self.wake.notify_one();
    }

    /// Drops updates that have not been sent. Deliveries in progress end by themselves.
    pub fn forget_waiting(&mut self) {
        (self.held, self.hold) = (Vec::new(), 0);
        self.ready.clear();
        self.queues.clear();
    }

    fn push(&mut self, queue: i64, item: PendingUpdate) {
        let rank = self.next_rank;
        self.next_rank += 1;
        let waiting = self.queues.entry(queue).or_default();
        if waiting.is_empty() {
            self.ready.insert(rank, queue);
        }
        waiting.push_back(PendingUpdate { rank, ..item });
    }

    fn take(&mut self) -> Option<(i64, PendingUpdate)> {
        if self.in_flight >= self.max_connections {
            return None;
        }
        let (_, queue) = self.ready.pop_first()?;
        let head = self.queues.get_mut(&queue)?.front_mut()?;
        head.attempts += 1;
        self.in_flight += 1;
        Some((queue, head.clone()))
    }

    /// The head of this queue is settled; the next may be sent.
    fn finish(&mut self, queue: i64, rank: u64) {
        let Some(waiting) = self.queues.get_mut(&queue) else { return };
        if waiting.front().is_some_and(|head| head.rank == rank) {
            waiting.pop_front();
            match waiting.front() {
                Some(next) => _ = self.ready.insert(next.rank, queue),
                None => _ = self.queues.remove(&queue),
            }
        }
    }

    fn retry(&mut self, queue: i64, rank: u64) {
        if self.queues.get(&queue).and_then(VecDeque::front).is_some_and(|head| head.rank == rank) {
            self.ready.insert(rank, queue);
            self.wake.notify_one();
        }
    }
}

/// Delivers to a webhook until it is replaced or the stand-in stops.
pub(super) async fn feed(shared: Arc<Shared>, at: usize, generation: u64, wake: Arc<Notify>) {
    loop {
        let next = {
            let mut world = shared.world.lock();
            match world.bots[at].webhook.as_mut().filter(|webhook| webhook.generation == generation) {
                None => return,
                Some(webhook) => webhook.take(),
            }
        };
        match next {
            Some((queue, item)) => {
                let shared = shared.clone();
                let delivery = deliver(shared.clone(), at, generation, queue, item);
                shared.tasks.spawn(shared.stop.clone().run_until_cancelled_owned(delivery));
            }
            None => tokio::select! {
                () = shared.stop.cancelled() => return,
                () = wake.notified() => {}
            },
        }
    }
}

async fn deliver(shared: Arc<Shared>, at: usize, generation: u64, queue: i64, item: PendingUpdate) {
    let target = {
        let world = shared.world.lock();
        world.bots[at].webhook.as_ref().map(|webhook| (webhook.url.clone(), webhook.secret.clone()))
    };
    let Some((url, secret)) = target else { return };
    let at_ms = unix_ms();
    let outcome = post(&shared, &url, secret, item.body).await;
    let taken = matches!(outcome, Ok(200..=299));
    {
        let mut world = shared.world.lock();
        let bot = world.bots[at].bot.id;
        world.record_attempt(WebhookAttempt {
            at_ms,
            took_ms: unix_ms() - at_ms,
            bot,
            update_id: item.update_id,
            attempt: item.attempts,
            duplicate: item.duplicate,
            status: outcome.as_ref().ok().copied(),
            error: outcome.as_ref().err().cloned(),
        });
        if taken && !item.duplicate {
            world.confirm(at, item.update_id, "webhook");
        }
        if let Some(webhook) = world.bots[at].webhook.as_mut().filter(|hook| hook.generation == generation) {
            webhook.in_flight -= 1;
            if taken {
                webhook.finish(queue, item.rank);
            } else {
                webhook.last_error = Some((unix_s(), failure(&outcome)));
            }
            webhook.wake.notify_one();
        }
    }
    shared.changed.notify_waiters();
    if !taken {
        let settings = &shared.settings;
        let growth = 2u32.saturating_pow(item.attempts.saturating_sub(1));
        tokio::time::sleep(settings.retry_first.saturating_mul(growth).min(settings.retry_most)).await;
        let mut world = shared.world.lock();
        if let Some(webhook) = world.bots[at].webhook.as_mut().filter(|hook| hook.generation == generation) {
            webhook.retry(queue, item.rank);
        }
    }
}

fn failure(outcome: &Result<u16, String>) -> String {
    match outcome {
        Ok(status) => {
            let name = http::StatusCode::from_u16(*status).ok().and_then(|status| status.canonical_reason());
            format!("Wrong response from the webhook: {status} {}", name.unwrap_or_default())
        }
        Err(error) => error.clone(),
    }
}

async fn post(shared: &Shared, url: &str, secret: Option<String>, body: Bytes) -> Result<u16, String> {
    if !url.parse::<Uri>().is_ok_and(|url| is_loopback(&url)) {
        return Err("the stand-in delivers to loopback only".to_owned());
    }
    let mut request = shared.http.post(url).header("content-type", "application/json").body(body);
    if let Some(secret) = secret {
        request = request.header("x-telegram-bot-api-secret-token", secret);
    }
    // The URL may contain a secret of the server under test, so errors omit it.
    let mut answer = request.send().await.map_err(|error| {
        let what = if error.is_timeout() {
            "Read timeout expired"
        } else if error.is_connect() {
            "Connection refused"
        } else {
            "Connection closed before the answer"
        };
        what.to_owned()
    })?;
    let status = answer.status().as_u16();
    // Reads the body, so that the connection can be reused, but only up to a limit.
    let mut read = 0;
    while let Ok(Some(part)) = answer.chunk().await {
        read += part.len();
        if read > 64 << 10 {
            break;
        }
    }
    Ok(status)
}

/// Whether a URL is on this machine.
pub(super) fn is_loopback(url: &Uri) -> bool {
    let host = url.host().unwrap_or("").trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
