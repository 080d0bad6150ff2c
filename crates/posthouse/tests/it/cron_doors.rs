//! HTTP paths of the clock on a whole server: authentication, path prefix, and firing from a restored
//! backup.

use std::time::Duration;

use http::Method;
use posthouse_agent::verify::{KeySet, check_claims};
use posthouse_time::Timepiece;
use posthouse_wire::cron::audience;
use serde_json::Value;

use crate::cron::{Armer, Callback, ahead};
use crate::talk::{PATIENCE, provide_crypto};
use crate::test_server::TestServer;

const SOON: Duration = Duration::from_millis(300);

async fn keys(url: &str) -> KeySet {
    let answer = reqwest::get(url).await.unwrap();
    assert_eq!(answer.status().as_u16(), 200, "{url}");
    KeySet::read(&answer.bytes().await.unwrap()).unwrap()
}

fn make_agent(server: &TestServer) -> (Value, String) {
    server.does(&["tenant", "create", "acme"]);
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme"]);
    let instance = heron["instance_id"].as_str().unwrap().to_owned();
    (heron, instance)
}

/// Waits until what is armed is as described.
async fn until_listed(armer: &Armer, is_so: impl Fn(&[Value]) -> bool) {
    let waiting = async {
        while !is_so(&armer.listed().await) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(waited.is_ok(), "still armed: {:?}", armer.listed().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_methods_and_bodies_over_the_size_are_refused_at_every_cron_door() {
    provide_crypto();
    let server = TestServer::open(&[]);
    let (heron, _) = make_agent(&server);
    let armer = Armer::new(&server, &heron, "http://127.0.0.1:9".to_owned()).await;
    let client = reqwest::Client::new();
    let asks = async |method: Method, path: &str, body: Vec<u8>| {
        let request = client.request(method, format!("{}{path}", server.url)).bearer_auth(&armer.token);
        // Somebody who does not even claim to sign is refused before the body is read.
        let request = request.header("x-posthouse-signature", format!("t=1,v1={}", "0".repeat(64)));
        let answer = request.body(body).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    for verb in ["provision", "cancel", "redrive", "relay"] {
        let path = format!("/api/agent-cron/{verb}");
        for method in [Method::GET, Method::PUT, Method::DELETE] {
            assert_eq!(asks(method.clone(), &path, Vec::new()).await.0, 405, "{method} {verb}");
        }
        let (status, answer) = asks(Method::POST, &path, vec![b' '; 16 * 1024 + 1]).await;
        assert_eq!(status, 413, "{verb}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["error"], "request_too_large", "{verb}");
        assert_eq!(asks(Method::POST, &path, vec![b' '; 2 * 1024 * 1024]).await.0, 413, "{verb}");
    }
    for path in ["/api/agent-cron/list", "/api/agent-cron/history", "/.well-known/jwks.json"] {
        for method in [Method::POST, Method::DELETE] {
            assert_eq!(asks(method.clone(), path, Vec::new()).await.0, 405, "{method} {path}");
        }
    }
    assert_eq!(asks(Method::GET, "/api/agent-cron/unheard-of", Vec::new()).await.0, 404);
    assert!(armer.listed().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn under_a_path_the_issuer_and_the_address_of_the_keys_contain_it() {
    provide_crypto();
    let mut server = TestServer::open(&[]);
    let bare = server.url.clone();
    server.stop();
    server.moves_to(&format!("{bare}/inn"));
    let (heron, instance) = make_agent(&server);
    let jwks = format!("{bare}/inn/.well-known/jwks.json");
    assert_eq!(heron["cron"]["cron.chronos.portal_url"], server.url);
    assert_eq!(heron["cron"]["cron.chronos.nas_jwks_url"], jwks);
    let keys = keys(&jwks).await;
    let above = reqwest::get(format!("{bare}/.well-known/jwks.json")).await.unwrap();
    assert_eq!(above.status().as_u16(), 404);

    let callback = Callback::open().await;
    let armer = Armer::new(&server, &heron, callback.of("heron")).await;
    armer.arms(&armer.provision("job", &ahead(SOON))).await;
    let calls = callback.called(1).await;
    let taken = |issuer: &str| {
        let now = Timepiece::wall().now();
        check_claims(calls[0].token(), &audience(&instance.as_str().into()), &keys, Some(issuer), now)
            .is_some()
    };
    assert!(taken(&server.url));
    // To the letter, as stock agents compare it.
    assert!(!taken(&bare) && !taken(&format!("{bare}/inn/")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_opened_on_a_backup_still_fires_what_was_armed() {
    provide_crypto();
    let mut server = TestServer::open(&[]);
    let (heron, instance) = make_agent(&server);
    let callback = Callback::open().await;
    let armer = Armer::new(&server, &heron, callback.of("heron")).await;
    let published = keys(&format!("{}/.well-known/jwks.json", server.url)).await;
    armer.arms(&armer.provision("taken", &ahead(Duration::ZERO))).await;
    callback.called(1).await;
    // The server must be gone before `kept` is due. A machine that is too slow for that gets more time.
    let mut time = Duration::from_secs(4);
    let (due, copy, calls_before) = loop {
        let due = ahead(time);
        armer.arms(&armer.provision("kept", &due)).await;
        let _ = armer.arms(&armer.provision("cancelled", &due)).await;
        armer.cancels("cancelled").await;
        // The copy is of a moment at which the first fire's end is recorded.
        until_listed(&armer, |listed| listed.iter().all(|armed| armed["job_id"] == "kept")).await;
        let copy = server.dir.path().join(format!("copy-{}", time.as_secs()));
        std::fs::create_dir(&copy).unwrap();
        server.does(&["backup", copy.join("ledger.db").to_str().unwrap()]);
        server.kill();
        if Timepiece::wall().now().millis() * 1000 < due.due_us() {
            break (due, copy, callback.len());
        }
        server.start();
        until_listed(&armer, <[Value]>::is_empty).await;
        time *= 4;
    };
    // What a backup does not hold is kept by hand, as the guide says.
    for name in ["posthouse.toml", "vault.key", "admin.token"] {
        std::fs::copy(server.folder().join(name), copy.join(name)).unwrap();
    }
    server.moves_into(copy);
    let listed: Vec<Value> = armer.listed().await;
    assert!(listed.iter().all(|armed| armed["job_id"] == "kept"), "{listed:?}");

    let call = callback.called(calls_before + 1).await.remove(calls_before);
    assert_eq!((call.job.as_str(), call.fire_at.as_str()), ("kept", due.text()));
    assert!(call.at.millis() * 1000 >= due.due_us());
    let audience = audience(&instance.as_str().into());
    assert!(check_claims(call.token(), &audience, &published, Some(&server.url), call.at).is_some());
    until_listed(&armer, <[Value]>::is_empty).await;
    assert_eq!(callback.len(), calls_before + 1, "the rest was over before the copy was made");
}
