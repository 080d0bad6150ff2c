//! A raw gateway: what a stock agent is on the wire, and nothing more.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use ledger::BotRef;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::test_server::{PATIENCE, TestServer};

pub struct Gateway {
    socket: WebSocketStream<TcpStream>,
    server: TestServer,
    begun: String,
    frames: VecDeque<Value>,
    /// The longest message that came.
    pub longest: usize,
    fences: u32,
}

/// How a connection ended, as the peer saw it.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    Closed(u16, String),
    /// Without a word.
    Dropped,
}

impl Gateway {
    pub async fn dial(server: &TestServer, token: Option<&str>) -> Self {
        Self::try_dial(server, token).await.expect("the upgrade is always accepted")
    }

    pub async fn try_dial(server: &TestServer, token: Option<&str>) -> Result<Self, Error> {
        let mut request = format!("ws://{}/relay", server.address).into_client_request().unwrap();
        if let Some(token) = token {
            request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        }
        let stream = TcpStream::connect(server.address).await.unwrap();
        // Otherwise the second of two small frames waits for the delayed acknowledgement of the first.
        stream.set_nodelay(true).unwrap();
        let dialing = tokio_tungstenite::client_async(request, stream);
        let (socket, _) = tokio::time::timeout(PATIENCE, dialing).await.expect("the upgrade hangs")?;
        let (begun, frames) = (String::new(), VecDeque::new());
        Ok(Self { socket, server: server.clone(), begun, frames, longest: 0, fences: 0 })
    }

    pub async fn say(&mut self, frame: Value) {
        self.say_raw(Message::text(format!("{frame}\n"))).await;
    }

    pub async fn say_raw(&mut self, message: Message) {
        self.socket.send(message).await.unwrap();
    }

    /// Leaves with others when there are many, or with the next that is said.
    pub async fn feed_raw(&mut self, message: Message) {
        self.socket.feed(message).await.unwrap();
    }

    /// One hello, and its descriptor.
    pub async fn says_hello(&mut self, on: &BotRef) {
        self.say(json!({"type": "hello", "platform": on.platform.as_str(), "botId": on.bot.as_str()})).await;
        let descriptor = self.hears().await;
        assert_eq!(descriptor["type"], "descriptor");
        assert_eq!(descriptor["descriptor"]["platform"], on.platform.as_str());
    }

    /// The next frame.
    pub async fn hears(&mut self) -> Value {
        match tokio::time::timeout(PATIENCE, self.next()).await.expect("nothing is heard") {
            Ok(frame) => frame,
            Err(end) => panic!("the socket ended: {end:?}"),
        }
    }

    /// The next frame, or how the socket ended.
    pub async fn hears_or_ends(&mut self, within: Duration) -> Option<Result<Value, End>> {
        tokio::time::timeout(within, self.next()).await.ok()
    }

