//! HTTP paths of the whole server and their authentication.

use std::sync::Arc;

use posthouse_agent::{RelayTransport, Settings, WebSocketTransport};
use posthouse_wire::Secret;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use stand_ins::telegram::{Fault, FaultKind};

use crate::talk::{PATIENCE, Rider, make_bot, provide_crypto, says, telegram};
use crate::test_server::TestServer;

/// A certificate for loopback that nobody trusts but these tests.
const CERT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../posthouse-agent/tests/it/loopback.cert.pem");
const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../posthouse-agent/tests/it/loopback.key.pem");

async fn status(url: String) -> u16 {
    reqwest::get(url).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn health_is_open_and_metrics_want_the_admin_token() {
    provide_crypto();
    let server = TestServer::open(&[]);
    assert_eq!(status(format!("{}/healthz", server.url)).await, 200);
    assert_eq!(status(format!("{}/readyz", server.url)).await, 200);
    assert_eq!(status(format!("{}/metrics", server.url)).await, 401);
    let token = std::fs::read_to_string(server.folder().join("admin.token")).unwrap();
    let metrics = reqwest::Client::new().get(format!("{}/metrics", server.url)).bearer_auth(token.trim());
    let text = metrics.send().await.unwrap().text().await.unwrap();
    for family in ["posthouse_relay_sockets", "posthouse_relay_entries_kept_total"] {
        assert!(text.contains(family), "{text}");
    }
    let open = TestServer::open(&[("POSTHOUSE_METRICS__OPEN", "true")]);
    assert_eq!(status(format!("{}/metrics", open.url)).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_bot_shows_in_the_readiness_and_the_server_stays_ready() {
    let telegram = telegram(&["7001:token@posty_bot"]).await;
    let server = TestServer::open(&[("POSTHOUSE_PLATFORMS__TELEGRAM__API_BASE_URL", &telegram.base_url())]);
    make_bot(&server, "owned", "7001:token", &[]);
    server.does(&["tenant", "create", "acme"]);
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme"]);
    server.does(&["route", "create", "telegram:owned", "*", "heron", "--tenant", "acme"]);
    let mut rider = Rider::dial(&server, &heron, &[("telegram", "owned")]).await;
    says(&telegram, 7001, 5, "hello");
    rider.hears().await;
    let ready = async || {
        let answer = reqwest::get(format!("{}/readyz", server.url)).await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    assert_eq!(ready().await, (200, "ready\n".to_owned()));
    for fault in [Fault::new(FaultKind::Unauthorized), Fault::new(FaultKind::Unauthorized).on("getUpdates")] {
        telegram.fault(fault.until_cleared());
    }
    assert!(!rider.sends("telegram", "owned", "5", "refused").await.success);
    let dead = async {
        while ready().await != (200, "ready\n1 bot is dead\n".to_owned()) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, dead).await.expect("the bot is never dead");
    let listed = server.does(&["bot", "list"]);
    assert_eq!(listed["items"][0]["health"], "dead");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_mounted_under_the_path_of_the_public_address() {
    provide_crypto();
    let mut server = TestServer::open(&[("POSTHOUSE_PLATFORMS__WEB__PAGE", "true")]);
    let bare = server.url.clone();
    server.stop();
    server.moves_to(&format!("{bare}/inn"));
    assert_eq!(status(format!("{bare}/inn/healthz")).await, 200);
    assert_eq!(status(format!("{bare}/healthz")).await, 404);
    assert_eq!(status(format!("{bare}/inn/chat")).await, 200);
    server.does(&["tenant", "create", "acme"]);
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme"]);
    assert_eq!(heron["env"]["GATEWAY_RELAY_URL"], format!("{bare}/inn"));
    let line = WebSocketTransport::new(settings(&heron)).unwrap();
    line.connect().await.unwrap();
    assert_eq!(line.handshake().await.unwrap().platform, "web");
    line.disconnect().await;
}

fn settings(agent: &serde_json::Value) -> Settings {
    let text = |name: &str| agent["env"][name].as_str().unwrap().to_owned();
    Settings::new(
        text("GATEWAY_RELAY_URL"),
        text("GATEWAY_RELAY_ID").as_str(),
        Secret::new(text("GATEWAY_RELAY_SECRET")),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_speaks_tls_with_certificate_files_and_an_agent_dials_in_over_it() {
    provide_crypto();
    let mut server =
        TestServer::open(&[("POSTHOUSE_SERVER__TLS__CERT", CERT), ("POSTHOUSE_SERVER__TLS__KEY", KEY)]);
    server.stop();
    let secure = server.url.replace("http://", "https://");
    server.moves_to(&secure);
    let pem = std::fs::read(CERT).unwrap();
    let client = reqwest::Client::builder()
        .tls_certs_only([reqwest::Certificate::from_pem(&pem).unwrap()])
        .build()
        .unwrap();
    let answer = client.get(format!("{secure}/healthz")).send().await.unwrap();
    assert_eq!(answer.text().await.unwrap(), "ok\n");
    assert!(reqwest::get(format!("{secure}/healthz")).await.is_err(), "a stranger does not trust it");

    let admin = std::fs::read_to_string(server.folder().join("admin.token")).unwrap();
    let post = |path: &str, body: serde_json::Value| {
        client.post(format!("{secure}{path}")).bearer_auth(admin.trim()).json(&body).send()
    };
    post("/admin/tenants", serde_json::json!({"name": "acme"})).await.unwrap();
    let heron = post("/admin/agents", serde_json::json!({"name": "heron", "tenant": "acme"})).await.unwrap();
    let heron: serde_json::Value = heron.json().await.unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
    let tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let line = WebSocketTransport::new(settings(&heron).tls(Arc::new(tls))).unwrap();
    line.connect().await.unwrap();
    assert_eq!(line.handshake().await.unwrap().platform, "web");
    line.disconnect().await;
}
