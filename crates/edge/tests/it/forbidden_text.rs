//! Secrets inside payloads: what the vectors forbid is in no stored row, trace or log line.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use edge::platform::Platform;
use posthouse_time::{Moment, Timepiece};
use serde_json::Value;
use tracing::level_filters::LevelFilter;

use crate::strangers::{accepting, bot, cases_of, read};
use crate::telegram::test_server::TestServer;

/// The texts that a payload must not give away, as far as the payload has them.
fn forbidden(case: &Value) -> Vec<&str> {
    let raw = match &case["raw"] {
        Value::String(raw) => raw.clone(),
        raw => raw.to_string(),
    };
    let texts = case["expect"]["forbidden_substrings"].as_array().into_iter().flatten();
    texts.filter_map(Value::as_str).filter(|text| raw.contains(text)).collect()
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Takes one payload on a server of its own. Returns everything that the server stored and logged.
async fn take(platform: &Arc<dyn Platform>, base: &str, case: &Value, folder: &Path) -> Vec<u8> {
    let log = folder.join("log");
    let writer = Mutex::new(std::fs::File::create(&log).unwrap());
    let logging = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(writer).finish();
    let logging = tracing::subscriber::set_default(logging);
    let clock = Timepiece::wound(Moment::from_seconds(1_765_000_000));
    let bot = Arc::new(bot(platform.name(), base, &case["context"]));
    let server = TestServer::in_folder(&bot, &clock, &folder.join("ledger")).await;
    let reading = read(&**platform, &bot, case);
    server.intake().take(platform, &bot, reading, None).await.unwrap();
    let done = async {
        while !server.relay.tasks().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), done).await.expect("a task never ends");
    tracing::trace!("the marker of the log");
    drop(logging);
    let copy = folder.join("copy.db");
    server.ledger.facts().backup(&copy).await.unwrap();
    let mut kept = std::fs::read(copy).unwrap();
    assert!(holds(&kept, "heron"), "the copy is not readable");
    let log = std::fs::read(log).unwrap();
    assert!(holds(&log, "the marker of the log"));
    kept.extend(log);
    kept
}

#[tokio::test]
async fn what_vectors_forbid_is_in_no_row_trace_or_log_of_any_platform() {
    // Already installed by another test of this process, or by this line.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let (base, _) = accepting().await;
    let mut searched = Vec::new();
    for platform in edge::platforms::all(&edge::Config::default(), &Timepiece::wall()) {
        for case in cases_of(platform.name()) {
            let forbidden = forbidden(&case);
            if forbidden.is_empty() {
                continue;
            }
            let folder = tempfile::tempdir().unwrap();
            let kept = take(&platform, &base, &case, folder.path()).await;
            for text in forbidden {
                assert!(!holds(&kept, text), "{}: {}: {text}", platform.name(), case["name"]);
            }
            searched.push(platform.name());
        }
    }
    searched.dedup();
    // Payloads of Matrix hold no secrets.
    let all = ["discord", "feishu", "slack", "telegram", "wecom", "wecom_callback", "whatsapp_cloud"];
    assert!(all.iter().all(|platform| searched.contains(platform)), "{searched:?}");
}
