//! Files: uploading and getting them, who may, their limits, and their end (contract section 17.5).

use std::path::PathBuf;

use axum::body::Body;
use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, Request, StatusCode};
use posthouse_wire::{MediaId, Secret};
use relay::LARGEST_MEDIA;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::test_server::{Agent, TestServer, bot, millis, seconds};

struct Heard {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Heard {
    fn id(&self) -> MediaId {
        assert_eq!(self.status, 200, "{:?}", self.body);
        let answer: Value = serde_json::from_slice(&self.body).unwrap();
        MediaId::read(answer["id"].as_str().unwrap()).unwrap()
    }

    fn same(&self) -> (StatusCode, Vec<(String, Vec<u8>)>, Bytes) {
        let headers = self.headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
        (self.status, headers.collect(), self.body.clone())
    }
}

async fn asks(server: &TestServer, request: Request<Body>) -> Heard {
    let door = relay::routes(&server.relay, server.egress.clone());
    let (head, body) = door.oneshot(request).await.unwrap().into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    Heard { status: head.status, headers: head.headers, body }
}

fn posting(agent: &Agent) -> http::request::Builder {
    Request::post("/relay/media").header(AUTHORIZATION, format!("Bearer {}", agent.token()))
}

async fn uploads(agent: &Agent, body: impl Into<Body>) -> Heard {
    let request = posting(agent).header(CONTENT_TYPE, "image/png").header("x-media-filename", "cat.png");
    asks(&agent.server, request.body(body.into()).unwrap()).await
}

async fn gets(server: &TestServer, path: &str, agent: Option<&Agent>) -> Heard {
    let request = Request::get(path);
    let request = match agent {
        Some(agent) => request.header(AUTHORIZATION, format!("Bearer {}", agent.token())),
        None => request,
    };
    asks(server, request.body(Body::empty()).unwrap()).await
}

/// A body of pieces, without a length in the head.
fn in_pieces(pieces: impl IntoIterator<Item = Bytes, IntoIter: Send> + Send + 'static) -> Body {
    let pieces = pieces.into_iter().map(Ok::<_, std::io::Error>);
    Body::from_stream(futures_util::stream::iter(pieces))
}

/// All files on the disk.
fn files(server: &TestServer) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![server.media_folder.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path => found.push(path),
            }
        }
    }
    found
}

async fn has_files(server: &TestServer, count: usize) {
    crate::test_server::eventually(|| files(server).len() == count).await;
}

