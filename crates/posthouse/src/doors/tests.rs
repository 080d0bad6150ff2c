//! Request bodies, seen from a peer that writes raw bytes.

use std::time::Duration;

use axum::extract::Path;
use axum::routing::{get, post};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use posthouse_time::{Moment, Timepiece};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;
use crate::server::{ConnectionLimits, OpenConnections};

struct Served {
    peer: DuplexStream,
    timepiece: Timepiece,
}

/// HTTP paths with a budget of 8,000 bytes for unfinished bodies, so 1,000 per address.
fn served(mounts: Router) -> Served {
    served_within(mounts, ByteBudget::new(1 << 20))
}

/// The same, one more connection of a server with this budget for responses.
fn served_within(mounts: Router, unsent: ByteBudget) -> Served {
    let timepiece = Timepiece::wound(Moment::from_seconds(1_000));
    let bodies = BodyLimits {
        timepiece: timepiece.clone(),
        within: Duration::from_secs(15),
        unfinished: ByteBudget::new(8_000),
        unsent,
    };
    let doors = Doors { mounts, prefix: "".into(), hosts: MappedHosts::default(), bodies };
    let limits = ConnectionLimits { per_address: 9, per_principal: 9, per_tenant: 9 };
    let connection = PeerConnection::new(&OpenConnections::new(limits), false, false);
    let (peer, near) = tokio::io::duplex(64 * 1024);
    let service = service_fn(move |request| {
        doors.clone().answer(request, [192, 0, 2, 1].into(), Arc::clone(&connection))
    });
    tokio::spawn(async move { Builder::new().serve_connection(TokioIo::new(near), service).await });
    Served { peer, timepiece }
}

impl Served {
    async fn sends(&mut self, bytes: &[u8]) {
        self.peer.write_all(bytes).await.unwrap();
    }

    async fn hears(&mut self) -> String {
        let mut heard = vec![0; 4096];
        let length = self.peer.read(&mut heard).await.unwrap();
        String::from_utf8_lossy(&heard[..length]).into_owned()
    }
}

async fn whole(request: Request) -> Response {
    match axum::body::to_bytes(request.into_body(), 100_000).await {
        Ok(body) => body.len().to_string().into_response(),
        Err(_) => StatusCode::PAYLOAD_TOO_LARGE.into_response(),
    }
}

async fn streamed(request: Request) -> String {
    RequestControl::stream_body(request.extensions());
    let (mut body, mut length) = (request.into_body(), 0);
    while let Some(frame) = std::future::poll_fn(|cx| std::pin::Pin::new(&mut body).poll_frame(cx)).await {
        length += frame.unwrap().into_data().map_or(0, |piece| piece.len());
    }
    length.to_string()
}

const HEAD: &str = "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";

#[tokio::test]
async fn an_answer_that_needs_no_body_does_not_wait_for_one() {
    let mut served = served(Router::new());
    served.sends(b"POST /nowhere HTTP/1.1\r\nhost: x\r\ncontent-length: 9000\r\n\r\nhalf").await;
    let heard = served.hears().await;
    assert!(heard.starts_with("HTTP/1.1 404") && heard.contains("connection: close"), "{heard}");
}

#[tokio::test]
async fn an_address_cannot_have_more_unfinished_bytes_than_its_share() {
    let mut served = served(Router::new().route("/", post(whole)));
    served.sends(HEAD.as_bytes()).await;
    served.sends(format!("400\r\n{}\r\n", "x".repeat(1_024)).as_bytes()).await;
    let heard = served.hears().await;
    assert!(heard.starts_with("HTTP/1.1 429") && heard.contains("too_many_unfinished_bodies"), "{heard}");
}

#[tokio::test]
async fn many_tiny_pieces_cost_what_they_weigh() {
    let mut served = served(Router::new().route("/", post(whole)));
    served.sends(HEAD.as_bytes()).await;
    served.sends("1\r\nx\r\n".repeat(100).as_bytes()).await;
    assert!(served.hears().await.starts_with("HTTP/1.1 429"));
}

