//! Bad input to the HTTP operations of the relay: every body gets an answer in the form of the contract, nothing panics,
//! and nothing is changed by what is refused.

use posthouse_wire::Action;
use posthouse_wire::action::{MediaKind, Metadata};
use serde_json::{Value, json};

use crate::bad_input_post::fuzz::{spoil, tear};
use crate::crash::Dice;
use crate::cron::{Armer, ahead};
use crate::talk::{PATIENCE, Rider, make_bot, provide_crypto, says, telegram};
use crate::test_server::TestServer;
use crate::tokens::exchanges;

/// Bodies per operation.
const BODIES: usize = 300;

/// Hosts that are private, in every notation that a URL allows. The server under test may call 127.0.0.0/8 only.
const PRIVATE_HOSTS: &[&str] = &[
    "10.0.0.1",
    "10.1",
    "167772161",
    "0x0a000001",
    "012.0.0.1",
    "0xa.0.0.1",
    "%31%30.0.0.1",
    "１０.0.0.1",
    "192.168.1.1",
    "172.16.0.1",
    "169.254.169.254",
    "0xa9fea9fe",
    "100.64.0.1",
    "0.0.0.0",
    "0",
    "[::]",
    "[::ffff:10.0.0.1]",
    "[::ffff:a00:1]",
    "[64:ff9b::a00:1]",
    "[fe80::1]",
    "[fd00::1]",
    "user:secret@10.0.0.1",
];

/// The credential that an operation takes.
enum Credential {
    Access,
    Gateway,
}

/// A valid body of an operation, and what it is sent with; none for an operation that is missing here. A body that
/// would use something up names something that does not exist, so that every body can be sent many times.
fn good(path: &str) -> Option<(Credential, Value)> {
    Some(match path {
        "/relay/enroll" => {
            let token = format!("phe_{}", "0".repeat(64));
            (Credential::Access, json!({ "enrollmentToken": token, "gatewayId": "gw-laptop" }))
        }
        "/relay/policy" => (
            Credential::Gateway,
            json!({ "platform": "telegram", "requireAddress": true, "freeResponseScopes": ["-100", "7"],
                "allowOtherBots": false }),
        ),
        "/relay/provision" => (
            Credential::Access,
            json!({ "gatewayId": "gw-laptop", "platform": "web", "botId": "", "gatewayEndpoint": "",
                "routeKeys": ["-100"], "instanceId": "heron", "displayName": "Heron" }),
        ),
        "/manage/link" => (Credential::Gateway, json!({ "platform": "telegram" })),
        "/manage/unlink" | "/manage/dm-default" => {
            (Credential::Gateway, json!({ "platform": "telegram", "userId": "7" }))
        }
        "/manage/scope" | "/manage/scope/release" => {
            (Credential::Gateway, json!({ "platform": "telegram", "scopeId": "-100", "channelId": "-100" }))
        }
        "/manage/principal" => (
            Credential::Gateway,
            json!({ "platform": "telegram", "policy": "allow-list", "allow": ["7", "8"] }),
        ),
        _ => return None,
    })
}

/// Operations whose body is not JSON, and the one that ends its caller.
const OTHER_BODIES: [&str; 3] = ["/relay/media", "/relay/sleep", "/manage/deprovision"];

/// A file at this URL, for a person.
fn file(url: &str) -> Action {
    Action::SendMedia {
        chat_id: "5".into(),
        media_kind: MediaKind::Image,
        source_url: url.to_owned(),
        content: None,
        filename: None,
        reply_to: None,
        metadata: Metadata::default(),
    }
}

struct Doors {
    server: TestServer,
    heron: Value,
    access: String,
    gateway: String,
    client: reqwest::Client,
}

impl Doors {
    async fn open() -> Self {
        Self::open_with(&[]).await
    }

    async fn open_with(settings: &[(&str, &str)]) -> Self {
        provide_crypto();
        let server = TestServer::open(settings);
        server.does(&["tenant", "create", "acme"]);
        // The requests of a test all come at once.
        let limits = ["--requests-per-minute", "1000000", "--agent-requests-per-minute", "1000000"];
        let changed = server.does(&[["tenant", "change", "acme"].as_slice(), &limits].concat());
        assert_eq!(
            changed["limits"]["agent_requests_per_minute"],
            json!({ "limit": 1_000_000, "from": "tenant" })
        );
        let heron = server.does(&["agent", "create", "heron", "--tenant", "acme"]);
        let own = server.does(&["client", "create", "--tenant", "acme"]);
        let access = exchanges(&server, &own).await["access_token"].as_str().unwrap().to_owned();
        let gateway = crate::matrix::gateway_token(&heron);
        Self { server, heron, access, gateway, client: reqwest::Client::new() }
    }

