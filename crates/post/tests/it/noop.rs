//! Tests of the no-op connector.

use std::time::Duration;

use post::connector::{ConnectorError, ExpectedReply};
use posthouse_wire::delivery::{AgentStatus, DeliveryReceipt, PayloadKind, WakeReceipt};
use serde_json::json;

use crate::bench::{Bench, NOW, context, emission, payload};
use crate::log::Log;

#[tokio::test]
async fn where_nothing_is_wired_everything_is_taken_and_nobody_woken() {
    let bench = Bench::open().await;
    let noop = bench.connector("noop", json!({}));
    let outgoing = payload(PayloadKind::Augment, "d-1", "hello");
    assert!(noop.list_agents().await.unwrap().is_empty());
    let receipt = noop.deliver("anybody", &outgoing).await.unwrap();
    assert_eq!(receipt, DeliveryReceipt { delivered_at: NOW, ..DeliveryReceipt::default() });
    let woken = noop.wake("anybody", &context("hello"), &emission("d-1")).await.unwrap();
    assert_eq!(woken, WakeReceipt { woken_at: NOW, woken: false, ..WakeReceipt::default() });
    assert!(noop.health_check().await);
    assert_eq!(noop.agent_status("anybody").await, AgentStatus::Unknown);
    let timeout = Duration::from_secs(1);
    let question = ExpectedReply { correlation_id: "c-1".into(), timeout, reply_to: None };
    let asked = noop.request_response("anybody", &outgoing, &question).await;
    assert!(matches!(asked, Err(ConnectorError::NotImplemented { implementation: "noop", .. })));
    assert!(!noop.features().request_response);
}

#[tokio::test]
async fn each_call_logs_one_warning_line() {
    let bench = Bench::open().await;
    let noop = bench.connector("noop", json!({}));
    let outgoing = payload(PayloadKind::Augment, "d-1", "nobody's words");
    let timeout = Duration::from_secs(1);
    let question = ExpectedReply { correlation_id: "c-1".into(), timeout, reply_to: None };
    let log = Log::listen();
    let mut lines = Vec::new();
    let mut heard = |call: &str| {
        let warnings = log.warnings();
        assert_eq!(warnings.len(), 1, "{call}: {warnings:?}");
        lines.extend(warnings);
    };
    noop.list_agents().await.unwrap();
    heard("list_agents");
    noop.deliver("anybody", &outgoing).await.unwrap();
    heard("deliver");
    noop.wake("anybody", &context("nobody's words"), &emission("d-1")).await.unwrap();
    heard("wake");
    noop.health_check().await;
    heard("health_check");
    noop.agent_status("anybody").await;
    heard("agent_status");
    noop.request_response("anybody", &outgoing, &question).await.unwrap_err();
    heard("request_response");
    assert!(lines.iter().all(|line| line.contains("the noop connector")), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("nobody's words")), "{lines:?}");
}
