//! Test server whose every frame is scripted, and a handler that records.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{SinkExt, StreamExt};
use posthouse_agent::wire::frame::{Hello, LineAssembler, Outbound};
use posthouse_agent::wire::{
    ChatId, Descriptor, EntryId, Event, FromGateway, Secret, SessionKey, Source, ToGateway,
};
use posthouse_agent::{
    BotIdentity, DeliveryDeclined, Inbound, InboundHandler, RelayTransport, Settings, WebSocketTransport,
};
use posthouse_time::{Moment, Timepiece};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

pub const GATEWAY: &str = "gw-heron";
pub const SECRET: &str = "a secret of the test";

/// Fails with a message instead of hanging.
pub async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it should have happened by now")
}

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub struct TestServer {
    listener: TcpListener,
    pub clock: Timepiece,
}

impl TestServer {
    pub async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self { listener, clock: Timepiece::wound(Moment::from_seconds(1_765_000_000)) }
    }

    pub fn settings(&self) -> Settings {
        let url = format!("http://{}", self.listener.local_addr().unwrap());
        Settings::new(url, GATEWAY, Secret::new(SECRET)).with_bots([BotIdentity::new("alpha", "a1")])
    }

    pub fn transport(&self) -> WebSocketTransport {
        WebSocketTransport::with_timepiece(self.settings(), self.clock.clone()).unwrap()
    }

    /// An agent connects; nothing is sent yet.
    pub async fn answers(&self) -> Seat {
        let (tcp, _) = soon(self.listener.accept()).await.unwrap();
        let (mut path, mut bearer) = (String::new(), String::new());
        #[expect(clippy::result_large_err, reason = "the callback's type is the library's")]
        let look = |request: &Request, response: Response| {
            path = request.uri().path().to_owned();
            let header = request.headers().get("authorization").map(|value| value.to_str().unwrap());
            bearer = header.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default().to_owned();
            Ok(response)
        };
        let socket = soon(tokio_tungstenite::accept_hdr_async(tcp, look)).await.unwrap();
        Seat {
            socket,
            path,
            bearer,
            lines: LineAssembler::new(16 << 20),
            received: VecDeque::new(),
            sizes: Vec::new(),
        }
    }

    /// An agent connects and is accepted.
    pub async fn seats(&self) -> Seat {
        let mut seat = self.answers().await;
        seat.welcomes().await;
        seat
    }

    /// A connection and its server side, with a handler that passes on its deliveries.
    pub async fn connected(&self) -> (WebSocketTransport, Seat, ReceivedByAgent) {
        let transport = self.transport();
        let received = listen(&transport);
        let (opened, seat) = tokio::join!(transport.connect(), self.seats());
        opened.unwrap();
        (transport, seat, received)
    }

    /// No agent connects, however far the clock advances.
    pub async fn hears_nobody(&self) {
        for _ in 0..10 {
            self.clock.wind(seconds(60));
            self.is_dialed_by_nobody().await;
        }
    }

    /// No agent is on its way: connections are accepted in order, and one that the test opens now is next.
    pub async fn is_dialed_by_nobody(&self) {
        for _ in 0..3 {
            let marker = soon(TcpStream::connect(self.listener.local_addr().unwrap())).await.unwrap();
            let (_, next) = soon(self.listener.accept()).await.unwrap();
            assert_eq!(next, marker.local_addr().unwrap(), "somebody dialed");
        }
    }
}

pub struct Seat {
    pub socket: WebSocketStream<TcpStream>,
    pub path: String,
    pub bearer: String,
    lines: LineAssembler,
    received: VecDeque<FromGateway>,
    /// The size of every message received.
    pub sizes: Vec<usize>,
}

impl Seat {
    pub async fn welcomes(&mut self) -> Hello {
        let FromGateway::Hello(hello) = self.hears().await else { panic!("hello comes first") };
        let descriptor = Descriptor::new(hello.platform.clone(), "Test");
        self.says(ToGateway::Descriptor(Box::new(descriptor))).await;
        hello
    }

    pub async fn says(&mut self, frame: ToGateway) {
        self.says_raw(frame.line()).await;
    }

    pub async fn says_raw(&mut self, text: impl Into<String>) {
        soon(self.socket.send(Message::text(text.into()))).await.unwrap();
    }

    pub async fn brings(&mut self, entry: &str, text: &str) {
        self.says(ToGateway::Inbound { event: Box::new(said(text)), entry: Some(EntryId::new(entry)) }).await;
    }

