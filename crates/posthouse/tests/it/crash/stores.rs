//! Crash test of the stores: SIGKILL while programs write, approve, delete and restore skills, and write data. What was
//! answered is there afterwards, every text agrees with its row and its history, a deleted skill is gone and comes back
//! whole, every approval has its row in the audit log, and the search index agrees with the entries.

mod approval_rows;
mod data_writer;
mod expected_skill;
mod skill_writer;
pub mod store_client;
mod tenants;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use super::{Dice, PATIENCE, kills};
use crate::talk::provide_crypto;
use crate::test_server::TestServer;
use approval_rows::ApprovalRows;
use data_writer::{DataWriter, WrittenEntries};
use skill_writer::{ChangeCounts, SkillWriter, WrittenSkills};
use tenants::StoreTenant;

const SKILL_WRITERS: usize = 3;
const DATA_WRITERS: usize = 4;

/// What was lost or disagrees.
#[derive(Debug, Default, PartialEq)]
pub struct Findings(Vec<String>);

impl Findings {
    pub fn unless(&mut self, right: bool, finding: impl FnOnce() -> String) {
        if !right {
            self.0.push(finding());
        }
    }

    pub fn is_any(&self) -> bool {
        !self.0.is_empty()
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
    let tenants = StoreTenant::create_all(&server, &root);
    let (enough, is_enough) = watch::channel(false);
    let answered = Arc::new(AtomicUsize::new(0));
    let mut skills = Vec::new();
    for (at, tenant) in tenants.iter().enumerate() {
        for number in 0..SKILL_WRITERS {
            let dice = Dice(0x2545_f491_4f6c_dd1d ^ (100 * at + number + 1) as u64);
            let writer = SkillWriter::new(number, tenant.clone(), Arc::clone(&answered), dice);
            skills.push(tokio::spawn(writer.writes(is_enough.clone())));
        }
    }
    let mut data = Vec::new();
    for (at, tenant) in tenants.iter().filter(|tenant| tenant.writes_data()).enumerate() {
        for number in 0..DATA_WRITERS {
            let writer = DataWriter::new(number, tenant.client.clone(), Arc::clone(&answered));
            data.push((at, tokio::spawn(writer.writes(is_enough.clone()))));
        }
    }

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
    let mut written: Vec<WrittenSkills> = Vec::new();
    for writer in skills {
        written.push(writer.await.unwrap());
    }
    let mut entries = [WrittenEntries::default(), WrittenEntries::default()];
    for (at, writer) in data {
        entries[at].add(writer.await.unwrap());
    }
    // Once more, so that everything is read by a server that wrote none of it.
    tokio::task::block_in_place(|| server.kill());
    tokio::task::block_in_place(|| server.start());

    let mut findings = Findings::default();
    for (tenant, written) in tenants.iter().zip(written.chunks_mut(SKILL_WRITERS)) {
        let log = ApprovalRows::read(&server, tenant.name, tenant.is_house()).await;
        for written in &mut *written {
            written.check(&log).await;
        }
        let approvals: usize = written.iter().map(WrittenSkills::approvals).sum();
        findings.unless(!tenant.is_house() || log.approved() == approvals, || {
            format!("{}: {} of {approvals} approvals are in the log", tenant.name, log.approved())
        });
    }
    let changes = ChangeCounts::sum(written.iter().map(|written| written.changes));
    findings.0.extend(written.into_iter().flat_map(|written| written.findings.0));
    let mut rows = 0;
    for (entries, tenant) in entries.iter().zip(tenants.iter().filter(|tenant| tenant.writes_data())) {
        rows += entries.check(&tenant.client, tenant.is_house(), &mut findings).await;
    }
    println!(
        "{} kills; answered: {changes}, {} data writes; {rows} entries stored: {} findings",
        kills(),
        entries.iter().map(WrittenEntries::answered).sum::<usize>(),
        findings.0.len()
    );
    assert_eq!(findings, Findings::default());
    assert!(changes.has_all(), "every kind of change is answered: {changes}");
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
