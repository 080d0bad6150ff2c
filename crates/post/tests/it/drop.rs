//! Tests of the file-drop connector.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use post::connector::{AgentConnector, AskOutcome, ConnectorReply, ExpectedReply};
use posthouse_wire::delivery::{Cause, Payload, PayloadKind, WakeOpts};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bench::{Bench, NOW, context, emission, fails, payload};

struct DropFixture {
    bench: Bench,
    root: TempDir,
    desk: PathBuf,
    drops: Arc<dyn AgentConnector>,
}

impl DropFixture {
    async fn open() -> Self {
        Self::open_with(json!({})).await
    }

    async fn open_with(more: Value) -> Self {
        let mut bench = Bench::open().await;
        let root = tempfile::tempdir().unwrap();
        let desk = root.path().join("agents/desk");
        std::fs::create_dir_all(&desk).unwrap();
        bench.config.drop_dirs = vec![root.path().to_owned()];
        let mut settings = json!({"dirs": {"desk": desk}});
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let drops = bench.connector("file-drop", settings);
        Self { bench, root, desk, drops }
    }

    fn at(&self, dir: &Path) -> Arc<dyn AgentConnector> {
        self.bench.connector("file-drop", json!({"dirs": {"desk": dir}}))
    }
}

/// The names in a directory, hidden ones too: what was half written would show.
fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn text(dispatch: &str, text: &str) -> Payload {
    payload(PayloadKind::Augment, dispatch, text)
}

fn question() -> ExpectedReply {
    let reply_to = Some("https://post.example/v1/replies/t".to_owned());
    ExpectedReply { correlation_id: "c-1".into(), timeout: Duration::from_secs(5), reply_to }
}

#[tokio::test]
async fn a_delivery_is_a_file_named_after_its_dispatch_id() {
    let DropFixture { desk, drops, root: _root, .. } = DropFixture::open().await;
    let outgoing = text("a:b_c.d-1", "hé\n");
    let receipt = drops.deliver("desk", &outgoing).await.unwrap();
    assert_eq!((receipt.delivered_at, receipt.delivery_id.as_deref()), (NOW, Some("a:b_c.d-1.json")));
    assert_eq!(names(&desk), ["a:b_c.d-1.json"]);
    assert_eq!(std::fs::read(desk.join("a:b_c.d-1.json")).unwrap(), outgoing.addressed("desk").json());
}

#[tokio::test]
async fn a_text_file_holds_the_text_alone() {
    let DropFixture { desk, drops, root: _root, .. } = DropFixture::open_with(json!({"format": "txt"})).await;
    drops.deliver("desk", &text("d-1", "hé\n")).await.unwrap();
    drops.deliver("desk", &text("d-1", "hé\n")).await.unwrap();
    drops.deliver("desk", &text("d-1", "other")).await.unwrap();
    assert_eq!(names(&desk), ["d-1-2.txt", "d-1.txt"]);
    assert_eq!(std::fs::read_to_string(desk.join("d-1.txt")).unwrap(), "hé\n");
}

#[tokio::test]
async fn the_same_again_writes_nothing_and_a_taken_name_gets_a_number() {
    let DropFixture { desk, drops, root: _root, .. } = DropFixture::open().await;
    let first = drops.deliver("desk", &text("conformance-test", "one")).await.unwrap();
    let mut later = text("conformance-test", "one");
    later.meta.sent_at += 1000;
    for again in [text("conformance-test", "one"), later] {
        assert_eq!(drops.deliver("desk", &again).await.unwrap(), first);
    }
    assert_eq!(names(&desk), ["conformance-test.json"]);
    let second = drops.deliver("desk", &text("conformance-test", "two")).await.unwrap();
    assert_eq!(second.delivery_id.as_deref(), Some("conformance-test-2.json"));
    let third =
        drops.deliver("desk", &payload(PayloadKind::Template, "conformance-test", "one")).await.unwrap();
    assert_eq!(third.delivery_id.as_deref(), Some("conformance-test-3.json"));
    assert_eq!(drops.deliver("desk", &text("conformance-test", "two")).await.unwrap(), second);
    assert_eq!(names(&desk).len(), 3);
}