#[tokio::test]
async fn a_body_that_comes_whole_needs_no_budget() {
    let mut served = served(Router::new().route("/", post(whole)));
    let body = "x".repeat(4_000);
    served
        .sends(format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4000\r\n\r\n{body}").as_bytes())
        .await;
    let heard = served.hears().await;
    assert!(heard.starts_with("HTTP/1.1 200") && heard.ends_with("4000"), "{heard}");
}

#[tokio::test]
async fn a_door_can_ask_for_its_body_as_a_stream_longer_than_the_budget() {
    let mut served = served(Router::new().route("/", post(streamed)));
    served.sends(HEAD.as_bytes()).await;
    for _ in 0..100 {
        served.sends(format!("200\r\n{}\r\n", "x".repeat(512)).as_bytes()).await;
    }
    served.sends(b"0\r\n\r\n").await;
    let heard = served.hears().await;
    assert!(heard.starts_with("HTTP/1.1 200") && heard.ends_with("51200"), "{heard}");
}

#[tokio::test]
async fn a_body_that_takes_too_long_is_answered_408() {
    let mut served = served(Router::new().route("/", post(whole)));
    served.sends(HEAD.as_bytes()).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    served.timepiece.wind(Duration::from_secs(15));
    let heard = served.hears().await;
    assert!(heard.starts_with("HTTP/1.1 408") && heard.contains("too_slow"), "{heard}");
}

/// An answer of 100 KB for the agent of a tenant.
async fn large(Path((tenant, agent)): Path<(String, String)>, request: Request) -> Vec<u8> {
    RequestControl::proven(request.extensions(), &agent, Some(&tenant)).unwrap();
    vec![b'x'; 100_000]
}

/// Connections to a server that may hold 800 KB of answers, so 200 KB of one credential.
struct LargeAnswerServer {
    mounts: Router,
    unsent: ByteBudget,
}

impl LargeAnswerServer {
    fn open() -> Self {
        let mounts = Router::new().route("/{tenant}/{agent}", get(large).post(large));
        Self { mounts, unsent: ByteBudget::new(800_000) }
    }

    /// Asks on a connection of its own and reads the head of the answer only.
    async fn asked(&self, agent: &str) -> (Served, String) {
        let mut served = served_within(self.mounts.clone(), self.unsent.clone());
        served.sends(format!("GET /{agent} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await;
        let heard = served.hears().await;
        (served, heard)
    }
}

#[tokio::test]
async fn answers_that_a_credential_does_not_read_are_bounded_and_come_back_when_it_reads_them() {
    let server = LargeAnswerServer::open();
    let (mut first, heard) = server.asked("acme/crow").await;
    assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
    let (second, heard) = server.asked("acme/crow").await;
    assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
    let (_third, heard) = server.asked("acme/crow").await;
    assert!(heard.starts_with("HTTP/1.1 429") && heard.contains("too_many_unsent_answers"), "{heard}");
    assert!(heard.contains("retry-after: 1") && heard.contains("application/problem+json"), "{heard}");
    // Who reads to the end, or goes away, holds nothing any more.
    drop(second);
    let mut rest = vec![0; 96_000];
    first.peer.read_exact(&mut rest).await.unwrap();
    first.sends(b"GET /acme/crow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    while !first.hears().await.contains("HTTP/1.1 200") {}
}

#[tokio::test]
async fn a_refused_answer_says_when_to_repeat_only_a_request_that_changed_nothing() {
    let server = LargeAnswerServer::open();
    let _held = [server.asked("acme/crow").await, server.asked("acme/crow").await];
    let mut posting = served_within(server.mounts.clone(), server.unsent.clone());
    posting.sends(b"POST /acme/crow HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\n").await;
    let heard = posting.hears().await;
    assert!(heard.starts_with("HTTP/1.1 429") && !heard.contains("retry-after"), "{heard}");
    assert!(heard.contains("connection: close"), "its body would be read as the next request: {heard}");
}

#[tokio::test]
async fn an_answer_that_never_fits_is_told_as_that() {
    let server = LargeAnswerServer { unsent: ByteBudget::new(300_000), ..LargeAnswerServer::open() };
    let (_connection, heard) = server.asked("acme/crow").await;
    assert!(heard.starts_with("HTTP/1.1 500") && heard.contains("answer_too_large"), "{heard}");
}

#[tokio::test]
async fn a_tenant_whose_clients_do_not_read_leaves_room_for_the_answers_of_another() {
    let server = LargeAnswerServer::open();
    let (mut held, mut refused) = (Vec::new(), 0);
    for agent in 0..12 {
        let (connection, heard) = server.asked(&format!("acme/{agent}")).await;
        refused += usize::from(heard.starts_with("HTTP/1.1 429"));
        held.push(connection);
    }
    assert_eq!(refused, 8, "the only tenant gets half of the budget");
    let (_zen, heard) = server.asked("zen/heron").await;
    assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
}
