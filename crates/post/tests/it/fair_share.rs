//! Tests of fair shares: slow receivers of one tenant do not use up all delivery attempts.

use std::time::Duration;

use serde_json::json;

use crate::receiver::Receiver;
use crate::test_server::{Program, TestServer, eventually};

/// A program of a tenant whose agent `desk` is reached at the receiver.
async fn with_webhook(server: &TestServer, tenant: &str, receiver: &Receiver) -> Program {
    let program = server.program(tenant).await;
    let agents = json!({ "desk": { "url": format!("{}/hook", receiver.base) } });
    // A long timeout, because an attempt that times out frees its place.
    let settings = json!({ "agents": agents, "timeout_ms": 600_000 });
    server.wires(tenant, "hook", "webhook", settings).await;
    program
}

/// Attempts that share the places of the whole server: 128, and one for each tenant beyond that.
const SLOW: usize = 20;
const TAKEN: usize = 128 + SLOW;

#[tokio::test]
async fn slow_tenants_that_take_all_outgoing_attempts_leave_one_for_another() {
    let server = TestServer::wound().await;
    let (slow, quick) = (Receiver::open().await, Receiver::open().await);
    // The first attempts fail, so that the retry loop makes the attempts that fill its places.
    slow.says(500, "");
    for number in 0..SLOW {
        let program = with_webhook(&server, &format!("slow{number}"), &slow).await;
        for message in 0..9 {
            program.notifies("desk", &format!("message {message}")).await;
        }
    }
    slow.seen();
    slow.stalls();
    server.time.wind(Duration::from_secs(1));
    let mut begun = 0;
    eventually("all places are taken", async || {
        begun += slow.seen().len();
        begun >= TAKEN
    })
    .await;
    let program = with_webhook(&server, "zeta", &quick).await;
    quick.says(500, "");
    let sent = program.notifies("desk", "mine").await;
    quick.says(200, r#"{"delivery_id":"d-1"}"#);
    server.time.wind(Duration::from_secs(1));
    program.receipt_when(&sent["dispatch_id"], |receipt| receipt["state"] == "delivered").await;
    begun += slow.seen().len();
    assert_eq!(begun, TAKEN, "nobody took more than there is");
}
