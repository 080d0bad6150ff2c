//! Upgrade: a folder that the version before made, with its settings, its ledger and its keys.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::post_cli::text;
use crate::talk::{Rider, is_told, provide_crypto, says, telegram};
use crate::test_server::{BINARY, TestServer};
use crate::tokens::exchanges;

/// What its README says.
const MADE_BEFORE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/version-before");

/// A copy that only its owner can read, as the server demands and git does not keep.
fn copy_to(folder: &Path) {
    DirBuilder::new().mode(0o700).create(folder).unwrap();
    for name in ["posthouse.toml", "ledger.db", "vault.key", "admin.token"] {
        let bytes = fs::read(Path::new(MADE_BEFORE).join(name)).unwrap();
        let mut options = OpenOptions::new();
        let mut copy = options.write(true).create_new(true).mode(0o600).open(folder.join(name)).unwrap();
        copy.write_all(&bytes).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_and_a_configuration_of_the_version_before_open_and_serve() {
    provide_crypto();
    let issued = fs::read(Path::new(MADE_BEFORE).join("issued.json")).unwrap();
    let issued: Value = serde_json::from_slice(&issued).unwrap();
    let (heron, program) = (&issued["heron"], &issued["program"]);
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("house");
    copy_to(&folder);
    let mut check = Command::new(BINARY);
    let checked =
        check.args(["config", "check", "--config"]).arg(folder.join("posthouse.toml")).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));

    let telegram = telegram(&["7001:token@posty_bot"]).await;
    let api = ("POSTHOUSE_PLATFORMS__TELEGRAM__API_BASE_URL", telegram.base_url());
    let server = TestServer::open_on(dir, folder, &[(api.0, &api.1)]);
    // Its bot was open to everybody. The log says that it is closed now, and that the chats it knew were admitted.
    server
        .logs("bot telegram:7001 is now closed to strangers; 1 chats that it already knew were admitted")
        .await;
    let jobs = server.does(&["job", "list"]);
    assert_eq!(jobs["items"][0]["fire_at"], "2036-11-01T00:00:00+00:00", "{jobs}");

    // The agent slept over the upgrade. Its credential is the one that it got before.
    let mut rider = Rider::dial(&server, heron, &[("post", "post"), ("telegram", "7001")]).await;
    assert_eq!(rider.hears().await.event.text, "said before the upgrade");
    assert_eq!(text(&rider.hears().await), "kept over the upgrade");

    let token = exchanges(&server, program).await;
    let token = token["access_token"].as_str().unwrap();
    let message = serde_json::json!({ "agent": "heron", "message": "sent after the upgrade" });
    let notify = reqwest::Client::new().post(format!("{}/v1/notify", server.url)).bearer_auth(token);
    assert_eq!(notify.json(&message).send().await.unwrap().status().as_u16(), 200);
    assert_eq!(text(&rider.hears().await), "sent after the upgrade");

    // The token of its bot was sealed by the version before, and the person in this chat was known to it.
    says(&telegram, 7001, 5, "good morning");
    assert_eq!(rider.hears().await.event.text, "good morning");
    assert!(rider.sends("telegram", "7001", "5", "and to you").await.success);
    assert!(is_told(&telegram, 5, "and to you").await);
}