#[tokio::test]
async fn an_uploaded_file_comes_back_to_its_agent_as_it_was() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let body: Vec<u8> = (0..600_000_u32).map(|number| number as u8).collect();
    let pieces: Vec<Bytes> = body.chunks(70_000).map(Bytes::copy_from_slice).collect();
    let stored = uploads(&heron, in_pieces(pieces)).await;
    assert_eq!(serde_json::from_slice::<Value>(&stored.body).unwrap()["size"], 600_000);
    let got = gets(&server, &format!("/relay/media/{}", stored.id()), Some(&heron)).await;
    assert_eq!((got.status, got.body == body), (StatusCode::OK, true));
    for (name, value) in [
        ("content-type", "image/png"),
        ("content-length", "600000"),
        ("content-disposition", "attachment; filename=\"cat.png\""),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "private, no-store"),
    ] {
        assert_eq!(got.headers[name], value);
    }
    use std::os::unix::fs::PermissionsExt;
    let [file] = &files(&server)[..] else { panic!("one file") };
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn everybody_else_gets_the_answer_for_a_file_that_does_not_exist() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let neighbour = server.identity.accounts.enrol(identity::Enrolment {
        tenant: "acme".to_owned(),
        name: "egret".to_owned(),
        ..identity::Enrolment::default()
    });
    let neighbour = neighbour.await.unwrap().unwrap();
    let neighbour = Agent {
        instance: neighbour.instance.id,
        gateway: neighbour.gateway,
        secret: neighbour.secret,
        ..heron.clone()
    };
    let stranger = server.enrol("globex", "stork", &[bot("telegram", "7002")]).await;
    let id = uploads(&heron, "a picture").await.id();
    let path = format!("/relay/media/{id}");
    let absent = gets(&server, &format!("/relay/media/{}", MediaId::mint()), Some(&heron)).await;
    assert_eq!((absent.status, &absent.body[..]), (StatusCode::NOT_FOUND, &br#"{"error":"not found"}"#[..]));
    let wrong_key = format!("{path}?k={}", MediaId::mint());
    for (what, path, agent) in [
        ("another agent of the tenant", path.as_str(), Some(&neighbour)),
        ("another tenant", &path, Some(&stranger)),
        ("nobody", &path, None),
        ("a wrong key", &wrong_key, None),
        ("a wrong key of another agent", &wrong_key, Some(&stranger)),
        ("not an id", "/relay/media/..%2f..%2fledger.db", Some(&heron)),
        ("another spelling", &path.to_uppercase().replace("/RELAY/MEDIA", "/relay/media"), Some(&heron)),
    ] {
        assert_eq!(gets(&server, path, agent).await.same(), absent.same(), "{what}");
    }
    let every = identity::WhichCredentials::All;
    server.identity.accounts.revoke(&heron.instance, every).await.unwrap();
    assert_eq!(gets(&server, &path, Some(&heron)).await.same(), absent.same(), "a revoked credential");
}

#[tokio::test]
async fn a_handle_that_is_not_here_is_answered_in_a_second_and_a_half_although_the_check_takes_longer() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let forger = Agent { secret: Secret::new("another secret"), ..heron.clone() };
    let path = format!("/relay/media/{}", MediaId::mint());
    let absent = gets(&server, &path, Some(&heron)).await;
    // Each wrong credential beyond the tenth of a minute is answered a quarter of a second later than the one before.
    for _ in 0..20 {
        let refused = server.clock.wind_until(millis(250), uploads(&forger, "x")).await;
        assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    }
    let mut asked = Box::pin(gets(&server, &path, Some(&forger)));
    assert!(asked.as_mut().now_or_never().is_none(), "it takes its time");
    server.clock.wind(millis(1500));
    // No more time passes, so only the limit can have ended the wait.
    let heard = tokio::time::timeout(seconds(30), asked).await.expect("the limit of 1.5 s ends the wait");
    assert_eq!(heard.same(), absent.same());
    let before = server.clock.instant();
    server.clock.wind_until(millis(250), uploads(&forger, "x")).await;
    assert!(server.clock.instant().since(before) > millis(1500), "the check alone takes longer");
}