    async fn posts(&self, path: &str, by: &Credential, body: Vec<u8>) -> (u16, String) {
        let token = match by {
            Credential::Access => &self.access,
            Credential::Gateway => &self.gateway,
        };
        let shown = body.escape_ascii().to_string();
        let request = self.client.post(format!("{}{path}", self.server.url)).bearer_auth(token).body(body);
        let answer = tokio::time::timeout(PATIENCE, request.send()).await;
        let answer = answer.unwrap_or_else(|_| panic!("no answer to {path} {shown}")).unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    fn agent(&self) -> Value {
        self.server.does(&["agent", "show", "heron", "--tenant", "acme"])
    }

    fn has_not_panicked(&self) {
        let log = self.server.log.lock().unwrap();
        assert_eq!(log.lines().find(|line| line.contains("panicked")), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_body_makes_the_relay_stumble() {
    let doors = Doors::open().await;
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let mut heard = std::collections::BTreeMap::<(&str, u16), usize>::new();
    for operation in relay::OPERATIONS.iter().filter(|operation| operation.method == "POST") {
        let path = operation.path;
        if OTHER_BODIES.contains(&path) {
            continue;
        }
        let Some((by, good)) = good(path) else {
            panic!(
                "POST {path} has no valid body: add the arm `\"{path}\" =>` to `good` in \
                 crates/posthouse/tests/it/bad_input_relay.rs"
            );
        };
        for number in 0..BODIES {
            let mut body = good.clone();
            for _ in 0..dice.below(4) {
                spoil(&mut body, &mut dice);
            }
            let bytes = match number % 3 {
                0 => tear(body.to_string(), &mut dice),
                _ => body.to_string().into_bytes(),
            };
            let shown = bytes.escape_ascii().to_string();
            let (status, answer) = doors.posts(path, &by, bytes).await;
            *heard.entry((path, status)).or_default() += 1;
            assert!(matches!(status, 200 | 400 | 403 | 404 | 409 | 413), "{path} {shown}: {status} {answer}");
            let read: Value = serde_json::from_str(&answer).unwrap_or_default();
            assert!(status == 200 || read["error"].is_string(), "{path} {shown}: {status} {answer}");
        }
        let far_too_long = vec![b' '; 2 * 1024 * 1024];
        assert_eq!(doors.posts(path, &by, far_too_long).await.0, 413, "{path}");
    }
    println!("{heard:?}");
    doors.has_not_panicked();
    // Policies within the limits are all that is left of it.
    let relevance = doors.agent()["relevance"].as_array().unwrap().clone();
    assert!((1..=32).contains(&relevance.len()), "{relevance:?}");
    // A gateway that provisions itself under another name makes an agent of its own tenant.
    let listed = doors.server.does(&["agent", "list"]);
    assert!(listed["items"].as_array().unwrap().iter().all(|agent| agent["tenant"] == "acme"), "{listed}");
    // It is as well as before.
    doors.server.does(&["agent", "change", "heron", "--tenant", "acme", "--clear-relevance"]);
    let (by, body) = good("/relay/policy").unwrap();
    let (status, answer) = doors.posts("/relay/policy", &by, body.to_string().into_bytes()).await;
    assert_eq!((status, answer.as_str()), (200, r#"{"ok":true}"#));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_address_is_refused_in_every_notation_wherever_a_url_is_named() {
    let telegram = telegram(&["7001:token@posty_bot"]).await;
    let doors =
        Doors::open_with(&[("POSTHOUSE_PLATFORMS__TELEGRAM__API_BASE_URL", &telegram.base_url())]).await;
    make_bot(&doors.server, "owned", "7001:token", &[]);
    doors.server.does(&["route", "create", "telegram:owned", "*", "heron", "--tenant", "acme"]);
    let mut rider = Rider::dial(&doors.server, &doors.heron, &[("telegram", "owned")]).await;
    // An agent may only send to a chat that it knows.
    says(&telegram, 7001, 5, "hello");
    rider.hears().await;
    let armer = Armer::new(&doors.server, &doors.heron, String::new()).await;
    let before = doors.agent();
    for host in PRIVATE_HOSTS {
        let url = format!("http://{host}/");
        for option in ["--wake-url", "--callback-url", "--stop-url"] {
            let words = ["agent", "change", "heron", "--tenant", "acme", option, &url];
            assert!(!doors.server.tries(&words).status.success(), "{option} {url}");
        }
        let words = ["enroll-token", "create", "--tenant", "acme", "--agent", "heron", "--wake-url", &url];
        assert!(!doors.server.tries(&words).status.success(), "enroll-token {url}");
        let (by, mut body) = good("/relay/provision").unwrap();
        body["wakeUrl"] = url.as_str().into();
        let (status, answer) = doors.posts("/relay/provision", &by, body.to_string().into_bytes()).await;
        assert!(status == 200 && answer.contains("wake URL: "), "{url}: {answer}");
        let sent = rider.asks("telegram", "owned", file(&url)).await;
        let error = sent.error.unwrap_or_default();
        assert!(!sent.success && error.contains("could not be downloaded"), "media {url}: {error}");
        let mut body = armer.provision("job", &ahead(std::time::Duration::from_secs(60))).body();
        body["agent_callback_url"] = url.as_str().into();
        let (status, answer) = armer.posts("provision", &body).await.unwrap();
        assert_eq!((status, &answer["error"]), (422, &json!("callback_not_allowed")), "{url}: {answer}");
    }
    let after = doors.agent();
    for name in ["wake_url", "callback_url", "stop_url"] {
        assert_eq!(after[name], before[name], "{name}");
    }
    let refused = &after["wake_failures"][0];
    assert!(refused["what"] == "refused" && refused["at"].is_string(), "{after}");
    assert_eq!(refused["reason"], "wake URL: credentials in a URL are not accepted");
    let tokens = doors.server.does(&["enroll-token", "list"]);
    assert_eq!(tokens["items"], json!([]));
    assert!(armer.listed().await.is_empty());
    // The same place in a notation that is allowed.
    doors.server.does(&["agent", "change", "heron", "--tenant", "acme", "--wake-url", "http://127.0.0.1:9/"]);
    doors.has_not_panicked();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provision_body_that_names_another_agents_instance_is_refused_like_absence_and_changes_nothing() {
    let doors = Doors::open().await;
    let wren = doors.server.does(&["agent", "create", "wren", "--tenant", "acme"]);
    doors.server.does(&["tenant", "create", "globex"]);
    let stork = doors.server.does(&["agent", "create", "stork", "--tenant", "globex"]);
    let globex = doors.server.does(&["client", "create", "--tenant", "globex"]);
    // The status, the headers that can tell something, and the body.
    let asks = async |token: &str, instance: &str| {
        let body = json!({ "gatewayId": "gw-laptop", "platform": "web", "botId": "", "gatewayEndpoint": "",
            "routeKeys": ["-100"], "instanceId": instance, "wakeUrl": "http://127.0.0.1:9/taken",
            "displayName": "Taken" });
        let url = format!("{}/relay/provision", doors.server.url);
        let answer = doors.client.post(url).bearer_auth(token).body(body.to_string()).send().await.unwrap();
        let mut headers = answer.headers().clone();
        headers.remove("date");
        (answer.status().as_u16(), headers, answer.text().await.unwrap())
    };
    let (heron, before) = (doors.heron["instance_id"].as_str().unwrap(), doors.agent());
    let listed = doors.server.does(&["agent", "list"]);
    for (caller, credential) in [("tenant", &globex), ("agent", &stork), ("sibling", &wren)] {
        let exchanged = exchanges(&doors.server, credential).await;
        let token = exchanged["access_token"].as_str().unwrap();
        let absent = asks(token, "inst_01920000-0000-7000-8000-000000000000").await;
        assert_eq!(absent.0, 403, "{caller}: {}", absent.2);
        assert_eq!(asks(token, heron).await, absent, "{caller}");
    }
    assert_eq!(doors.agent(), before);
    assert_eq!(doors.server.does(&["agent", "list"]), listed);
    let (by, body) = good("/relay/policy").unwrap();
    let (status, _) = doors.posts("/relay/policy", &by, body.to_string().into_bytes()).await;
    assert_eq!(status, 200, "its credential was not replaced");
    // Its own tenant provisions it with the same body.
    assert_eq!(asks(&doors.access, heron).await.0, 200);
}
