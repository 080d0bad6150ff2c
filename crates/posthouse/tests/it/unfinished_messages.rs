//! Unfinished WebSocket messages: the limit of one agent over all its sockets.

use futures_util::{SinkExt, StreamExt};
use posthouse_time::Timepiece;
use posthouse_wire::{GatewayId, Secret, token};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use crate::talk::{PATIENCE, provide_crypto};
use crate::test_server::TestServer;

const MEBIBYTE: usize = 1 << 20;

async fn dial(server: &TestServer, agent: &Value) -> WebSocketStream<TcpStream> {
    let gateway = GatewayId::new(agent["gateway_id"].as_str().unwrap());
    let secret = Secret::new(agent["secret"].as_str().unwrap());
    let token = token::mint(&gateway, &secret, 300, Timepiece::wall().now().seconds());
    let address = server.url.trim_start_matches("http://");
    let mut request = format!("ws://{address}/relay").into_client_request().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    let stream = TcpStream::connect(address).await.unwrap();
    let mut socket = tokio_tungstenite::client_async(request, stream).await.unwrap().0;
    // Without a hello it would be closed after a while.
    let hello = json!({"type": "hello", "platform": "web", "botId": agent["instance_id"]});
    socket.send(Message::text(format!("{hello}\n"))).await.unwrap();
    socket
}

/// Sends so many parts of a message that does not end, with a ping after each. Says how many of the pings were answered
/// before the socket ended.
async fn parts_taken(socket: &mut WebSocketStream<TcpStream>, parts: usize) -> usize {
    for part in 0..parts {
        let code = if part == 0 { Data::Text } else { Data::Continue };
        let frame = Frame::message(vec![b' '; MEBIBYTE], OpCode::Data(code), false);
        let sent = async {
            socket.send(Message::Frame(frame)).await?;
            socket.send(Message::Ping(vec![b'p'; 4].into())).await
        };
        if sent.await.is_err() {
            return part;
        }
        loop {
            match tokio::time::timeout(PATIENCE, socket.next()).await.expect("neither an answer nor an end") {
                Some(Ok(Message::Pong(_))) => break,
                Some(Ok(Message::Close(_)) | Err(_)) | None => return part,
                Some(Ok(_)) => {}
            }
        }
    }
    parts
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_messages_of_one_agent_are_bounded_over_its_sockets_whatever_comes_between_their_parts() {
    provide_crypto();
    let server = TestServer::open(&[]);
    let agent = |tenant: &str| {
        server.does(&["tenant", "create", tenant]);
        server.does(&["agent", "create", "heron", "--tenant", tenant])
    };
    let (acme, zen) = (agent("acme"), agent("zen"));
    let mut sockets = Vec::new();
    for taken in [5, 5, 1] {
        let mut socket = dial(&server, &acme).await;
        assert_eq!(parts_taken(&mut socket, 5).await, taken);
        sockets.push(socket);
    }
    let mut other = dial(&server, &zen).await;
    assert_eq!(parts_taken(&mut other, 5).await, 5);
    // What was held comes back with its socket.
    sockets.clear();
    while parts_taken(&mut dial(&server, &acme).await, 7).await < 7 {}
}
