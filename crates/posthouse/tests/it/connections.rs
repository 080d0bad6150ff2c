//! Connection limits: how many there are, what they count against, and the answer beyond them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use posthouse_time::Timepiece;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};
use tokio::net::TcpSocket;

use crate::talk::{Rider, provide_crypto};
use crate::test_server::TestServer;

/// Far past anything but a hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// Idle connections of a test stay.
const PATIENT: (&str, &str) = ("POSTHOUSE_SERVER__HEADER_TIMEOUT", "10m");

fn connect(server: &TestServer) -> TcpStream {
    let stream = TcpStream::connect(server.url.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The answer to one request, up to the end of the connection; empty when it is closed without one.
fn asked(mut stream: TcpStream, path: &str, more: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{more}\r\n");
    let _ = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("{path} hangs"),
        _ => String::from_utf8_lossy(&answer).into_owned(),
    }
}

/// Polls a condition, and says what the server has open when it does not come true.
fn until(what: &str, server: &TestServer, condition: impl Fn() -> bool) {
    let clock = Timepiece::wall();
    let begun = clock.instant();
    while !condition() {
        if clock.instant().since(begun) > PATIENCE {
            let open = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
            let open: Vec<_> = open.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok()).collect();
            panic!("not within {PATIENCE:?}: {what}\n{open:?}\n{}", server.log.lock().unwrap());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

const UPGRADE: &str = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                       sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

#[test]
fn at_the_connection_limit_health_and_admin_answer_others_hear_503_and_a_relay_upgrade_1013() {
    let server = TestServer::open(&[("POSTHOUSE_SERVER__MAX_CONNECTIONS", "3"), PATIENT]);
    let held: Vec<TcpStream> = (0..3).map(|_| connect(&server)).collect();
    assert!(asked(connect(&server), "/healthz", "").starts_with("HTTP/1.1 200"));
    assert!(asked(connect(&server), "/readyz", "").starts_with("HTTP/1.1 200"));
    assert!(asked(connect(&server), "/admin/tenants", "").starts_with("HTTP/1.1 401"));
    server.does(&["tenant", "create", "acme"]);
    let refused = asked(connect(&server), "/v1/agents", "");
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("at_capacity"), "{refused}");
    assert!(refused.contains("retry-after: 5"), "{refused}");
    let mut socket = connect(&server);
    let dial = format!("GET /relay HTTP/1.1\r\nhost: localhost\r\n{UPGRADE}\r\n");
    socket.write_all(dial.as_bytes()).unwrap();
    let mut heard = Vec::new();
    // Text of the answer, then a close frame: 0x88, its length, the code 1013 and the reason.
    while !heard.windows(4).any(|bytes| bytes == b"\x88\x11\x03\xf5") {
        let mut piece = [0; 512];
        let length = socket.read(&mut piece).unwrap();
        assert!(length > 0, "{}", heard.escape_ascii());
        heard.extend_from_slice(&piece[..length]);
    }
    assert!(heard.starts_with(b"HTTP/1.1 101"), "{}", heard.escape_ascii());
    drop(held);
}

#[tokio::test]
async fn an_address_that_holds_its_share_before_authentication_leaves_room_for_others() {
    let server = TestServer::open(&[("POSTHOUSE_SERVER__MAX_CONNECTIONS_PER_ADDRESS", "3"), PATIENT]);
    let held: Vec<TcpStream> = (0..3).map(|_| connect(&server)).collect();
    let refused = asked(connect(&server), "/v1/agents", "");
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("at_capacity"), "{refused}");
    let elsewhere = TcpSocket::new_v4().unwrap();
    elsewhere.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let address = server.url.trim_start_matches("http://").parse().unwrap();
    let elsewhere = elsewhere.connect(address).await.unwrap().into_std().unwrap();
    elsewhere.set_nonblocking(false).unwrap();
    elsewhere.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(asked(elsewhere, "/v1/agents", "").starts_with("HTTP/1.1 401"));
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_polls_of_one_credential_shut_out_neither_health_nor_another_tenant() {
    provide_crypto();
    let server = TestServer::open(&[
        ("POSTHOUSE_SERVER__MAX_CONNECTIONS", "40"),
        ("POSTHOUSE_SERVER__MAX_CONNECTIONS_PER_PRINCIPAL", "4"),
    ]);
    let agent = |tenant: &str| {
        server.does(&["tenant", "create", tenant]);
        server.does(&["agent", "create", "heron", "--tenant", tenant])
    };
    let (acme, zen) = (agent("acme"), agent("zen"));
    let client = reqwest::Client::new();
    let ask = |agent: &Value, path: &str, body: Value| {
        let token = agent["access_token"].as_str().unwrap();
        client.post(format!("{}{path}", server.url)).bearer_auth(token).json(&body).send()
    };
    // Nobody answers, so each of them waits.
    let question = json!({ "agent": "heron", "message": "are you there?", "wait": 60, "timeout": 60 });
    let mut polls = tokio::task::JoinSet::new();
    for _ in 0..5 {
        polls.spawn(ask(&acme, "/v1/exchange", question.clone()));
    }
    let first = polls.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(first.status().as_u16(), 503);
    assert_eq!(first.json::<Value>().await.unwrap()["code"], "too_many_connections");
    assert!(asked(connect(&server), "/healthz", "").starts_with("HTTP/1.1 200"));
    let told = ask(&zen, "/v1/notify", json!({ "agent": "heron", "message": "hello" })).await.unwrap();
    assert_eq!(told.status().as_u16(), 200);
    assert_eq!(polls.len(), 4, "the others still wait");
}

#[test]
fn a_socket_that_sends_and_never_reads_is_ended() {
    let server = TestServer::open(&[("POSTHOUSE_SERVER__WRITE_TIMEOUT", "1s")]);
    let mut stream = connect(&server);
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let requests = "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(100);
    let ended = loop {
        if let Err(error) = stream.write_all(requests.as_bytes()) {
            break error;
        }
    };
    assert_ne!(ended.kind(), std::io::ErrorKind::WouldBlock, "it is held for ever");
}

#[test]
fn the_open_file_limit_is_stated_and_at_the_limit_nothing_hangs() {
    let server = TestServer::open(&[PATIENT]);
    // An answer proves that the accept loop runs, so its spare files are among those counted below.
    assert!(asked(connect(&server), "/healthz", "").starts_with("HTTP/1.1 200"));
    // The log is read by a thread of its own, which may be behind the word that the server is ready.
    until("the log states the limit", &server, || server.log.lock().unwrap().contains("open_files="));
    let pid = Pid::from_raw(server.pid().try_into().unwrap()).unwrap();
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count();
    // Room for connections, and for files that the server itself opens meanwhile.
    let room = 64;
    let limit = Some((open + room) as u64);
    prlimit(Some(pid), Resource::Nofile, Rlimit { current: limit, maximum: limit }).unwrap();
    let mut held: Vec<TcpStream> = (0..2 * room).map(|_| connect(&server)).collect();
    // Those for whom no file was left are closed; whoever got one waits for us to speak.
    let mut closed = 0;
    for stream in held.drain(room..).rev() {
        let answer = asked(stream, "/healthz", "");
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 200"), "{answer}");
        closed += usize::from(answer.is_empty());
    }
    assert!(closed > 0, "the limit was never reached");
    drop(held);
    until("a connection is served again", &server, || {
        asked(connect(&server), "/healthz", "").starts_with("HTTP/1.1 200")
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_of_an_agent_counts_against_the_agent_and_not_against_the_address() {
    provide_crypto();
    let server = TestServer::open(&[("POSTHOUSE_SERVER__MAX_CONNECTIONS_PER_ADDRESS", "2")]);
    server.does(&["tenant", "create", "acme"]);
    let mut riders = Vec::new();
    for name in ["heron", "otter", "robin", "finch"] {
        let agent = server.does(&["agent", "create", name, "--tenant", "acme"]);
        riders.push(Rider::dial(&server, &agent, &[("web", agent["instance_id"].as_str().unwrap())]).await);
    }
    assert!(asked(connect(&server), "/v1/agents", "").starts_with("HTTP/1.1 401"));
}
