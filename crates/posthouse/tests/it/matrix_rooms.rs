//! Matrix with the real binary: conversations as an application service and as an ordinary user, two bots and two rooms
//! of one bot that never meet, and what stays secret.

use posthouse_agent::RelayTransport;
use serde_json::{Value, json};
use stand_ins::harness::RowFilter;
use stand_ins::matrix::{MatrixStandIn, Settings};

use crate::talk::{PATIENCE, Rider, provide_crypto};
use crate::test_server::{TestServer, files};

const POSTY: &str = "@posty:hs.test";
const OTTER: &str = "@otter:hs.test";
const ANA: &str = "@ana:hs.test";

/// A homeserver with an application service and an ordinary user.
async fn homeserver() -> MatrixStandIn {
    provide_crypto();
    let accounts = vec![
        format!("{POSTY}=CANARY-as-token=CANARY-hs-token").parse().unwrap(),
        format!("{OTTER}=CANARY-user-token").parse().unwrap(),
    ];
    MatrixStandIn::start(Settings { accounts, ..Settings::default() }).await.unwrap()
}

fn open(stand_in: &MatrixStandIn) -> TestServer {
    TestServer::open(&[
        ("POSTHOUSE_PLATFORMS__MATRIX__API_BASE_URL", &stand_in.base_url()),
        ("POSTHOUSE_LOG__LEVEL", "trace"),
    ])
}

/// The bot of the application service, with its address in the registration file.
fn make_service(server: &TestServer, stand_in: &MatrixStandIn, more: &[&str]) -> Value {
    let token = server.secret_file("matrix-as", "CANARY-as-token");
    let secret = server.secret_file("matrix-hs", "CANARY-hs-token");
    let words = ["bot", "create", "matrix", "--open", "--token-file", &token, "--hs-token-file", &secret];
    let made = server.does(&[&words[..], more].concat());
    assert_eq!((&made["delivery"], &made["id"]), (&json!("webhook"), &json!("posty.hs.test")));
    stand_in.set_url(POSTY, Some(format!("{}/door/matrix/posty.hs.test", server.url)));
    made
}

fn make_user(server: &TestServer) -> Value {
    let token = server.secret_file("matrix-user", "CANARY-user-token");
    let made = server.does(&["bot", "create", "matrix", "--open", "--token-file", &token]);
    assert_eq!((&made["delivery"], &made["id"]), (&json!("polling"), &json!("otter.hs.test")));
    made
}

fn does(stand_in: &MatrixStandIn, what: Value) -> Value {
    stand_in.inject(serde_json::from_value(what).unwrap()).unwrap()
}

/// Ana makes a room and invites a bot, which joins.
async fn invites(stand_in: &MatrixStandIn, room: &str, user: &str) {
    does(stand_in, json!({ "do": "room", "room": room, "members": [ANA] }));
    does(stand_in, json!({ "do": "invite", "room": room, "user": user }));
    let joined = RowFilter::kind("joined").in_chat(room);
    assert!(stand_in.wait(&joined, 1, PATIENCE).await.is_ok(), "{user} has not joined {room}");
}

fn says(stand_in: &MatrixStandIn, room: &str, text: &str) {
    does(stand_in, json!({ "do": "message", "room": room, "text": text }));
}

