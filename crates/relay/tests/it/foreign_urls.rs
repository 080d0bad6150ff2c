//! URLs that agents and operators name: wake URLs, stop URLs and URLs of files. What a host resolves to is checked when it
//! is called, the checked address is the one that is called, and a redirect leads nowhere.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use identity::Enrolment;

use crate::test_server::{Agent, TestServer, bot, eventually, seconds};

const HOST: &str = "agent.example";

/// A resolver whose answers change: the next one for each lookup, and the last one from then on.
struct Rebinding {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    asked: AtomicUsize,
}

impl Rebinding {
    fn with(answers: &[&[&str]]) -> Arc<Self> {
        let read = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
        Arc::new(Self { answers: Mutex::new(answers.iter().map(read).collect()), asked: AtomicUsize::new(0) })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl errand::Lookup for Rebinding {
    fn lookup(&self, host: &str) -> errand::LookupResult {
        assert_eq!(host, HOST);
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        Box::pin(async move { Ok(answer.unwrap_or_default()) })
    }
}

/// A server of somebody else, which counts its calls. It closes every connection, so that each call looks up the host.
struct Foreign {
    address: SocketAddr,
    calls: Arc<AtomicUsize>,
}

impl Foreign {
    /// It answers every call like this, with this place to go to.
    async fn answering(status: StatusCode, location: Option<String>) -> Self {
        let calls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&calls);
        let answer = move || {
            let location = location.clone();
            count.fetch_add(1, Ordering::SeqCst);
            async move {
                let headers = [("connection", "close".to_owned())];
                let moved = location.map(|to| [(LOCATION, to)]);
                (status, headers, moved.unwrap_or([(LOCATION, String::new())]), "the bytes")
            }
        };
        let door = Router::new().fallback(answer);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, door).await });
        Self { address, calls }
    }

    /// Its URL under a name that the server must look up.
    fn named(&self) -> String {
        format!("http://{HOST}:{}/place", self.address.port())
    }

    fn url(&self) -> String {
        format!("http://{}/place", self.address)
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

/// Who names the URL.
#[derive(Clone, Copy, Debug)]
enum UrlKind {
    Wake,
    Stop,
    Media,
}

const KINDS: [UrlKind; 3] = [UrlKind::Wake, UrlKind::Stop, UrlKind::Media];

async fn heron(server: &TestServer, wake_url: Option<String>) -> Agent {
    let telegram = bot("telegram", "7001");
    server.has_bot(&telegram, false).await;
    let enrolment = Enrolment {
        tenant: "acme".to_owned(),
        name: "heron".to_owned(),
        wake_url,
        bots: vec![telegram],
        ..Enrolment::default()
    };
    server.enrol_as(enrolment).await
}

/// Makes the server call the URL once. Returns whether that worked.
async fn calls(server: &TestServer, agent: &Agent, kind: UrlKind, url: &str) -> bool {
    match kind {
        UrlKind::Wake => {
            assert!(server.relay.wake_calls().wake(&agent.instance).await);
            server.relay.wake_calls().failures(&agent.instance, Some(url)).not_reached.is_none()
        }
        UrlKind::Stop => {
            let urls = &server.identity.sleep_urls;
            urls.set_stop_url(&agent.instance, Some(url)).await.unwrap();
            let token = urls.make_token(&agent.instance).await.unwrap().unwrap();
            let url = format!("http://{}/relay/sleep?t={}", server.address, token.expose());
            let call = errand::OutgoingCall::post(url, Vec::new()).timeout(seconds(60));
            let answer = errand::Errand::new(errand::Config::loopback()).run(call).await.unwrap();
            answer.status.as_u16() == 202
        }
        UrlKind::Media => {
            let agent = server.ledger.roster().instance(&agent.instance).await.unwrap().unwrap();
            let source = relay::MediaSource {
                tenant: &agent.tenant,
                instance: &agent.id,
                url,
                filename: None,
                deadline: server.clock.instant() + seconds(25),
            };
            server.relay.media().obtain(source).await.is_ok()
        }
    }
}

#[tokio::test]
async fn a_host_that_becomes_private_is_not_called_any_more_and_never_looked_up_twice_for_a_call() {
    for kind in KINDS {
        let foreign = Foreign::answering(StatusCode::OK, None).await;
        // The second answer is a private address. Whoever looked up again to connect would call it.
        let names = Rebinding::with(&[&["127.0.0.1"], &["10.0.0.1"]]);
        let server = TestServer::open_with_lookup(names.clone()).await;
        let agent = heron(&server, Some(foreign.named())).await;
        assert_eq!(names.asked(), 0, "{kind:?}: naming a URL looks up nothing");
        assert!(calls(&server, &agent, kind, &foreign.named()).await, "{kind:?}");
        assert_eq!((foreign.calls(), names.asked()), (1, 1), "{kind:?}");
        assert!(!calls(&server, &agent, kind, &foreign.named()).await, "{kind:?}");
        assert_eq!((foreign.calls(), names.asked()), (1, 2), "{kind:?}");
    }
}

#[tokio::test]
async fn a_host_with_one_private_address_among_others_is_not_called() {
    for private in
        ["10.0.0.1", "169.254.169.254", "::ffff:192.168.0.1", "64:ff9b::a00:1", "fd00::1", "0.0.0.0"]
    {
        for kind in KINDS {
            let foreign = Foreign::answering(StatusCode::OK, None).await;
            let names = Rebinding::with(&[&["127.0.0.1", private]]);
            let server = TestServer::open_with_lookup(names).await;
            let agent = heron(&server, Some(foreign.named())).await;
            assert!(!calls(&server, &agent, kind, &foreign.named()).await, "{kind:?} {private}");
            assert_eq!(foreign.calls(), 0, "{kind:?} {private}");
        }
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    for status in [301, 302, 303, 307, 308] {
        for kind in KINDS {
            let inside = Foreign::answering(StatusCode::OK, None).await;
            let status = StatusCode::from_u16(status).unwrap();
            let foreign = Foreign::answering(status, Some(inside.url())).await;
            let server = TestServer::open().await;
            let agent = heron(&server, Some(foreign.url())).await;
            calls(&server, &agent, kind, &foreign.url()).await;
            assert_eq!((foreign.calls(), inside.calls()), (1, 0), "{kind:?} {status}");
        }
    }
}

#[tokio::test]
async fn why_a_wake_url_does_not_work_is_known_until_it_works() {
    let foreign = Foreign::answering(StatusCode::OK, None).await;
    let names = Rebinding::with(&[&["10.0.0.1"], &["127.0.0.1"]]);
    let server = TestServer::open_with_lookup(names).await;
    let agent = heron(&server, Some(foreign.named())).await;
    let failures = |url: &str| server.relay.wake_calls().failures(&agent.instance, Some(url));
    server.winds(seconds(5));
    agent.hears_from("wake up").await;
    let url = foreign.named();
    eventually(|| failures(&url).not_reached.is_some()).await;
    let failure = failures(&url).not_reached.unwrap();
    assert!(failure.reason.contains("not public") && !failure.reason.contains(HOST), "{}", failure.reason);
    assert_eq!(failure.at, server.clock.now());
    assert_eq!(failures("https://other.example/").not_reached, None, "it is about this URL");
    server.winds(seconds(60));
    eventually(|| failures(&url).not_reached.is_none()).await;
    assert_eq!(foreign.calls(), 1);
}