#[tokio::test]
async fn many_at_once_under_one_id_are_all_kept_and_each_once() {
    let DropFixture { desk, drops, root: _root, .. } = DropFixture::open().await;
    let texts: Vec<Payload> = (0..24).map(|number| text("d-1", &(number % 12).to_string())).collect();
    let deliveries = texts.iter().map(|outgoing| drops.deliver("desk", outgoing));
    for delivered in futures_util::future::join_all(deliveries).await {
        delivered.unwrap();
    }
    let mut kept: Vec<String> = names(&desk)
        .iter()
        .map(|name| {
            let file: Value = serde_json::from_slice(&std::fs::read(desk.join(name)).unwrap()).unwrap();
            file["content"].as_str().unwrap().to_owned()
        })
        .collect();
    kept.sort_by_key(|text| text.parse::<u32>().unwrap());
    let expected: Vec<String> = (0..12).map(|number| number.to_string()).collect();
    assert_eq!(kept, expected);
}

#[tokio::test]
async fn an_id_that_is_no_plain_file_name_is_refused() {
    let DropFixture { desk, drops, root, .. } = DropFixture::open().await;
    for id in ["", ".", "..", "../x", "a/b", "/x", "a\0b", ".hidden", "a b", "d-1.reply", "d-1.REPLY", "é"] {
        let message = fails(drops.deliver("desk", &text(id, "hello")).await, Cause::ClientValidation);
        assert_eq!(message, "the dispatch id cannot be the name of a file");
        fails(drops.wake("desk", &context("come"), &emission(id)).await, Cause::ClientValidation);
        fails(drops.request_response("desk", &text(id, "?"), &question()).await, Cause::ClientValidation);
        fails(drops.collect("desk", &id.into(), &"c-1".into()).await, Cause::ClientValidation);
    }
    assert!(names(&desk).is_empty());
    assert_eq!(names(root.path()), ["agents"]);
}

#[tokio::test]
async fn no_link_is_followed_on_the_way_to_a_file() {
    let fixture = DropFixture::open().await;
    let outside = tempfile::tempdir().unwrap();
    // A directory that is a link, and one behind a link.
    symlink(outside.path(), fixture.root.path().join("out")).unwrap();
    std::fs::create_dir(outside.path().join("deeper")).unwrap();
    for dir in ["out", "out/deeper"] {
        let drops = fixture.at(&fixture.root.path().join(dir));
        assert!(!drops.health_check().await);
        fails(drops.deliver("desk", &text("d-1", "hello")).await, Cause::ClientValidation);
    }
    // A name that is a link counts as taken, wherever it points.
    symlink(outside.path().join("d-1.json"), fixture.desk.join("d-1.json")).unwrap();
    let receipt = fixture.drops.deliver("desk", &text("d-1", "hello")).await.unwrap();
    assert_eq!(receipt.delivery_id.as_deref(), Some("d-1-2.json"));
    assert_eq!(names(outside.path()), ["deeper"]);
    // The allowed folder itself may be a link.
    let alias = outside.path().join("alias");
    symlink(fixture.root.path(), &alias).unwrap();
    let mut bench = fixture.bench;
    bench.config.drop_dirs = vec![alias.clone()];
    let drops = bench.connector("file-drop", json!({"dirs": {"desk": alias.join("agents/desk")}}));
    assert!(drops.health_check().await);
}

#[tokio::test]
async fn a_probe_leaves_nothing_behind() {
    let DropFixture { desk, drops, root: _root, .. } = DropFixture::open().await;
    assert!(drops.health_check().await);
    assert!(names(&desk).is_empty());
    std::fs::remove_dir(&desk).unwrap();
    assert!(!drops.health_check().await);
}