fn sent(stand_in: &MatrixStandIn, room: &str) -> Vec<String> {
    stand_in.transcript(&RowFilter::sent(room)).into_iter().filter_map(|row| row.text).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn people_talk_with_agents_as_an_application_service_and_as_a_user_who_never_meet() {
    let homeserver = homeserver().await;
    let server = open(&homeserver);
    make_service(&server, &homeserver, &[]);
    make_user(&server);
    let mut riders = Vec::new();
    for (tenant, agent, bot) in [("acme", "heron", "posty.hs.test"), ("umbrella", "otter", "otter.hs.test")] {
        server.does(&["tenant", "create", tenant]);
        let words = ["agent", "create", agent, "--tenant", tenant, "--bot", &format!("matrix:{bot}")];
        let made = server.does(&words);
        riders.push(Rider::dial(&server, &made, &[("matrix", bot)]).await);
    }
    let [heron, otter] = &mut riders[..] else { panic!("two riders") };
    invites(&homeserver, "!service", POSTY).await;
    invites(&homeserver, "!user", OTTER).await;
    says(&homeserver, "!service", "olá 🎈");
    let heard = heron.hears().await.event;
    assert_eq!((heard.text.as_str(), &*heard.source.chat_type), ("olá 🎈", "dm"));
    assert!(heron.sends("matrix", "posty.hs.test", "!service", "**olá**").await.success);
    assert_eq!(sent(&homeserver, "!service"), ["**olá**"]);
    does(
        &homeserver,
        json!({ "do": "media", "room": "!service", "msgtype": "m.image", "mime_type": "image/png",
            "base64": "aGk=", "filename": "cat.png", "caption": "look" }),
    );
    let heard = heron.hears().await.event;
    assert_eq!((heard.text.as_str(), heard.media_urls.len()), ("look", 1));
    let file = reqwest::get(&heard.media_urls[0]).await.unwrap();
    assert_eq!(file.bytes().await.unwrap(), &b"hi"[..]);
    says(&homeserver, "!user", "for otter");
    assert_eq!(otter.hears().await.event.text, "for otter", "and nothing before it");
    assert!(otter.sends("matrix", "otter.hs.test", "!user", "from otter").await.success);
    // Neither bot's agent can write with the other bot, nor with its own into the other's room.
    assert!(!otter.sends("matrix", "posty.hs.test", "!service", "psst").await.success);
    assert!(!otter.sends("matrix", "otter.hs.test", "!service", "psst").await.success);
    assert_eq!((sent(&homeserver, "!service").len(), sent(&homeserver, "!user").len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_rooms_of_one_shared_bot_never_meet() {
    let homeserver = homeserver().await;
    let server = open(&homeserver);
    make_service(&server, &homeserver, &["--shared"]);
    let mut riders = Vec::new();
    for (tenant, agent, room) in [("acme", "heron", "!one"), ("umbrella", "otter", "!two")] {
        server.does(&["tenant", "create", tenant]);
        let made = server.does(&["agent", "create", agent, "--tenant", tenant]);
        server.does(&["bot", "change", "matrix:posty.hs.test", "--tenant", tenant]);
        let bot = "matrix:posty.hs.test";
        server.does(&["agent", "change", agent, "--tenant", tenant, "--use-bot", bot]);
        server.does(&["route", "create", bot, &format!("chat:{room}"), agent, "--tenant", tenant]);
        riders.push(Rider::dial(&server, &made, &[("matrix", "posty.hs.test")]).await);
        invites(&homeserver, room, POSTY).await;
    }
    let [heron, otter] = &mut riders[..] else { panic!("two riders") };
    says(&homeserver, "!one", "for heron");
    says(&homeserver, "!two", "for otter");
    assert_eq!(heron.hears().await.event.text, "for heron");
    assert_eq!(otter.hears().await.event.text, "for otter", "and nothing before it");
    assert!(!otter.sends("matrix", "posty.hs.test", "!one", "psst").await.success);
    assert!(otter.sends("matrix", "posty.hs.test", "!two", "from otter").await.success);
    assert_eq!((sent(&homeserver, "!one").len(), sent(&homeserver, "!two").len()), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_of_matrix_is_in_any_frame_log_trace_or_file() {
    let homeserver = homeserver().await;
    let mut server = open(&homeserver);
    server.does(&["tenant", "create", "acme"]);
    let mut answers = vec![make_service(&server, &homeserver, &[]).to_string()];
    let heron =
        server.does(&["agent", "create", "heron", "--tenant", "acme", "--bot", "matrix:posty.hs.test"]);
    let mut rider = Rider::dial(&server, &heron, &[("matrix", "posty.hs.test")]).await;
    invites(&homeserver, "!room", POSTY).await;
    does(
        &homeserver,
        json!({ "do": "media", "room": "!room", "msgtype": "m.file", "mime_type": "text/plain", "base64": "aGk=",
            "filename": "notes.txt" }),
    );
    let heard = rider.hears().await;
    answers.push(format!("{:?}", heard.event));
    answers.push(format!("{:?}", rider.sends("matrix", "posty.hs.test", "!elsewhere", "nobody").await));
    let entry = heard.entry.unwrap().to_string();
    for words in
        [&["message", "trace", &entry][..], &["bot", "show", "matrix:posty.hs.test"], &["bot", "list"]]
    {
        answers.push(format!("{:?}", server.tries(words)));
    }
    rider.transport.disconnect().await;
    assert!(server.stop(), "a clean stop exits 0");
    let log = server.log.lock().unwrap().clone();
    assert!(log.contains("matrix"), "the log was meant to be talkative");
    const CANARY: &str = "CANARY";
    assert!(!log.contains(CANARY), "in the log: {:?}", log.lines().find(|line| line.contains(CANARY)));
    // The address of a file at the homeserver stays inside the server.
    for word in [CANARY, "mxc://"] {
        assert!(!answers.iter().any(|answer| answer.contains(word)), "{answers:?}");
    }
    for (path, bytes) in files(&server.folder()) {
        let holds = bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes());
        assert!(!holds, "in {}", path.display());
    }
}
