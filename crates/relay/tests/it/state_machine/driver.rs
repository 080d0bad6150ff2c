//! Carries out one sequence over real sockets and compares what comes with the model.

use std::collections::BTreeMap;
use std::time::Duration;

use identity::{Admitted, EventOrigin};
use ledger::Seq;
use posthouse_wire::DedupKey;
use relay::{Config, NewEntry, StopRule};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::model::{Model, SocketNumber};
use super::{ClientKind, What};
use crate::gateway::{End, Gateway};
use crate::test_server::{Agent, TestServer, bot, eventually, message, seconds};

/// Time within which the server wants a hello.
const HELLO_WITHIN: Duration = Duration::from_secs(25);
/// Open sockets at a time: few enough that the server closes none of them for being too many.
const SOCKETS: usize = 4;
/// Hellos in one message that keep the task of a socket busy for a while.
const HELLOS: usize = 8;

pub struct Driver {
    server: TestServer,
    agent: Agent,
    /// The gate's decision for everything that is written to the agent.
    admitted: Admitted,
    config: Config,
    patience: Duration,
    model: Model,
    gateways: BTreeMap<SocketNumber, Gateway>,
    dialed: usize,
    written: usize,
    /// Said its first hello, not yet known to be live.
    arriving: Option<SocketNumber>,
    /// Became live by taking over, which it must earn by answering a ping.
    proving: Option<SocketNumber>,
    /// Nothing has happened since everything was heard and compared.
    is_at_rest: bool,
}

impl Driver {
    /// A new agent, so that cases do not disturb each other.
    pub async fn start(server: &TestServer, patience: Duration) -> Self {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static AGENTS: AtomicUsize = AtomicUsize::new(0);
        let name = format!("a{}", AGENTS.fetch_add(1, Ordering::Relaxed));
        let agent = server.enrol(&name, &name, &[bot("telegram", &name)]).await;
        let on = &agent.bots[0];
        let source = message(on, "c0", "").source;
        let origin = EventOrigin { source: &source, path: None };
        let admitted = server.admitted(on, origin, false).await.expect("the bot is the agent's");
        let model = Model::new(server.clock.instant());
        Self {
            server: server.clone(),
            agent,
            admitted,
            config: Config::default(),
            patience,
            model,
            gateways: BTreeMap::new(),
            dialed: 0,
            written: 0,
            arriving: None,
            proving: None,
            is_at_rest: true,
        }
    }

    pub async fn take(&mut self, what: What) -> Result<(), String> {
        // Time passes only when the server has nothing left to do; nothing needs to be heard twice for that.
        self.is_at_rest &= matches!(what, What::Wind { .. });
        match what {
            What::Inbound { chat } => self.write(chat).await,
            What::Connect { client } => {
                if self.gateways.len() < SOCKETS {
                    let socket = self.dial().await;
                    self.says_first_hello(socket, client).await?;
                }
            }
            What::Dial => {
                if self.gateways.len() < SOCKETS {
                    let socket = self.dial().await;
                    self.fence(socket).await?;
                }
            }
            What::Hello { socket, client } => {
                if let Some(socket) = self.nth_newest(socket) {
                    match self.model.is_seated(socket) {
                        true => self.say_hello(socket, client).await,
                        false => self.says_first_hello(socket, client).await?,
                    }
                }
            }
            What::Acknowledge { socket, entry } => {
                if let Some(socket) = self.nth_newest(socket) {
                    self.acknowledge_one(socket, entry).await?;
                }
            }
            What::GoIdle { socket } => {
                if let Some(socket) = self.nth_newest(socket) {
                    self.go_idle(socket).await?;
                }
            }
            What::Drop { socket, goodbye, busy } => {
                if let Some(socket) = self.nth_newest(socket) {
                    self.lose(socket, goodbye, busy).await?;
                }
            }
            What::Wind { seconds } => self.wind(seconds).await?,
        }
        Ok(())
    }

    fn nth_newest(&self, at: usize) -> Option<SocketNumber> {
        self.gateways.keys().rev().nth(at).copied()
    }

