//! `posthouse mcp --stdio` as a client starts it, in both framings.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::ToolClient;
use crate::test_server::{BINARY, TestServer};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Framed {
    Lines,
    Headers,
}

struct StartedCommand {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    framed: Framed,
}

/// Starts the command with the credential of a client.
pub fn start_stdio(url: &str, id: &str, secret: &str) -> Child {
    Command::new(BINARY)
        .args(["mcp", "--stdio"])
        .env("POSTHOUSE_URL", url)
        .env("POSTHOUSE_CLIENT_ID", id)
        .env("POSTHOUSE_CLIENT_SECRET", secret)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

impl StartedCommand {
    fn start(url: &str, id: &str, secret: &str, framed: Framed) -> Self {
        let mut child = start_stdio(url, id, secret);
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output, framed }
    }

    fn send(&mut self, message: &Value) {
        let text = message.to_string();
        let input = self.input.as_mut().unwrap();
        match self.framed {
            Framed::Lines => writeln!(input, "{text}").unwrap(),
            Framed::Headers => write!(input, "Content-Length: {}\r\n\r\n{text}", text.len()).unwrap(),
        }
        input.flush().unwrap();
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        if self.framed == Framed::Lines {
            return serde_json::from_str(&line).unwrap();
        }
        let length: usize = line.trim().strip_prefix("Content-Length: ").unwrap().parse().unwrap();
        self.output.read_line(&mut line).unwrap();
        let mut message = vec![0; length];
        self.output.read_exact(&mut message).unwrap();
        serde_json::from_slice(&message).unwrap()
    }

    fn ask(&mut self, id: u32, method: &str, params: Value) -> Value {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        let heard = self.hear();
        assert_eq!(heard["id"], id, "{heard}");
        heard
    }

    /// Closes the input and waits for the end: whether it was a success, and what was said on the way.
    fn end(mut self) -> (bool, String) {
        drop(self.input.take());
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().success(), said)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_starts_the_command_calls_tools_in_both_framings_and_across_a_restart() {
    let mut server = TestServer::open(&[]);
    server.does(&["tenant", "create", "acme"]);
    server.does(&["agent", "create", "heron", "--tenant", "acme"]);
    let client = ToolClient::create(&server, &["--tenant", "acme"]);
    for framed in [Framed::Lines, Framed::Headers] {
        let mut command = StartedCommand::start(&client.url, &client.id, &client.secret, framed);
        // As the reference runtime begins: no notification after the handshake.
        let begun =
            command.ask(1, "initialize", json!({ "protocolVersion": "2024-11-05", "capabilities": {} }));
        assert_eq!(begun["result"]["protocolVersion"], "2024-11-05", "{begun}");
        let listed = command.ask(2, "tools/list", json!({}));
        assert!(listed["result"]["tools"].as_array().unwrap().len() > 8);
        let agents = command.ask(3, "tools/call", json!({ "name": "agent_list", "arguments": {} }));
        assert!(agents["result"]["content"][0]["text"].as_str().unwrap().contains("heron"), "{agents}");
        // The server forgets its sessions, and the client does not notice.
        server.kill();
        server.start();
        let agents = command.ask(4, "tools/call", json!({ "name": "agent_list", "arguments": {} }));
        assert!(agents["result"].is_object(), "{agents}");
        let failed =
            command.ask(5, "tools/call", json!({ "name": "skill_read", "arguments": { "name": "ghost" } }));
        assert_eq!(failed["error"]["message"], "Skill not found: 'ghost'");
        assert!(command.ask(6, "shutdown", json!({}))["result"].is_null());
        assert_eq!(command.end(), (true, String::new()), "{framed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_a_server_or_with_a_wrong_secret_hears_why() {
    let server = TestServer::open(&[]);
    server.does(&["tenant", "create", "acme"]);
    let client = ToolClient::create(&server, &["--tenant", "acme"]);
    for (url, secret, why) in [
        ("http://127.0.0.1:9", client.secret.as_str(), "cannot reach the server"),
        (client.url.as_str(), "guess", "rejects the secret of client"),
    ] {
        let mut command = StartedCommand::start(url, &client.id, secret, Framed::Lines);
        let refused = command.ask(1, "initialize", json!({}));
        assert!(refused["error"]["message"].as_str().unwrap().contains(why), "{refused}");
        let (is_success, said) = command.end();
        assert!(is_success && said.contains(why), "{said}");
    }
    let mut command = StartedCommand::start(&client.url, &client.id, &client.secret, Framed::Lines);
    command.input.as_mut().unwrap().write_all(b"{oops\n").unwrap();
    assert_eq!(command.hear()["error"]["code"], -32700);
    assert!(command.end().0);
}