#[tokio::test]
async fn no_interrupt_channel_file_drop_keeps_the_context_and_is_not_woken() {
    let DropFixture { desk, drops, root: _root, .. } = DropFixture::open().await;
    let woken = drops.wake("desk@attic", &context("come"), &emission("w-1")).await.unwrap();
    assert_eq!((woken.woken, woken.woken_at, woken.session_id.as_deref()), (false, NOW, Some("attic")));
    assert_eq!(woken.warnings, ["a file cannot interrupt the agent: the wake was only written"]);
    let file = std::fs::read_to_string(desk.join("w-1.json")).unwrap();
    let expected =
        format!(r#"{{"agent_id":"desk","session_id":"attic","context":"come","sent_at":{}}}"#, NOW - 5);
    assert_eq!(file, expected);
    // A repeat by the post, which did not get the result.
    drops.wake("desk@attic", &context("come"), &emission("w-1")).await.unwrap();
    assert_eq!(names(&desk), ["w-1.json"]);
    drops.wake("desk", &WakeOpts::default(), &emission("w-2")).await.unwrap();
    let file = std::fs::read_to_string(desk.join("w-2.json")).unwrap();
    assert_eq!(file, format!(r#"{{"agent_id":"desk","sent_at":{}}}"#, NOW - 5));
}

#[tokio::test]
async fn unknown_agent_file_drop_fails_before_anything_is_written() {
    let DropFixture { desk, drops, root: _root, .. } = DropFixture::open().await;
    let message = fails(drops.deliver("nobody", &text("d-1", "hello")).await, Cause::ClientValidation);
    assert_eq!(message, "Agent 'nobody' is not configured. Wired agents: desk.");
    fails(drops.wake("nobody@attic", &context("come"), &emission("d-1")).await, Cause::ClientValidation);
    fails(drops.collect("nobody", &"d-1".into(), &"c-1".into()).await, Cause::ClientValidation);
    assert!(names(&desk).is_empty());
}

#[tokio::test]
async fn network_or_auth_fault_file_drop_that_cannot_be_written_fails_and_may_pass() {
    let mut fixture = DropFixture::open().await;
    // Nobody may write there, not even root.
    fixture.bench.config.drop_dirs.push("/proc/sys".into());
    for dir in [fixture.root.path().join("gone"), "/proc/sys/kernel".into()] {
        let drops = fixture.at(&dir);
        assert!(!drops.health_check().await);
        let message = fails(drops.deliver("desk", &text("d-1", "hello")).await, Cause::Network);
        assert!(!message.contains(dir.to_str().unwrap()), "{message}");
        fails(drops.wake("desk", &context("come"), &emission("d-1")).await, Cause::Network);
    }
}

#[tokio::test]
async fn a_question_names_the_file_that_its_answer_is_awaited_in() {
    let DropFixture { desk, drops, root: _root, .. } = DropFixture::open_with(json!({"format": "txt"})).await;
    let asked = text("q-1", "how many?");
    for _ in 0..2 {
        let replied = drops.request_response("desk", &asked, &question()).await.unwrap();
        assert!(
            matches!(replied, AskOutcome::Awaited(receipt) if receipt.delivery_id.as_deref() == Some("q-1.json"))
        );
    }
    assert_eq!(names(&desk), ["q-1.json"]);
    let file: Value = serde_json::from_slice(&std::fs::read(desk.join("q-1.json")).unwrap()).unwrap();
    assert_eq!((&file["reply_to"], &file["content"]), (&json!("q-1.reply.json"), &json!("how many?")));
}

#[tokio::test]
async fn an_answer_is_collected_once_it_is_whole_and_what_is_none_is_left_alone() {
    let DropFixture { desk, drops, root, .. } = DropFixture::open().await;
    let collect = || async { drops.collect("desk", &"q-1".into(), &"c-1".into()).await.unwrap() };
    let path = desk.join("q-1.reply.json");
    assert_eq!(collect().await, None);
    let secret = root.path().join("secret");
    std::fs::write(&secret, r#"{"content":"not for you"}"#).unwrap();
    symlink(&secret, &path).unwrap();
    assert_eq!(collect().await, None);
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(collect().await, None);
    std::fs::remove_dir(&path).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert_eq!(collect().await, None);
    std::fs::remove_file(&path).unwrap();
    for nonsense in ["", r#"{"content":"4"#, "42", "{}", r#"{"content":42}"#, &" ".repeat(4 << 20)] {
        std::fs::write(&path, nonsense).unwrap();
        assert_eq!(collect().await, None);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), nonsense);
    }
    std::fs::write(&path, r#"{"content":"42","correlation_id":"c-1","sent_at":9}"#).unwrap();
    assert_eq!(collect().await, Some(ConnectorReply { content: "42".to_owned(), sent_at: Some(9) }));
}

#[tokio::test]
async fn an_answer_that_names_another_question_is_none() {
    let DropFixture { desk, drops, root: _root, .. } = DropFixture::open().await;
    assert!(drops.collects());
    let collect = || async { drops.collect("desk", &"q-1".into(), &"c-1".into()).await.unwrap() };
    let path = desk.join("q-1.reply.json");
    for another in [r#"{"content":"42","correlation_id":"c-2"}"#, r#"{"content":"42","correlation_id":""}"#] {
        std::fs::write(&path, another).unwrap();
        assert_eq!(collect().await, None, "{another}");
    }
    for ours in [r#"{"content":"42"}"#, r#"{"content":"42","correlation_id":"c-1"}"#] {
        std::fs::write(&path, ours).unwrap();
        assert_eq!(collect().await.map(|answer| answer.content).as_deref(), Some("42"), "{ours}");
    }
}