#[tokio::test]
async fn empty_and_oversized_files_are_refused_and_leave_nothing() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    assert_eq!(uploads(&heron, Body::empty()).await.status, StatusCode::BAD_REQUEST);
    let announced = posting(&heron).header(CONTENT_LENGTH, LARGEST_MEDIA + 1).body("x".into()).unwrap();
    assert_eq!(asks(&server, announced).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    // The rest of the body is never asked for.
    let piece = Bytes::from(vec![7; 1024 * 1024]);
    let endless = std::iter::repeat_with(move || piece.clone()).take(1000);
    assert_eq!(uploads(&heron, in_pieces(endless)).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    let broken = Body::from_stream(futures_util::stream::iter([
        Ok(Bytes::from_static(b"begun")),
        Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
    ]));
    assert_eq!(uploads(&heron, broken).await.status, StatusCode::BAD_REQUEST);
    has_files(&server, 0).await;
    let nobody = Request::post("/relay/media").body("x".into()).unwrap();
    assert_eq!(asks(&server, nobody).await.status, StatusCode::UNAUTHORIZED);
    let tenant = server.ledger.roster().instance(&heron.instance).await.unwrap().unwrap().tenant;
    assert_eq!(server.ledger.usage().media_of_tenant(&tenant).used, 0);
}

#[tokio::test]
async fn a_tenant_can_store_files_up_to_its_limit() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let stork = server.enrol("globex", "stork", &[bot("telegram", "7002")]).await;
    let tenant = server.ledger.roster().instance(&heron.instance).await.unwrap().unwrap().tenant;
    let usage = server.ledger.usage();
    usage.set_media_limit(&tenant, Some(10)).await.unwrap();
    let first = uploads(&heron, "12345678").await.id();
    assert_eq!(usage.media_of_tenant(&tenant).used, 8);
    let pieces = ["1", "2", "3"].map(Bytes::from);
    assert_eq!(uploads(&heron, in_pieces(pieces)).await.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(uploads(&stork, "12345678").await.status, StatusCode::OK, "another tenant has its own limit");
    server.relay.media().remove(&heron.instance, &first).await.unwrap();
    assert_eq!(usage.media_of_tenant(&tenant).used, 0);
    assert_eq!(uploads(&heron, "123").await.status, StatusCode::OK);
}

#[tokio::test]
async fn an_agent_that_fills_its_share_leaves_room_for_the_files_of_its_tenants_other_agents() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let tenant = server.ledger.roster().instance(&heron.instance).await.unwrap().unwrap().tenant;
    let usage = server.ledger.usage();
    usage.set_media_limit(&tenant, Some(100)).await.unwrap();
    // The only agent of a tenant may use all of it.
    let all = uploads(&heron, "x".repeat(100)).await.id();
    assert_eq!(uploads(&heron, "x").await.status, StatusCode::TOO_MANY_REQUESTS);
    server.relay.media().remove(&heron.instance, &all).await.unwrap();
    let egret = server.enrol("acme", "egret", &[bot("telegram", "7003")]).await;
    let ibis = server.enrol("acme", "ibis", &[bot("telegram", "7004")]).await;
    assert_eq!(uploads(&heron, "x".repeat(51)).await.status, StatusCode::TOO_MANY_REQUESTS);
    let half = uploads(&heron, "x".repeat(50)).await.id();
    let full = uploads(&heron, "x").await;
    assert_eq!(full.status, StatusCode::TOO_MANY_REQUESTS);
    let words = "this agent's share of the storage limit for files is reached: other agents of the tenant need the rest";
    assert_eq!(serde_json::from_slice::<Value>(&full.body).unwrap(), json!({ "error": words }));
    let pieces = ["x".repeat(20), "x".repeat(6)].map(Bytes::from);
    let in_parts = uploads(&egret, in_pieces(pieces)).await.status;
    assert_eq!(in_parts, StatusCode::TOO_MANY_REQUESTS, "the share holds for every piece");
    assert_eq!(uploads(&egret, "x".repeat(25)).await.status, StatusCode::OK);
    assert_eq!(uploads(&ibis, "x".repeat(12)).await.status, StatusCode::OK, "there is always some left");
    server.relay.media().remove(&heron.instance, &half).await.unwrap();
    assert_eq!(uploads(&heron, "x".repeat(31)).await.status, StatusCode::OK);
}

