//! Crash test of the stores: SIGKILL while programs write skills and data. What was answered is there afterwards, every
//! text agrees with its row and its history, every approval has its row in the audit log, and the search index agrees with
//! the entries.

mod approval_rows;
mod data_writer;
mod skill_writer;
pub mod store_client;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use super::{Dice, PATIENCE, kills};
use crate::talk::provide_crypto;
use crate::test_server::TestServer;
use approval_rows::ApprovalRows;
use data_writer::{DataWriter, WrittenEntries};
use skill_writer::{KeptHistory, SkillWriter};
use store_client::StoreClient;

/// Tenants with the three kinds of skill store.
const TENANTS: [(&str, KeptHistory); 3] = [
    ("house", KeptHistory::LinePerWrite),
    ("folder", KeptHistory::LinePerWrite),
    ("file", KeptHistory::LinePerVersion),
];
const SKILL_WRITERS: usize = 4;
const DATA_WRITERS: usize = 6;

/// What was lost or disagrees.
#[derive(Debug, Default, PartialEq)]
pub struct Findings(Vec<String>);

impl Findings {
    pub fn unless(&mut self, right: bool, finding: impl FnOnce() -> String) {
        if !right {
            self.0.push(finding());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_skill_or_data_that_was_answered_is_gone_and_all_parts_agree_whenever_the_server_is_killed() {
    provide_crypto();
    let roots = tempfile::tempdir().unwrap();
    let root = roots.path().canonicalize().unwrap().to_str().unwrap().to_owned();
    let mut server = TestServer::open(&[
        ("POSTHOUSE_WORKSHOP__ROOTS", &root),
        ("POSTHOUSE_LIMITS__PROGRAM_REQUESTS_PER_MINUTE", "4000000000"),
    ]);
    let clients = TENANTS.map(|(tenant, _)| {
        server.does(&["tenant", "create", tenant]);
        let store = match tenant {
            "folder" => format!("filesystem:{root}/skills"),
            "file" => format!("sqlite:{root}/skills.db"),
            _ => "house".to_owned(),
        };
        server.does(&["tenant", "change", tenant, "--skill-store", &store]);
        StoreClient::of(&server.url, &server.does(&["client", "create", "--tenant", tenant]))
    });

    let (enough, is_enough) = watch::channel(false);
    let answered = Arc::new(AtomicUsize::new(0));
    let mut skills = Vec::new();
    for (at, (client, (tenant, kept))) in clients.iter().zip(TENANTS).enumerate() {
        for number in 0..SKILL_WRITERS {
            let dice = Dice(0x2545_f491_4f6c_dd1d ^ (100 * at + number + 1) as u64);
            let writer = SkillWriter::new(number, client.clone(), Arc::clone(&answered), dice);
            skills.push((client, tenant, kept, tokio::spawn(writer.writes(is_enough.clone()))));
        }
    }
    let data: Vec<_> = (0..DATA_WRITERS)
        .map(|number| {
            let writer = DataWriter::new(number, clients[0].clone(), Arc::clone(&answered));
            tokio::spawn(writer.writes(is_enough.clone()))
        })
        .collect();

    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for kill in 1..=kills() {
        // Some more writes are answered, then the server is killed during the next ones.
        answers_more(&answered, 1 + dice.below(120)).await;
        tokio::time::sleep(Duration::from_micros(dice.below(4000) as u64)).await;
        tokio::task::block_in_place(|| server.kill());
        tokio::task::block_in_place(|| server.start());
        if kill % 20 == 0 {
            println!("{kill} kills, {} writes answered", answered.load(Ordering::Relaxed));
        }
    }
    enough.send_replace(true);
    let (mut written_skills, mut entries) = (Vec::new(), WrittenEntries::default());
    for (client, tenant, kept, writer) in skills {
        written_skills.push((client, tenant, kept, writer.await.unwrap()));
    }
    for writer in data {
        entries.add(writer.await.unwrap());
    }
    // Once more, so that everything is read by a server that wrote none of it.
    tokio::task::block_in_place(|| server.kill());
    tokio::task::block_in_place(|| server.start());

    let mut findings = Findings::default();
    let mut count = 0;
    for (client, tenant, kept, written) in &written_skills {
        count += written.answered();
        let log = ApprovalRows::read(&server, tenant, *tenant == "house").await;
        written.check(client, *kept, &log, &mut findings).await;
    }
    let rows = entries.check(&clients[0], &mut findings).await;
    println!(
        "{} kills, {count} skill writes and {} data writes answered, {rows} entries stored: {} findings",
        kills(),
        entries.answered(),
        findings.0.len()
    );
    assert_eq!(findings, Findings::default());
    server.kill();
}

async fn answers_more(answered: &AtomicUsize, more: usize) {
    let wanted = answered.load(Ordering::Relaxed) + more;
    let waited = tokio::time::timeout(PATIENCE, async {
        while answered.load(Ordering::Relaxed) < wanted {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    assert!(waited.await.is_ok(), "stuck with {} of {wanted} answered", answered.load(Ordering::Relaxed));
}
