//! Bad input gets the documented answer, never a panic, never a lost message.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use posthouse_agent::RelayTransport;
use serde_json::json;

use crate::talk::{PATIENCE, Rider, make_bot, provide_crypto, says, telegram};
use crate::test_server::{BINARY, TestServer};

const SECRET: &str = "webhook_secret_of_7001";

/// A server with one agent that owns one bot, and the stand-in that bot is known at.
async fn with_bot(
    disk: Option<&std::path::Path>,
) -> (TestServer, stand_ins::telegram::TelegramStandIn, serde_json::Value) {
    let telegram = telegram(&["7001:token@posty_bot"]).await;
    let dir = tempfile::tempdir().unwrap();
    let folder = disk.unwrap_or(dir.path()).join("house");
    let server = TestServer::open_at(
        dir,
        folder,
        &[("POSTHOUSE_PLATFORMS__TELEGRAM__API_BASE_URL", &telegram.base_url())],
    );
    let secret = server.secret_file("secret", SECRET);
    server.does(&["tenant", "create", "acme"]);
    make_bot(&server, "7001", "7001:token", &["--mode", "webhook", "--webhook-secret-file", &secret]);
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme", "--bot", "telegram:7001"]);
    (server, telegram, heron)
}

fn update(id: u64) -> String {
    json!({"update_id": id, "message": {"message_id": id, "date": 1, "text": format!("m{id}"),
        "chat": {"id": 5, "type": "private", "first_name": "Ana"}, "from": {"id": 5, "is_bot": false, "first_name": "Ana"}}})
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_that_are_not_the_platforms_are_refused_without_a_word() {
    let (server, _telegram, heron) = with_bot(None).await;
    let door = format!("{}/door/telegram/7001", server.url);
    let client = reqwest::Client::new();
    let post = |url: String, secret: &'static str, body: Vec<u8>| {
        let request = client.post(url).header("x-telegram-bot-api-secret-token", secret).body(body);
        async move {
            let answer = request.send().await.unwrap();
            (answer.status().as_u16(), answer.text().await.unwrap())
        }
    };
    let refused = |status: u16| (status, String::new());
    assert_eq!(post(door.clone(), "forged", update(1).into()).await, refused(401));
    assert_eq!(post(door.clone(), SECRET, b"\xff\xfe garbage".to_vec()).await, refused(400));
    // Whoever is not verified does not learn which bots exist.
    let unknown = format!("{}/door/telegram/7002", server.url);
    assert_eq!(post(unknown.clone(), SECRET, update(1).into()).await, refused(401));
    for (method, rest) in [("GET", ""), ("PUT", ""), ("POST", ""), ("POST", "/x"), ("GET", "/x")] {
        let ask = async |door: &str| {
            let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
            let answer = client.request(method, format!("{door}{rest}")).body("x").send().await.unwrap();
            (answer.status(), answer.text().await.unwrap())
        };
        assert_eq!(ask(&door).await, ask(&unknown).await, "{method} {rest}");
    }
    assert_eq!(
        post(format!("{}/door/nonsense/7001", server.url), SECRET, update(1).into()).await,
        refused(404)
    );
    assert_eq!(post(door.clone(), SECRET, vec![b'x'; 2 * 1024 * 1024]).await.0, 413);
    assert_eq!(client.get(&door).send().await.unwrap().status().as_u16(), 405);
    // None of it reached the agent; the first good one does.
    assert_eq!(post(door, SECRET, update(2).into()).await, refused(200));
    let mut rider = Rider::dial(&server, &heron, &[("telegram", "7001")]).await;
    assert_eq!(rider.hears().await.event.text, "m2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_of_an_update_names_the_first_entry_and_is_no_second_turn() {
    let (server, _telegram, heron) = with_bot(None).await;
    let client = reqwest::Client::new();
    let mut named = Vec::new();
    for id in [7, 7, 8] {
        let answer = client
            .post(format!("{}/door/telegram/7001", server.url))
            .header("x-telegram-bot-api-secret-token", SECRET)
            .body(update(id))
            .send()
            .await
            .unwrap();
        named.push(answer.headers()["posthouse-id"].to_str().unwrap().to_owned());
    }
    assert_eq!(named[0], named[1]);
    assert_ne!(named[0], named[2]);
    let mut rider = Rider::dial(&server, &heron, &[("telegram", "7001")]).await;
    assert_eq!(
        (rider.hears().await.event.text, rider.hears().await.event.text),
        ("m7".to_owned(), "m8".to_owned())
    );
}

#[test]
fn a_peer_that_sends_a_byte_a_second_is_cut_off() {
    provide_crypto();
    let server = TestServer::open(&[
        ("POSTHOUSE_SERVER__HEADER_TIMEOUT", "3s"),
        ("POSTHOUSE_SERVER__BODY_TIMEOUT", "3s"),
    ]);
    let address = server.url.trim_start_matches("http://").to_owned();
    let read_all = |mut stream: TcpStream| {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = String::new();
        let ended = match stream.read_to_string(&mut answer) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        };
        (answer, ended)
    };
    // Nothing at all, half a preface and a whole one of HTTP/2, half a request.
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    for beginning in [b"".as_slice(), b"PRI * HT", preface, b"GET /healthz HTTP/1.1\r\nHost: loc"] {
        let mut slow = TcpStream::connect(&address).unwrap();
        slow.write_all(beginning).unwrap();
        let (answer, ended) = read_all(slow);
        assert!(ended, "{} keeps its place", beginning.escape_ascii());
        assert!(!answer.contains("200 OK"), "{answer}");
    }
    let mut slow_body = TcpStream::connect(&address).unwrap();
    slow_body
        .write_all(b"POST /oauth/token HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\ng")
        .unwrap();
    let (answer, _) = read_all(slow_body);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}

