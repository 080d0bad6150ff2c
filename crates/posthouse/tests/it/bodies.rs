//! Request bodies that no handler reads, or that never end.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::house::House;
use crate::talk::{PATIENCE, provide_crypto};

/// Sends a head that promises so many bytes, and all of them but one.
async fn half_sent(house: &House, head: &str, promised: usize) -> TcpStream {
    let mut peer = TcpStream::connect(house.url.trim_start_matches("http://")).await.unwrap();
    let head = format!("POST {head}\r\nhost: x\r\ncontent-length: {promised}\r\n\r\n");
    peer.write_all(head.as_bytes()).await.unwrap();
    // The server may answer and close while this is under way.
    let _ = peer.write_all(&vec![b' '; promised - 1]).await;
    peer
}

async fn status_line(peer: &mut TcpStream) -> String {
    let mut heard = [0; 12];
    peer.read_exact(&mut heard).await.unwrap();
    String::from_utf8_lossy(&heard).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn four_hundred_half_sent_bodies_before_authentication_cost_next_to_no_memory() {
    let house = std::sync::Arc::new(House::open(&[]));
    let before = house.peak_kib();
    let doors = [
        ("/nowhere/at/all HTTP/1.1", "HTTP/1.1 404"),
        ("/v1/notify HTTP/1.1", "HTTP/1.1 401"),
        ("/admin/tenants HTTP/1.1", "HTTP/1.1 401"),
        ("/api/agent-cron/provision HTTP/1.1", "HTTP/1.1 401"),
        ("/api/agent-cron/relay HTTP/1.1", "HTTP/1.1 401"),
        ("/door/telegram/nobody HTTP/1.1\r\nx-telegram-bot-api-secret-token: guess", "HTTP/1.1 4"),
        ("/v1/replies/guess HTTP/1.1", "HTTP/1.1 404"),
        ("/oauth/token HTTP/1.1\r\ncontent-type: application/x-www-form-urlencoded", "HTTP/1.1 4"),
    ];
    let mut peers = tokio::task::JoinSet::new();
    for _ in 0..50 {
        for (head, answer) in doors {
            let house = std::sync::Arc::clone(&house);
            peers.spawn(async move {
                let mut peer = half_sent(&house, head, 1 << 20).await;
                let heard = status_line(&mut peer).await;
                assert!(heard.starts_with(answer), "{head}: {heard}");
                peer
            });
        }
    }
    let held = peers.join_all().await;
    let grown = house.peak_kib() - before;
    assert!(grown < 100 * 1024, "{} half-sent bodies cost {grown} KiB", held.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_bodies_of_one_tenant_leave_room_for_another_and_memory_returns() {
    provide_crypto();
    // A quarter of it for each principal, and half for a tenant while nobody else needs it.
    let house = House::open(&[("POSTHOUSE_SERVER__UNFINISHED_BODY_BYTES", "800000")]);
    let agent = |tenant: &str, name: &str| house.does(&["agent", "create", name, "--tenant", tenant]);
    for tenant in ["acme", "zen"] {
        house.does(&["tenant", "create", tenant]);
    }
    let acme = ["heron", "otter", "robin", "finch"].map(|name| agent("acme", name));
    let zen = agent("zen", "heron");
    let bearer = |agent: &Value| agent["access_token"].as_str().unwrap().to_owned();
    let notify = async |agent: &Value| {
        let body = json!({"agent": "heron", "message": "x".repeat(120_000)});
        let request = reqwest::Client::new().post(format!("{}/v1/notify", house.url));
        request.bearer_auth(bearer(agent)).json(&body).send().await.unwrap().status().as_u16()
    };

    let mut held = Vec::new();
    for agent in &acme {
        let head = format!("/v1/notify HTTP/1.1\r\nauthorization: Bearer {}", bearer(agent));
        // More than the share of one agent: some are taken, and the server waits for their last byte.
        let mut peers = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let mut peer = half_sent(&house, &head, 190_000).await;
            peers.spawn(async move { (status_line(&mut peer).await, peer) });
        }
        let refused = tokio::time::timeout(PATIENCE, peers.join_next()).await.expect("nothing is refused");
        assert_eq!(refused.unwrap().unwrap().0, "HTTP/1.1 429");
        held.push(peers);
    }
    assert_eq!(notify(&zen).await, 200, "another tenant has its own share");
    drop(held);
    while notify(&acme[0]).await != 200 {
        tokio::task::yield_now().await;
    }
}