    /// The next frame. `None` after the other side has closed.
    pub async fn next(&mut self) -> Option<FromGateway> {
        while self.received.is_empty() {
            let message = match soon(self.socket.next()).await {
                Some(Ok(Message::Text(text))) => text,
                // Reads to the end, which sends this side's half of the close.
                Some(Ok(Message::Close(_))) => continue,
                Some(Err(_)) | None => return None,
                Some(Ok(_)) => continue,
            };
            self.sizes.push(message.len());
            let received = &mut self.received;
            self.lines
                .push(message.as_bytes(), |line| received.push_back(FromGateway::read(line).unwrap()))
                .unwrap();
        }
        self.received.pop_front()
    }

    pub async fn hears(&mut self) -> FromGateway {
        self.next().await.expect("the connection should be open")
    }

    pub async fn hears_ack(&mut self, entry: &str) {
        assert_eq!(self.hears().await, FromGateway::InboundAck { entry: EntryId::new(entry) });
    }

    pub async fn hears_request(&mut self) -> Outbound {
        match self.hears().await {
            FromGateway::Outbound(outbound) => outbound,
            other => panic!("expected a request, received {other:?}"),
        }
    }

    pub async fn closes(mut self, code: u16, reason: &str) {
        let frame = CloseFrame { code: code.into(), reason: reason.to_owned().into() };
        soon(self.socket.send(Message::Close(Some(frame)))).await.unwrap();
        while let Some(Ok(_)) = soon(self.socket.next()).await {}
    }
}

pub fn said(text: &str) -> Event {
    Event { text: text.to_owned(), source: source("alpha", "c1"), ..Event::default() }
}

pub fn source(platform: &str, chat: &str) -> Source {
    Source {
        platform: platform.into(),
        chat_id: Some(chat.into()),
        chat_type: "dm".to_owned(),
        user_id: Some("u1".into()),
        ..Source::default()
    }
}

/// The deliveries to a handler, and its verdict on each.
pub struct ReceivedByAgent {
    pub events: mpsc::UnboundedReceiver<Inbound>,
    pub interrupts: mpsc::UnboundedReceiver<(SessionKey, ChatId)>,
    verdicts: mpsc::UnboundedSender<Result<(), DeliveryDeclined>>,
    most_in_hand: Arc<AtomicUsize>,
}

impl ReceivedByAgent {
    /// The text of the next event, before the handler's verdict.
    pub async fn next(&mut self) -> String {
        soon(self.events.recv()).await.unwrap().event.text
    }

    pub fn takes(&self) {
        self.verdicts.send(Ok(())).unwrap();
    }

    pub fn declines(&self) {
        self.verdicts.send(Err(DeliveryDeclined)).unwrap();
    }

    /// Nothing else was handed over: entries are handled in order, and a marker that is brought now is next.
    pub async fn nothing_more(&mut self, seat: &mut Seat) {
        seat.brings("ent_marker", "the marker").await;
        assert_eq!(self.next().await, "the marker", "something else was handled");
    }

    /// The most entries that the handler had in hand at one time.
    pub fn most_in_hand(&self) -> usize {
        self.most_in_hand.load(Ordering::SeqCst)
    }
}

struct Listener {
    events: mpsc::UnboundedSender<Inbound>,
    interrupts: mpsc::UnboundedSender<(SessionKey, ChatId)>,
    verdicts: tokio::sync::Mutex<mpsc::UnboundedReceiver<Result<(), DeliveryDeclined>>>,
    in_hand: AtomicUsize,
    most_in_hand: Arc<AtomicUsize>,
}

pub fn listen(transport: &dyn RelayTransport) -> ReceivedByAgent {
    let (events, received_events) = mpsc::unbounded_channel();
    let (interrupts, received_interrupts) = mpsc::unbounded_channel();
    let (verdicts, given) = mpsc::unbounded_channel();
    let most_in_hand = Arc::<AtomicUsize>::default();
    transport.set_inbound_handler(Arc::new(Listener {
        events,
        interrupts,
        verdicts: given.into(),
        in_hand: AtomicUsize::new(0),
        most_in_hand: most_in_hand.clone(),
    }));
    ReceivedByAgent { events: received_events, interrupts: received_interrupts, verdicts, most_in_hand }
}

#[async_trait]
impl InboundHandler for Listener {
    async fn inbound(&self, inbound: Inbound) -> Result<(), DeliveryDeclined> {
        let in_hand = self.in_hand.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_in_hand.fetch_max(in_hand, Ordering::SeqCst);
        let _ = self.events.send(inbound);
        let verdict = self.verdicts.lock().await.recv().await.unwrap_or(Err(DeliveryDeclined));
        self.in_hand.fetch_sub(1, Ordering::SeqCst);
        verdict
    }

    fn interrupted(&self, session_key: &SessionKey, chat_id: &ChatId) {
        let _ = self.interrupts.send((session_key.clone(), chat_id.clone()));
    }
}