    async fn write(&mut self, chat: u8) {
        self.written += 1;
        let number = self.written;
        let event = message(&self.agent.bots[0], &format!("c{chat}"), &format!("message {number}"));
        let new_entry = NewEntry {
            forward: None,
            event: event.deliverable().unwrap(),
            id: None,
            dedup: DedupKey::new(format!("{}-{number}", self.agent.instance)),
            references: Vec::new(),
            album: None,
            accepted: self.server.clock.now(),
            receipt: None,
            stop: StopRule::Text,
            stale: None,
        };
        let admission = self.server.relay.inboxes().admit(&self.admitted, Box::new(new_entry)).await.unwrap();
        let entry = admission.entry().expect("there is room");
        self.model.accepted(entry.as_str().to_owned(), chat);
    }

    async fn dial(&mut self) -> SocketNumber {
        self.dialed += 1;
        self.gateways.insert(self.dialed, self.agent.dials().await);
        self.model.dialed(self.dialed);
        self.dialed
    }

    /// The socket becomes live. What the ledger has forgotten by now must never come on it.
    async fn says_first_hello(&mut self, socket: SocketNumber, client: ClientKind) -> Result<(), String> {
        self.arrive().await?;
        self.compare().await?;
        let (window, ready) = match client {
            ClientKind::Stock => (1, self.model.now + self.config.settle.0),
            ClientKind::Sdk { window } => (usize::from(window), self.model.now),
        };
        self.say_hello(socket, client).await;
        self.model.seated(socket, window, ready);
        self.arriving = Some(socket);
        Ok(())
    }

    async fn say_hello(&mut self, socket: SocketNumber, client: ClientKind) {
        let hello = self.hello(client);
        self.gateways.get_mut(&socket).unwrap().say(hello).await;
        self.model.said_hello(socket, matches!(client, ClientKind::Sdk { .. }));
    }

    fn hello(&self, client: ClientKind) -> Value {
        let on = &self.agent.bots[0];
        let (platform, bot) = (on.platform.as_str(), on.bot.as_str());
        match client {
            ClientKind::Stock => json!({"type": "hello", "platform": platform, "botId": bot}),
            ClientKind::Sdk { window } => {
                json!({"type": "hello", "platform": platform, "botId": bot, "client": "sdk", "window": window})
            }
        }
    }

    /// Waits until the last first hello has made its socket live.
    async fn arrive(&mut self) -> Result<(), String> {
        match self.arriving.take() {
            Some(socket) => self.fence(socket).await,
            None => Ok(()),
        }
    }

    /// Hears everything that the server has sent, and waits until it has read everything that was said to it.
    async fn fence(&mut self, socket: SocketNumber) -> Result<(), String> {
        let frames = match self.gateways.get_mut(&socket).unwrap().hears_until_read(self.patience).await {
            Some(Ok(frames)) => frames,
            Some(Err(end)) => return Err(format!("socket {socket} ended: {end:?}")),
            None => return Err(format!("socket {socket} is not read")),
        };
        for frame in frames {
            self.heed(socket, &frame).await?;
        }
        match self.model.awaits_descriptor(socket) {
            false => Ok(()),
            true => Err(format!("socket {socket} got no descriptor")),
        }
    }

    async fn hear(&mut self, socket: SocketNumber) -> Result<Value, String> {
        match self.gateways.get_mut(&socket).unwrap().hears_or_ends(self.patience).await {
            Some(Ok(frame)) => Ok(frame),
            Some(Err(end)) => Err(format!("socket {socket} ended: {end:?}")),
            None => Err(format!("socket {socket} hears nothing")),
        }
    }

    async fn heed(&mut self, socket: SocketNumber, frame: &Value) -> Result<(), String> {
        match frame["type"].as_str() {
            Some("inbound") => {
                let entry = frame["bufferId"].as_str().ok_or("an inbound without a bufferId")?;
                self.model.delivered(socket, entry)?;
                // With a window of one the next entry leaves after the commit of the acknowledgement before it.
                if self.model.window(socket) == 1 && self.model.uncommitted_on(socket).is_some() {
                    self.compare().await?;
                    if let Some(entry) = self.model.uncommitted_on(socket) {
                        return Err(format!(
                            "socket {socket} got an entry before entry {entry} was forgotten"
                        ));
                    }
                }
                Ok(())
            }
            Some("descriptor") => self.model.described(socket),
            _ => Err(format!("socket {socket} got {frame}")),
        }
    }