#[tokio::test]
async fn slow_uploads_of_one_tenant_do_not_stop_another() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let stork = server.enrol("globex", "stork", &[bot("telegram", "7002")]).await;
    let mut slow = Vec::new();
    for _ in 0..20 {
        let heron = heron.clone();
        let never = futures_util::stream::pending::<Result<Bytes, std::io::Error>>();
        slow.push(tokio::spawn(async move { uploads(&heron, Body::from_stream(never)).await.status }));
    }
    // Those that have a place have begun a file.
    has_files(&server, 8).await;
    assert_eq!(uploads(&stork, "quick").await.status, StatusCode::OK);
    // An upload that begins after a step of the clock ends with the next step. All end before the other tenant's file,
    // which lives for an hour.
    let ended = server.clock.wind_until(seconds(61), futures_util::future::join_all(slow)).await;
    for status in ended {
        let (status, expected) =
            (status.unwrap(), [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS]);
        assert!(expected.contains(&status), "{status}");
    }
    has_files(&server, 1).await;
    assert_eq!(uploads(&heron, "quick").await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_file_ends_after_an_hour_or_with_its_agent() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let stork = server.enrol("globex", "stork", &[bot("telegram", "7002")]).await;
    let path = format!("/relay/media/{}", uploads(&heron, "a picture").await.id());
    uploads(&stork, "another").await.id();
    server.winds(seconds(3599));
    assert_eq!(gets(&server, &path, Some(&heron)).await.status, StatusCode::OK);
    server.identity.accounts.remove_agent(&stork.instance).await.unwrap();
    server.relay.media().delete_ended().await.unwrap();
    assert_eq!(files(&server).len(), 1);
    server.winds(seconds(2));
    assert_eq!(gets(&server, &path, Some(&heron)).await.status, StatusCode::NOT_FOUND);
    while server.ledger.facts().prune().await.unwrap() {}
    server.relay.media().delete_ended().await.unwrap();
    assert_eq!(files(&server), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_file_without_its_row_is_deleted_and_a_row_without_its_file_is_no_file() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let path = format!("/relay/media/{}", uploads(&heron, "a picture").await.id());
    let stored = files(&server).remove(0);
    let folder = stored.parent().unwrap().file_name().unwrap().to_str().unwrap();
    let stray = stored.with_file_name(format!("{folder}{}", &MediaId::mint().as_str()[2..]));
    std::fs::write(&stray, "left over by a crash").unwrap();
    server.relay.media().delete_strays().await.unwrap();
    assert_eq!(files(&server), std::slice::from_ref(&stored));
    std::fs::remove_file(stored).unwrap();
    assert_eq!(gets(&server, &path, Some(&heron)).await.status, StatusCode::NOT_FOUND);
}

/// A server with files of somebody else.
async fn foreign_server() -> String {
    let router = axum::Router::new()
        .route("/cat.png", axum::routing::get(|| async { ([(CONTENT_TYPE, "image/png")], "a cat") }))
        .route("/moved", axum::routing::get(|| async { axum::response::Redirect::to("/cat.png") }))
        .route("/huge", axum::routing::get(|| async { vec![7_u8; LARGEST_MEDIA as usize + 1] }))
        .route("/none", axum::routing::get(|| async { StatusCode::NOT_FOUND }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

#[tokio::test]
async fn an_agent_sends_its_own_uploads_and_files_at_public_urls() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let stork = server.enrol("globex", "stork", &[bot("telegram", "7002")]).await;
    let foreign = foreign_server().await;
    let tenant = server.ledger.roster().instance(&heron.instance).await.unwrap().unwrap().tenant;
    let obtains = async |of: &Agent, url: String| {
        let source = relay::MediaSource {
            tenant: &tenant,
            instance: &of.instance,
            url: &url,
            filename: None,
            deadline: server.clock.instant() + seconds(25),
        };
        server.relay.media().obtain(source).await.map_err(|reason| reason.to_string())
    };
    let own = uploads(&heron, "a picture").await.id();
    let url = format!("http://any.host.example/base/relay/media/{own}");
    assert_eq!(obtains(&heron, url.clone()).await.unwrap().id, own);
    let absent = obtains(&heron, format!("https://house.example/relay/media/{}", MediaId::mint())).await;
    assert_eq!(absent.as_ref().unwrap_err(), "media not found");
    assert_eq!(obtains(&stork, url).await.unwrap_err(), absent.unwrap_err(), "of another agent");
    let cat = obtains(&heron, format!("{foreign}/cat.png?size=1")).await.unwrap();
    assert_eq!((cat.filename.as_str(), cat.mime.as_str(), cat.size), ("cat.png", "image/png", 5));
    assert_eq!(cat.instance, heron.instance);
    for (url, expected) in [
        (format!("{foreign}/moved"), "status 303"),
        (format!("{foreign}/none"), "status 404"),
        (format!("{foreign}/huge"), "too long"),
        ("http://10.0.0.1/a.png".to_owned(), "not public"),
        ("http://[::ffff:10.0.0.1]/a.png".to_owned(), "not public"),
        ("http://0x0a000001/a.png".to_owned(), "not public"),
        ("file:///etc/passwd".to_owned(), "only http"),
        ("not a url".to_owned(), "URL"),
    ] {
        let error = obtains(&heron, url.clone()).await.unwrap_err();
        assert!(error.contains(expected), "{url}: {error}");
        assert!(!error.contains("network") && !error.contains("timed out"), "{error}");
    }
    has_files(&server, 2).await;
}