/// Whether there is room for one more connection, which then ends.
fn has_room(address: &str) -> bool {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /v1/agents HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.starts_with("HTTP/1.1 401")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agents_socket_is_a_connection_for_as_long_as_it_lives() {
    provide_crypto();
    let server = TestServer::open(&[("POSTHOUSE_SERVER__MAX_CONNECTIONS", "3")]);
    let address = server.url.trim_start_matches("http://").to_owned();
    server.does(&["tenant", "create", "acme"]);
    let agents =
        ["heron", "otter", "robin"].map(|name| server.does(&["agent", "create", name, "--tenant", "acme"]));
    let mut connections = Vec::new();
    for agent in &agents {
        connections
            .push(Rider::dial(&server, agent, &[("web", agent["instance_id"].as_str().unwrap())]).await);
    }
    assert!(!has_room(&address));
    connections.pop().unwrap().transport.disconnect().await;
    let freed = async {
        while !has_room(&address) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, freed).await.expect("a place that was left stays taken");
}

#[tokio::test]
async fn under_serve_the_chat_page_is_off_unless_a_setting_of_its_own_turns_it_on() {
    provide_crypto();
    let status = async |url: String| reqwest::get(url).await.unwrap().status().as_u16();
    let off = TestServer::open(&[]);
    assert_eq!(status(format!("{}/chat", off.url)).await, 404);
    let front = reqwest::get(&off.url).await.unwrap().text().await.unwrap();
    assert!(front.contains("platforms.web.page"), "{front}");
    assert_eq!(status(format!("{}/chat/api/agents", off.url)).await, 404);
    // The platform is there all the same.
    off.does(&["tenant", "create", "acme"]);
    let heron = off.does(&["agent", "create", "heron", "--tenant", "acme"]);
    Rider::dial(&off, &heron, &[("web", heron["instance_id"].as_str().unwrap())]).await;
    let refused = off.tries(&["invite", "create", "ann", "--tenant", "acme"]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && words.contains("platforms.web.page"), "{words}");

    let on = TestServer::open(&[("POSTHOUSE_PLATFORMS__WEB__PAGE", "true")]);
    assert_eq!(status(format!("{}/chat", on.url)).await, 200);
    let front = reqwest::get(&on.url).await.unwrap();
    assert_eq!((front.status().as_u16(), front.url().path()), (200, "/chat"));
    assert_eq!(status(format!("{}/chat/api/agents", on.url)).await, 401);
}

#[tokio::test]
async fn a_local_process_neither_reads_a_conversation_nor_makes_an_agent_uninvited() {
    provide_crypto();
    let server = TestServer::open(&[("POSTHOUSE_PLATFORMS__WEB__PAGE", "true")]);
    let client = reqwest::Client::new();
    let api = format!("{}/chat/api", server.url);
    let make = |cookie: &str| {
        let name = json!({"name": "mine"});
        client
            .post(format!("{api}/agents"))
            .header("origin", &server.url)
            .header("cookie", cookie)
            .json(&name)
    };
    assert_eq!(make("a=b").send().await.unwrap().status().as_u16(), 401);
    server.does(&["tenant", "create", "acme"]);
    let link = server.does(&["invite", "create", "ann", "--tenant", "acme", "--owner"]);
    let (_, secret) = link["url"].as_str().unwrap().split_once("#invite=").unwrap();
    let spend = client.post(format!("{api}/session")).header("origin", &server.url);
    let spent = spend.json(&json!({ "secret": secret })).send().await.unwrap();
    assert_eq!(spent.status().as_u16(), 200);
    let cookie = spent.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    assert_eq!(make(&cookie).send().await.unwrap().status().as_u16(), 201);
    let audit = server.does(&["audit", "list"]).to_string();
    assert!(audit.contains("POST /chat/api/agents") && audit.contains("ann"), "{audit}");
    server.does(&["invite", "remove", "ann"]);
    assert_eq!(make(&cookie).send().await.unwrap().status().as_u16(), 401);
}

#[test]
fn address_already_in_use_names_listen_and_leaves_no_half_made_folder() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("data");
    let up =
        Command::new(BINARY).arg("--dir").arg(&folder).args(["up", "--listen", &address]).output().unwrap();
    let words = String::from_utf8_lossy(&up.stderr).into_owned();
    assert!(!up.status.success() && words.contains("in use") && words.contains("--listen"), "{words}");
    assert!(!folder.exists(), "{:?}", std::fs::read_dir(&folder).map(Iterator::count));

    assert!(Command::new(BINARY).arg("init").arg(&folder).output().unwrap().status.success());
    let serve = Command::new(BINARY).arg("--dir").arg(&folder).args(["serve", "--listen", &address]).output();
    let serve = serve.unwrap();
    let words = String::from_utf8_lossy(&serve.stderr).into_owned();
    assert!(!serve.status.success() && words.contains("in use") && words.contains("--listen"), "{words}");
    assert!(folder.join("posthouse.toml").exists(), "a folder that was there stays");
}