    async fn acknowledge_one(&mut self, socket: SocketNumber, entry: usize) -> Result<(), String> {
        if self.arriving == Some(socket) {
            self.arrive().await?;
        }
        if self.model.live == Some(socket) && self.model.unacknowledged(socket).is_empty() {
            self.hear_what_must_come().await?;
        }
        // Beyond the unacknowledged ones, the last is acknowledged again.
        let unacknowledged =
            self.model.unacknowledged(socket).get(entry).or(self.model.sockets[&socket].got.last());
        if let Some(entry) = unacknowledged.copied() {
            self.acknowledge(socket, entry).await;
        }
        Ok(())
    }

    async fn acknowledge(&mut self, socket: SocketNumber, entry: usize) {
        let id = self.model.id(entry).to_owned();
        self.gateways.get_mut(&socket).unwrap().acknowledges(&id).await;
        self.model.acknowledged(socket, entry);
    }

    async fn hear_what_must_come(&mut self) -> Result<(), String> {
        while let Some(live) = self.model.live.filter(|_| self.model.must_deliver()) {
            let frame = self.hear(live).await?;
            self.heed(live, &frame).await?;
        }
        Ok(())
    }

    async fn go_idle(&mut self, socket: SocketNumber) -> Result<(), String> {
        self.arrive().await?;
        self.gateways.get_mut(&socket).unwrap().say(json!({"type": "going_idle"})).await;
        loop {
            let frame = self.hear(socket).await?;
            if frame["type"] == "going_idle_ack" {
                break;
            }
            self.heed(socket, &frame).await?;
        }
        self.model.went_idle(socket);
        Ok(())
    }

    async fn lose(&mut self, socket: SocketNumber, goodbye: bool, busy: bool) -> Result<(), String> {
        self.arrive().await?;
        let successor = self.model.successor(socket);
        if successor.is_some()
            && (self.model.anything_trails() || self.model.uncommitted(Some(socket)).is_some())
        {
            // What comes on the successor from now on must belong to its time as the live socket.
            self.rest_without(Some(socket)).await?;
        }
        if let Some(successor) = successor.filter(|_| busy) {
            // The server looks up each of these in the ledger, and makes the socket live meanwhile.
            let hellos = format!("{}\n", self.hello(ClientKind::Stock)).repeat(HELLOS);
            self.gateways.get_mut(&successor).unwrap().say_raw(Message::text(hellos)).await;
            (0..HELLOS).for_each(|_| self.model.said_hello(successor, false));
        }
        let gateway = self.gateways.remove(&socket).unwrap();
        if goodbye {
            gateway.says_goodbye().await
        } else {
            gateway.dies()
        }
        self.proving.take_if(|proving| *proving == socket);
        self.model.ended(socket, false);
        if let Some(successor) = successor {
            self.take_over(successor).await?;
        }
        Ok(())
    }

    /// The successor gets nothing until it answers a ping, and it does not read yet.
    async fn take_over(&mut self, successor: SocketNumber) -> Result<(), String> {
        self.losses_are_noticed().await;
        self.compare().await?;
        self.model.took_over(successor);
        self.proving = Some(successor);
        Ok(())
    }

    async fn losses_are_noticed(&self) {
        let (connections, open) = (self.server.relay.connections(), self.gateways.len());
        eventually(|| connections.presence(&self.agent.instance).sockets == open).await;
    }

    async fn wind(&mut self, by: u64) -> Result<(), String> {
        self.rest().await?;
        self.is_at_rest = false;
        self.server.winds(seconds(by));
        self.model.now = self.server.clock.instant();
        for socket in self.model.overdue_hellos(HELLO_WITHIN) {
            self.is_closed(socket, End::Closed(1008, "no usable identity".to_owned())).await?;
        }
        if let Some(live) = self.model.overdue_acknowledgement(self.config.ack_lease.0) {
            let successor = self.model.successor(live);
            self.is_closed(live, End::Closed(1011, "an entry was not acknowledged".to_owned())).await?;
            if let Some(successor) = successor {
                self.take_over(successor).await?;
            }
        }
        Ok(())
    }