    /// What the server has sent until it has read everything that was said to it. Cheaper than a request, for tests
    /// that ask often.
    pub async fn hears_until_read(&mut self, within: Duration) -> Option<Result<Vec<Value>, End>> {
        let reading = async {
            self.say_raw(Message::Ping(Bytes::from_static(b"read"))).await;
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Text(text))) => self.take(text.as_str()),
                    Some(Ok(Message::Pong(payload))) if payload == b"read"[..] => break,
                    Some(Ok(Message::Close(Some(close)))) => {
                        return Err(End::Closed(close.code.into(), close.reason.to_string()));
                    }
                    Some(Ok(Message::Close(None)) | Err(_)) | None => return Err(End::Dropped),
                    Some(Ok(_)) => {}
                }
            }
            Ok(self.frames.drain(..).collect())
        };
        tokio::time::timeout(within, reading).await.ok()
    }

    /// The next frame, which must be an inbound: its text and its `bufferId`.
    pub async fn hears_inbound(&mut self) -> (String, String) {
        let frame = self.hears().await;
        assert_eq!(frame["type"], "inbound", "{frame}");
        let text = frame["event"]["text"].as_str().unwrap().to_owned();
        (text, frame["bufferId"].as_str().expect("every delivery carries a bufferId").to_owned())
    }

    /// Hears a message with this text and takes it.
    pub async fn takes(&mut self, text: &str) {
        let (heard, entry) = self.hears_inbound().await;
        assert_eq!(heard, text);
        self.acknowledges(&entry).await;
    }

    pub async fn acknowledges(&mut self, entry: &str) {
        self.say(json!({"type": "inbound_ack", "bufferId": entry})).await;
    }

    pub async fn asks(&mut self, request: &str, action: Value) {
        self.say(json!({"type": "outbound", "requestId": request, "action": action})).await;
    }

    pub async fn sends(&mut self, request: &str, chat: &str, content: &str) {
        self.asks(request, json!({"op": "send", "chat_id": chat, "content": content})).await;
    }

    /// The result of one request, whatever else comes before it is an error.
    pub async fn hears_result(&mut self, request: &str) -> Value {
        let frame = self.hears().await;
        assert_eq!(frame["type"], "outbound_result", "{frame}");
        assert_eq!(frame["requestId"], request);
        frame["result"].clone()
    }

    /// The result of one request, whenever it comes; what comes before it is heard afterwards.
    pub async fn hears_result_among(&mut self, request: &str) -> Value {
        let mut others = VecDeque::new();
        loop {
            let frame = self.hears().await;
            if frame["type"] == "outbound_result" && frame["requestId"] == request {
                others.append(&mut self.frames);
                self.frames = others;
                return frame["result"].clone();
            }
            others.push_back(frame);
        }
    }

    /// Nothing is on its way: what the ledger had to do is done, and an answer overtakes nothing.
    pub async fn hears_nothing(&mut self) {
        for _ in 0..4 {
            self.server.ledger_is_quiet().await;
            self.fences += 1;
            let fence = format!("fence-{}", self.fences);
            self.asks(&fence, json!({"op": "fence"})).await;
            assert_eq!(self.hears_result(&fence).await["error"], "unsupported op: fence");
        }
    }

    /// The socket ends, and nothing comes before that.
    pub async fn ends(&mut self) -> End {
        match tokio::time::timeout(PATIENCE, self.next()).await.expect("the socket does not end") {
            Ok(frame) => panic!("it goes on: {frame}"),
            Err(end) => end,
        }
    }

    /// Waits for one ping and answers it.
    pub async fn answers_a_ping(&mut self) {
        self.leaves_a_ping_unanswered().await;
        self.socket.flush().await.unwrap();
    }

    /// Waits for one ping. The answer would leave with the next read or write.
    pub async fn leaves_a_ping_unanswered(&mut self) {
        let reading = async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Ping(_))) => break,
                    Some(Ok(Message::Text(text))) => self.take(text.as_str()),
                    other => panic!("no ping but {other:?}"),
                }
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("no ping comes");
    }

    pub async fn says_goodbye(mut self) {
        let closing = async {
            self.socket.close(None).await.unwrap();
            while let Some(Ok(_)) = self.socket.next().await {}
        };
        tokio::time::timeout(PATIENCE, closing).await.expect("the goodbye is not answered");
    }

    /// The connection breaks.
    pub fn dies(self) {}

    async fn next(&mut self) -> Result<Value, End> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Ok(frame);
            }
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => self.take(text.as_str()),
                Some(Ok(Message::Close(Some(close)))) => {
                    let _ = self.socket.flush().await;
                    return Err(End::Closed(close.code.into(), close.reason.to_string()));
                }
                Some(Ok(Message::Close(None)) | Err(_)) | None => return Err(End::Dropped),
                Some(Ok(_)) => {}
            }
        }
    }

    fn take(&mut self, text: &str) {
        self.longest = self.longest.max(text.len());
        self.begun.push_str(text);
        while let Some(end) = self.begun.find('\n') {
            let line: String = self.begun.drain(..=end).collect();
            let frame: Value = serde_json::from_str(&line).unwrap();
            assert!(frame.is_object(), "a stock reader dies of this: {frame}");
            self.frames.push_back(frame);
        }
    }
}
