//! Shutdown: acknowledgements in flight are stored first, then sockets close with 1012.

use crate::gateway::{End, Gateway};
use crate::recorder::Habit;
use crate::test_server::{TestServer, seconds};

fn closes(server: &TestServer) -> tokio::task::JoinHandle<()> {
    let relay = server.relay.clone();
    tokio::spawn(async move { relay.close().await })
}

fn closing() -> End {
    End::Closed(1012, "the server is shutting down".to_owned())
}

async fn is_told_to_close(mut gateway: Gateway) {
    assert_eq!(gateway.ends().await, closing());
}

#[tokio::test]
async fn idle_sockets_are_closed_1012_at_once() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let crow = server.enrol("rival", "crow", &[crate::test_server::bot("telegram", "7002")]).await;
    let (one, two, silent) = (heron.sits().await, crow.sits().await, heron.dials().await);
    let closed = closes(&server);
    for gateway in [one, two, silent] {
        is_told_to_close(gateway).await;
    }
    closed.await.unwrap();
}

#[tokio::test]
async fn an_acknowledgement_in_flight_is_kept_before_the_socket_closes() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    heron.hears_from("one").await;
    heron.hears_from("two").await;
    let mut gateway = heron.sits_settled().await;
    let (_, entry) = gateway.hears_inbound().await;
    let closed = closes(&server);
    gateway.hears_nothing().await;
    gateway.acknowledges(&entry).await;
    // Neither is the second handed over, nor is the clock needed for the goodbye.
    is_told_to_close(gateway).await;
    closed.await.unwrap();
    assert_eq!(heron.unread().await, 1);
}

#[tokio::test]
async fn an_answer_in_flight_is_sent_before_the_socket_closes() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    server.says(&heron.bots[0], "c1", "hi").await;
    let mut gateway = heron.sits().await;
    server.egress.in_chat("c1", Habit::Until(server.clock.now() + seconds(2)));
    gateway.sends("r1", "c1", "bye").await;
    server.egress.has_begun(1).await;
    let closed = closes(&server);
    gateway.hears_nothing().await;
    server.winds(seconds(2));
    assert_eq!(gateway.hears_result("r1").await["success"], true);
    is_told_to_close(gateway).await;
    closed.await.unwrap();
}

#[tokio::test]
async fn what_does_not_finish_is_waited_for_three_seconds() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    server.says(&heron.bots[0], "c1", "hi").await;
    let mut gateway = heron.sits().await;
    server.egress.in_chat("c1", Habit::Hangs);
    gateway.sends("r1", "c1", "stuck").await;
    server.egress.has_begun(1).await;
    let closed = closes(&server);
    gateway.hears_nothing().await;
    server.winds(seconds(3));
    is_told_to_close(gateway).await;
    server.winds(seconds(5));
    closed.await.unwrap();
}