    async fn is_closed(&mut self, socket: SocketNumber, expected: End) -> Result<(), String> {
        let end = loop {
            match self.gateways.get_mut(&socket).unwrap().hears_or_ends(self.patience).await {
                Some(Ok(frame)) => self.heed(socket, &frame).await?,
                Some(Err(end)) => break end,
                None => return Err(format!("socket {socket} should be closed: {expected:?}")),
            }
        };
        if end != expected {
            return Err(format!("socket {socket} ended with {end:?} and not with {expected:?}"));
        }
        self.gateways.remove(&socket);
        self.proving.take_if(|proving| *proving == socket);
        self.model.ended(socket, true);
        Ok(())
    }

    /// Waits until the server has done everything that it has to do without further events, and compares.
    pub async fn rest(&mut self) -> Result<(), String> {
        if !self.is_at_rest {
            self.rest_without(None).await?;
            self.is_at_rest = true;
        }
        Ok(())
    }

    async fn rest_without(&mut self, without: Option<SocketNumber>) -> Result<(), String> {
        self.arrive().await?;
        self.losses_are_noticed().await;
        if let Some(proving) = self.proving.take() {
            // The first reads the ping, the second follows the pong.
            self.fence(proving).await?;
            self.fence(proving).await?;
        }
        let open: Vec<SocketNumber> =
            self.gateways.keys().copied().filter(|open| Some(*open) != without).collect();
        for socket in open {
            self.fence(socket).await?;
            if self.model.live != Some(socket) {
                self.model.sockets.get_mut(&socket).unwrap().may_trail = false;
            }
        }
        if without.is_none() || without != self.model.live {
            self.hear_what_must_come().await?;
        }
        self.acknowledgements_are_committed(without).await?;
        if let Some(live) = self.model.live.filter(|live| Some(*live) != without && self.model.may_deliver())
        {
            // Something was acknowledged on another socket while the live one read the inbox, and may come or not.
            for _ in 0..4 {
                self.server.ledger_is_quiet().await;
                self.fence(live).await?;
            }
        }
        Ok(())
    }

    async fn acknowledgements_are_committed(&mut self, without: Option<SocketNumber>) -> Result<(), String> {
        let patience = self.patience;
        let waiting = async {
            loop {
                self.compare().await?;
                match self.model.uncommitted(without) {
                    Some(_) => tokio::task::yield_now().await,
                    None => return Ok(()),
                }
            }
        };
        match tokio::time::timeout(patience, waiting).await {
            Ok(done) => done,
            Err(_) => Err("an acknowledgement is not committed".to_owned()),
        }
    }

    async fn compare(&mut self) -> Result<(), String> {
        let unread = self.server.ledger.inbox().unread(&self.agent.instance, Seq(0), 100).await.unwrap();
        let unread: Vec<String> = unread.into_iter().map(|entry| entry.id.as_str().to_owned()).collect();
        let dead = match self.model.suspects_death(&unread) {
            true => self.agent.dead_letters().await,
            false => Vec::new(),
        };
        let dead: Vec<String> = dead.into_iter().map(|entry| entry.as_str().to_owned()).collect();
        self.model.compare(&unread, &dead)
    }

    /// Connects once more and takes everything. Then a marker comes, and nothing before it.
    pub async fn finish(&mut self, client: ClientKind) -> Result<(), String> {
        self.is_at_rest = false;
        let last = self.dial().await;
        self.says_first_hello(last, client).await?;
        if matches!(client, ClientKind::Stock) {
            self.wind(self.config.settle.0.as_secs()).await?;
        }
        self.is_at_rest = false;
        self.arrive().await?;
        self.hear_what_must_come().await?;
        while let Some(entry) = self.model.unacknowledged(last).first().copied() {
            self.acknowledge(last, entry).await;
            self.hear_what_must_come().await?;
        }
        self.write(0).await;
        let marker = self.written - 1;
        while !self.model.sockets[&last].got.contains(&marker) {
            let frame = self.hear(last).await?;
            self.heed(last, &frame).await?;
            while let Some(entry) = self.model.unacknowledged(last).first().copied() {
                self.acknowledge(last, entry).await;
            }
        }
        self.rest().await?;
        self.model.conclude()
    }
}
