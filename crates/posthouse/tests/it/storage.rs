//! Storage limits: the quota of a tenant, and a full disk.

use std::path::Path;
use std::process::Command;

use crate::post_cli::{err, types};
use crate::talk::{Rider, provide_crypto};
use crate::test_server::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_used_up_its_storage_is_refused_in_words_and_another_gets_its_share() {
    provide_crypto();
    let server = TestServer::open(&[]);
    let mut riders = Vec::new();
    for (tenant, name) in [("acme", "heron"), ("globex", "otter")] {
        server.does(&["tenant", "create", tenant]);
        let agent = server.does(&["agent", "create", name, "--tenant", tenant]);
        riders.push(Rider::dial(&server, &agent, &[("post", "post")]).await);
    }
    let [heron, otter] = &mut riders[..] else { panic!("there are two") };
    server.does(&["notify", "heron", "hello", "--tenant", "acme", "--from", "ci"]);
    let heard = heron.hears().await;
    let chat = heard.event.source.chat_id.clone().unwrap();
    let used = server.does(&["tenant", "show", "acme"])["storage_used_bytes"].as_i64().unwrap();
    assert!(used > 0, "{used}");

    server.does(&["tenant", "change", "acme", "--storage-bytes", "1"]);
    let refused = types(&server, &["notify", "heron", "more", "--tenant", "acme"], None, &[]);
    assert!(!refused.status.success() && err(&refused).contains("used up its storage"), "{}", err(&refused));
    let question = types(&server, &["ask", "heron", "well?", "--tenant", "acme"], None, &[]);
    assert!(
        !question.status.success() && err(&question).contains("used up its storage"),
        "{}",
        err(&question)
    );
    let said = heron.sends("post", "post", chat.as_str(), "here is a long answer").await;
    assert!(!said.success && said.error.unwrap().contains("used up its storage"));

    server.does(&["notify", "otter", "hello", "--tenant", "globex", "--from", "ci"]);
    let heard = otter.hears().await;
    let chat_of_otter = heard.event.source.chat_id.clone().unwrap();
    assert!(otter.sends("post", "post", chat_of_otter.as_str(), "another tenant's").await.success);

    let shown = server.does(&["tenant", "change", "acme", "--storage-bytes", "default"]);
    assert_eq!(shown["storage_limit"], "default");
    server.does(&["notify", "heron", "again", "--tenant", "acme", "--from", "ci"]);
    assert!(heron.hears().await.event.text.ends_with("again"));
    assert!(heron.sends("post", "post", chat.as_str(), "here it is").await.success);
}

/// A small file system in memory, gone at the end.
struct SmallDisk<'a>(&'a Path);

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

fn mount(how: &[&str], at: &Path) -> Result<(), String> {
    let output = Command::new("mount").args(how).arg(at).output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_is_not_ready_while_the_disk_refuses_writes() {
    provide_crypto();
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("small");
    std::fs::create_dir(&folder).unwrap();
    if let Err(reason) = mount(&["-t", "tmpfs", "-o", "size=8m", "tmpfs"], &folder) {
        println!("not told here, since nothing can be mounted: {reason}");
        return;
    }
    let disk_at = folder.clone();
    let _disk = SmallDisk(&disk_at);
    let server = TestServer::open_at(dir, folder.join("house"), &[]);
    let ready = async || {
        let answer = reqwest::get(format!("{}/readyz", server.url)).await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    assert_eq!(ready().await.0, 200);
    server.does(&["tenant", "create", "acme"]);
    server.does(&["agent", "create", "heron", "--tenant", "acme"]);
    // After a long message was refused, a short one can still have room. The disk is full when it is refused too.
    for length in [100_000, 1] {
        let text = "x".repeat(length);
        let is_refused = |_| !server.tries(&["notify", "heron", &text, "--tenant", "acme"]).status.success();
        assert!((0..200).any(is_refused), "the disk never filled");
    }
    let (status, words) = ready().await;
    assert_eq!(status, 503);
    assert!(words.contains("the disk refuses writes") && words.contains("full"), "{words}");
    assert_eq!(reqwest::get(format!("{}/healthz", server.url)).await.unwrap().status(), 200);

    mount(&["-o", "remount,size=64m"], &disk_at).unwrap();
    server.does(&["notify", "heron", "there is room again", "--tenant", "acme"]);
    assert_eq!(ready().await.0, 200);
}
