//! A second process with the same folder: killed without warning, or refused.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use ledger::{Acknowledgement, Append, InboxLimits, Ledger, Location, Seq};
use posthouse_time::Timepiece;
use posthouse_wire::EntryId;

const FOLDER: &str = "LEDGER_OF_A_CHILD";
const HERON: &str = "inst_heron";

fn child(test: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The part that runs in the child process. Without its folder it tests nothing.
#[tokio::test(flavor = "multi_thread")]
async fn child_that_writes_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let clock = Timepiece::wall();
    let ledger = Ledger::open(Location::Folder(folder.into()), clock.clone()).await.unwrap();
    let writers: Vec<_> = (0..16)
        .map(|writer| {
            let (inbox, clock) = (ledger.inbox(), clock.clone());
            tokio::spawn(async move {
                for number in 0_u64.. {
                    let now = clock.now();
                    let letter = Append {
                        forward: None,
                        to: HERON.into(),
                        platform: "telegram".into(),
                        bot: "tb".into(),
                        chat: "chat".into(),
                        message: None,
                        dedup: format!("{}-{writer}-{number}-{}", std::process::id(), now.millis()).into(),
                        event: Bytes::from_static(b"words"),
                        references: Vec::new(),
                        album: None,
                        accepted: now,
                        sighting: None,
                        receipt: None,
                        id: None,
                        sender: None,
                        limits: InboxLimits::NONE,
                        stale: None,
                        turn: Default::default(),
                    };
                    let kept = inbox.append(letter).await.unwrap();
                    let entry = kept.entry().cloned().unwrap();
                    println!("kept {entry}");
                    if number % 2 == 0 {
                        let taken = Acknowledgement { entry: entry.clone(), handed: now, place: None };
                        inbox.acknowledge(&HERON.into(), vec![taken]).await.unwrap();
                        println!("taken {entry}");
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
}

#[tokio::test]
async fn child_that_finds_the_folder_in_use() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    match Ledger::open(Location::Folder(folder.into()), Timepiece::wall()).await {
        Ok(_) => println!("opened"),
        Err(fault) => println!("refused {fault}"),
    }
}

#[tokio::test]
async fn nothing_that_was_said_to_be_kept_is_lost_to_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let (mut kept, mut taken) = (Vec::new(), Vec::new());
    for round in 0..5 {
        let mut child = child("crash::child_that_writes_until_it_is_killed", folder.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut heard = |line: String| {
            if let Some(entry) = line.strip_prefix("kept ") {
                kept.push(EntryId::new(entry));
            } else if let Some(entry) = line.strip_prefix("taken ") {
                taken.push(EntryId::new(entry));
            }
        };
        lines.by_ref().take(200 + 150 * round).for_each(|line| heard(line.unwrap()));
        child.kill().unwrap();
        // Everything it printed before it died counts; only its last line may be cut short.
        let rest: Vec<_> = lines.map_while(Result::ok).collect();
        rest.into_iter().filter(|line| line.len() >= "kept ent_".len() + 32).for_each(&mut heard);
        child.wait().unwrap();
    }
    assert!(kept.len() > 1000 && taken.len() > 300, "{} kept, {} taken", kept.len(), taken.len());
    let ledger = Ledger::open(Location::Folder(folder.path().to_owned()), Timepiece::wall()).await.unwrap();
    for entry in &kept {
        assert!(ledger.traces().entry(entry).await.unwrap().is_some(), "{entry} was lost");
    }
    let mut unread = std::collections::HashSet::new();
    let mut after = Seq(0);
    loop {
        let page = ledger.inbox().unread(&HERON.into(), after, 1000).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.seq;
        unread.extend(page.into_iter().map(|entry| entry.id));
    }
    assert!(taken.iter().all(|entry| !unread.contains(entry)), "an acknowledged entry came back");
    let taken: std::collections::HashSet<_> = taken.into_iter().collect();
    let waiting = kept.iter().filter(|entry| unread.contains(*entry)).count();
    assert!(waiting + taken.len() <= kept.len() && waiting > 0);
}

#[tokio::test]
async fn a_folder_in_use_by_another_process_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let _held = Ledger::open(Location::Folder(folder.path().to_owned()), Timepiece::wall()).await.unwrap();
    let output =
        child("crash::child_that_finds_the_folder_in_use", folder.path()).wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("refused") && said.contains("in use by another server"), "{said}");
}