#[test]
fn removing_an_agent_with_waiting_mail_asks_or_wants_yes() {
    let server = TestServer::open(&[]);
    server.does(&["tenant", "create", "acme"]);
    server.does(&["agent", "create", "heron", "--tenant", "acme"]);
    server.does(&["notify", "heron", "hello", "--tenant", "acme"]);
    let asked = server.tries(&["agent", "remove", "heron", "--tenant", "acme"]);
    let words = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert!(
        !asked.status.success() && words.contains("1 message waits") && words.contains("--yes"),
        "{words}"
    );
    server.does(&["agent", "show", "heron", "--tenant", "acme"]);
    server.does(&["agent", "remove", "heron", "--tenant", "acme", "--yes"]);
    // Nothing waits for this one.
    server.does(&["agent", "create", "otter", "--tenant", "acme"]);
    server.does(&["agent", "remove", "otter", "--tenant", "acme"]);
}

fn serve(server: &TestServer) -> (Option<i32>, String) {
    let output = Command::new(BINARY)
        .args(["serve", "--config"])
        .arg(server.folder().join("posthouse.toml"))
        .env("POSTHOUSE_SERVER__LISTEN", "127.0.0.1:0")
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_typo_in_the_configuration_is_named_with_file_line_and_nearest_key() {
    let mut server = TestServer::open(&[]);
    server.stop();
    std::fs::write(server.folder().join("posthouse.toml"), "[relay]\n# a comment\nack_leese = \"3s\"\n")
        .unwrap();
    let (code, words) = serve(&server);
    assert_eq!(code, Some(1));
    for expected in ["posthouse.toml", "3", "ack_leese", "ack_lease"] {
        assert!(words.contains(expected), "{expected} not in: {words}");
    }
}

#[test]
fn a_folder_in_use_by_another_server_is_refused() {
    let server = TestServer::open(&[]);
    let (code, words) = serve(&server);
    assert_eq!(code, Some(1));
    assert!(words.contains("in use by another server"), "{words}");
}

#[test]
fn a_folder_of_a_newer_version_is_refused_in_words() {
    let mut server = TestServer::open(&[]);
    server.stop();
    let file = server.folder().join("ledger.db");
    let mut bytes = std::fs::read(&file).unwrap();
    // The schema's number in SQLite's file header.
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    std::fs::write(&file, bytes).unwrap();
    let (code, words) = serve(&server);
    assert_eq!(code, Some(1));
    assert!(words.contains("schema 99"), "{words}");
}

#[test]
fn a_wrong_vault_key_is_refused_before_the_first_message() {
    let mut server = TestServer::open(&[]);
    server.stop();
    let other = TestServer::open(&[]);
    std::fs::copy(other.folder().join("vault.key"), server.folder().join("vault.key")).unwrap();
    let (code, words) = serve(&server);
    assert_eq!(code, Some(1));
    assert!(words.contains("vault key does not fit"), "{words}");
}

/// A small disk of its own, gone with the test.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    /// Nothing where mounting is not allowed; the ledger's own tests fill a file's page limit instead.
    fn mount(at: &std::path::Path) -> Option<Self> {
        std::fs::create_dir_all(at).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=12m", "tmpfs"]).arg(at).status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_acknowledges_nothing_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&dir.path().join("disk")) else {
        println!("no small disk can be mounted here: the ledger's page-limit test stands for this one");
        return;
    };
    let (mut server, telegram, heron) = with_bot(Some(&disk.0)).await;
    // Everything else on that disk is taken, the way a log file takes it.
    let ballast = disk.0.join("ballast");
    let mut file = std::fs::File::create(&ballast).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    drop(file);
    for number in 0..40 {
        says(&telegram, 7001, 5, &format!("{number} {}", "x".repeat(3_000)));
    }
    let is_refused = |telegram: &stand_ins::telegram::TelegramStandIn| {
        telegram.deliveries(Some(7001)).attempts.iter().any(|attempt| attempt.status == Some(503))
    };
    assert!(telegram.until(PATIENCE, is_refused).await, "a full disk was meant to be told to the platform");
    std::fs::remove_file(&ballast).unwrap();
    assert!(telegram.until(PATIENCE, |telegram| telegram.deliveries(Some(7001)).pending == 0).await);
    let mut rider = Rider::dial(&server, &heron, &[("telegram", "7001")]).await;
    for number in 0..40 {
        let text = rider.hears().await.event.text;
        assert_eq!(text.split(' ').next(), Some(number.to_string().as_str()));
    }
    drop(rider);
    assert!(server.stop());
}

#[test]
fn a_refused_dial_is_told_in_the_same_breath_as_its_upgrade() {
    let server = TestServer::open(&[]);
    let address = server.url.trim_start_matches("http://").to_owned();
    for _ in 0..10 {
        let mut dial = TcpStream::connect(&address).unwrap();
        dial.set_read_timeout(Some(PATIENCE)).unwrap();
        dial.write_all(
            b"GET /relay HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
        )
        .unwrap();
        let mut first = [0; 1024];
        let heard = dial.read(&mut first).unwrap();
        let first = &first[..heard];
        assert!(first.starts_with(b"HTTP/1.1 101 "), "{}", first.escape_ascii());
        assert!(first.ends_with(b"\r\n\r\n\x88\x0e\x11\x31unauthorized"), "{}", first.escape_ascii());
    }
}
