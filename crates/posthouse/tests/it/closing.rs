//! Graceful shutdown while messages and requests are in progress.

use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use futures_util::{SinkExt, StreamExt};
use posthouse_wire::{GatewayId, Secret, token};
use serde_json::{Value, json};
use stand_ins::telegram::{Fault, FaultKind};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::talk::{PATIENCE, make_bot, says, telegram};
use crate::test_server::{BINARY, TestServer};

/// A socket as the server has it, with no agent behind it that would tidy up.
struct AgentSocket(WebSocketStream<TcpStream>);

impl AgentSocket {
    async fn dial(server: &TestServer, agent: &Value) -> Self {
        let gateway = GatewayId::new(agent["gateway_id"].as_str().unwrap());
        let token = token::mint(&gateway, &Secret::new(agent["secret"].as_str().unwrap()), 0, 0);
        let address = server.url.trim_start_matches("http://");
        let mut request = format!("ws://{address}/relay").into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        let stream = TcpStream::connect(address).await.unwrap();
        let (socket, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
        let mut line = Self(socket);
        // One that says how much it takes is given it at once.
        let hello =
            json!({"type": "hello", "platform": "telegram", "botId": "7001", "client": "sdk", "window": 8});
        line.says(hello).await;
        assert_eq!(line.hears().await["type"], "descriptor");
        line
    }

    async fn says(&mut self, frame: Value) {
        self.0.send(Message::text(format!("{frame}\n"))).await.unwrap();
    }

    async fn next(&mut self) -> Message {
        let next = tokio::time::timeout(PATIENCE, self.0.next());
        next.await.expect("nothing was heard").expect("it ended without a word").unwrap()
    }

    /// The next frame; each comes in a message of its own here.
    async fn hears(&mut self) -> Value {
        loop {
            if let Message::Text(text) = self.next().await {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }

    /// The code it is closed with, whatever is said before.
    async fn close_code(mut self) -> u16 {
        loop {
            if let Message::Close(close) = self.next().await {
                return close.expect("it is closed without a code").code.into();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_told_to_stop_is_gone_in_time_though_a_platform_hangs_and_an_agent_owes_an_ack() {
    let telegram = telegram(&["7001:token@posty_bot"]).await;
    let mut server =
        TestServer::open(&[("POSTHOUSE_PLATFORMS__TELEGRAM__API_BASE_URL", &telegram.base_url())]);
    server.does(&["tenant", "create", "acme"]);
    make_bot(&server, "7001", "7001:token", &[]);
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme", "--bot", "telegram:7001"]);
    let mut line = AgentSocket::dial(&server, &heron).await;
    says(&telegram, 7001, 5, "are you there");
    let heard = line.hears().await;
    assert_eq!(heard["event"]["text"], "are you there");
    telegram.fault(Fault::new(FaultKind::Hang).on("sendMessage"));
    let action = json!({"op": "send", "chat_id": "5", "content": "one moment"});
    line.says(json!({"type": "outbound", "requestId": "r1", "action": action})).await;
    assert!(telegram.until(PATIENCE, |telegram| telegram.hanging() == 1).await);

    let stopping = tokio::task::spawn_blocking(move || (server.stop(), server));
    assert_eq!(line.close_code().await, 1012);
    let (clean, mut server) = stopping.await.unwrap();
    assert!(clean, "a clean stop exits 0");
    // It did not wait until the hanging action was given up.
    let left_behind = "the relay closed while actions were still running";
    assert!(server.log.lock().unwrap().contains(left_behind), "{}", server.log.lock().unwrap());

    // What was not acknowledged is still there.
    server.start();
    let again = AgentSocket::dial(&server, &heron).await.hears().await;
    assert_eq!((&again["event"]["text"], &again["bufferId"]), (&heard["event"]["text"], &heard["bufferId"]));
}

#[test]
fn a_serving_process_leaves_no_core_dump() {
    let server = TestServer::open(&[]);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    let words: Vec<&str> = core.split_whitespace().collect();
    assert_eq!(words[4..6], ["0", "0"], "{core}");
}

#[test]
fn other_processes_of_the_same_user_cannot_read_its_memory() {
    // Root reads everything, so root lets somebody else run the program, whom its path may be closed to.
    const SOMEBODY: u32 = 12_345;
    let binary = std::fs::File::open(BINARY).unwrap();
    let mut command = Command::new(format!("/proc/self/fd/{}", binary.as_raw_fd()));
    command.args(["stand-in", "telegram"]).stdout(Stdio::piped());
    let user = match rustix::process::geteuid().is_root() {
        true => {
            command.current_dir("/").uid(SOMEBODY).gid(SOMEBODY);
            SOMEBODY
        }
        false => rustix::process::geteuid().as_raw(),
    };
    let mut child = command.spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    let process = format!("/proc/{}", child.id());
    let owners = [&process, &format!("{process}/mem")].map(|path| std::fs::metadata(path).unwrap().uid());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ready.contains("http://"), "{ready}");
    assert_eq!(owners[0], user);
    assert_ne!(owners[1], user, "the kernel takes the memory of such a process away from its user");
}
