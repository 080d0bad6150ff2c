//! Writer of skills for the crash test, and the checks afterwards.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::approval_rows::ApprovalRows;
use super::store_client::StoreClient;
use super::{Dice, Findings};

/// Skills that one program writes again and again.
const SKILLS: usize = 3;
const STATUSES: [&str; 3] = ["Draft", "Approved", "Disabled"];

pub struct SkillWriter {
    number: usize,
    client: StoreClient,
    answered: Arc<AtomicUsize>,
    dice: Dice,
}

/// How a store keeps its history.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum KeptHistory {
    /// A line for every write, in the order of the writes.
    LinePerWrite,
    /// A file of the reference runtime has one line for each version, so the order is not that of the writes.
    LinePerVersion,
}

/// The writes that one program has made, by skill.
#[derive(Default)]
pub struct WrittenSkills(HashMap<String, Vec<SkillAttempt>>);

/// A write that was sent.
struct SkillAttempt {
    request: AttemptedChange,
    /// Version and status of the answer. None if the server was killed first.
    answer: Option<HistoryLine>,
}

enum AttemptedChange {
    /// The version of the text that was sent.
    Text(HistoryLine),
    Status(String),
}

/// Version and status.
type HistoryLine = (String, String);

impl SkillAttempt {
    /// Whether this attempt can have added this line.
    fn explains(&self, line: &HistoryLine) -> bool {
        match (&self.answer, &self.request) {
            (Some(answer), _) => answer == line,
            (None, AttemptedChange::Text(sent)) => sent == line,
            (None, AttemptedChange::Status(status)) => *status == line.1,
        }
    }
}

impl SkillWriter {
    pub fn new(number: usize, client: StoreClient, answered: Arc<AtomicUsize>, dice: Dice) -> Self {
        Self { number, client, answered, dice }
    }

    pub async fn writes(mut self, enough: watch::Receiver<bool>) -> WrittenSkills {
        let mut written = WrittenSkills::default();
        for round in 0.. {
            if *enough.borrow() {
                break;
            }
            let name = format!("tide-{}-{}", self.number, self.dice.below(SKILLS));
            let status = STATUSES[self.dice.below(STATUSES.len())];
            let known = written.0.entry(name.clone()).or_default();
            let is_there = known.iter().any(|attempt| attempt.answer.is_some());
            let (request, answer) = if !is_there || self.dice.below(3) > 0 {
                let source =
                    format!("# Skill: {name}\n# Status: {status}\n\ngo:\n    emit(text=\"mark-{round}\")\n");
                let body = json!({ "source": source, "status": status });
                let sent = (version_of(&source), status.to_owned());
                let answer = self.client.asks("PUT", &format!("/v1/skills/{name}"), Some(&body)).await;
                (AttemptedChange::Text(sent), answer)
            } else {
                let path = format!("/v1/skills/{name}/status");
                let body = json!({ "status": status });
                (
                    AttemptedChange::Status(status.to_owned()),
                    self.client.asks("POST", &path, Some(&body)).await,
                )
            };
            let is_answered = answer.is_some();
            let answer = answer.map(|answer| {
                let text = |field: &str| answer[field].as_str().unwrap().to_owned();
                (text("version"), text("status"))
            });
            known.push(SkillAttempt { request, answer });
            if is_answered {
                self.answered.fetch_add(1, Ordering::Relaxed);
            } else {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        written
    }
}

impl WrittenSkills {
    pub fn answered(&self) -> usize {
        self.0.values().flatten().filter(|attempt| attempt.answer.is_some()).count()
    }

    pub async fn check(
        &self,
        client: &StoreClient,
        kept: KeptHistory,
        log: &ApprovalRows,
        findings: &mut Findings,
    ) {
        for (name, attempts) in &self.0 {
            if attempts.iter().all(|attempt| attempt.answer.is_none()) {
                continue;
            }
            let loaded = client.reads("GET", &format!("/v1/skills/{name}"), None).await;
            let text = |at: &str| loaded.pointer(at).and_then(Value::as_str).unwrap_or_default();
            let (source, version) = (text("/source"), text("/version"));

            // Text and row.
            let hash = hash_of(source);
            findings.unless(hash == text("/content_hash") && version == &hash[..12], || {
                format!("{name}: the hash is not that of the text: {loaded}")
            });
            let status = source.lines().find_map(|line| line.strip_prefix("# Status: ")).unwrap_or_default();
            findings.unless(status == text("/metadata/status"), || {
                format!("{name}: the text says {status}, the row says {}", text("/metadata/status"))
            });

            let history = client.reads("GET", &format!("/v1/skills/{name}/versions"), None).await;
            let text = |line: &Value, field: &str| line[field].as_str().unwrap().to_owned();
            let lines: Vec<HistoryLine> = history["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|line| (text(line, "version"), text(line, "status")))
                .collect();
            let current = (version.to_owned(), status.to_owned());
            match kept {
                KeptHistory::LinePerWrite => {
                    findings.unless(is_history_of(&lines, attempts), || {
                        format!("{name}: the history is not that of the writes: {lines:?}")
                    });
                    findings.unless(lines.last() == Some(&current), || {
                        format!("{name}: the history ends with {:?}, the text is {current:?}", lines.last())
                    });
                }
                KeptHistory::LinePerVersion => check_versions(name, &lines, attempts, &current, findings),
            }
            log.check(name, kept, &lines, findings);
        }
    }
}

/// Whether the lines are those of the writes, in their order: one line for every write that was answered, one or none for
/// every other.
fn is_history_of(lines: &[HistoryLine], attempts: &[SkillAttempt]) -> bool {
    // Several numbers of lines can be explained by the attempts so far.
    let mut explained = BTreeSet::from([0]);
    for attempt in attempts {
        let mut next: BTreeSet<usize> = explained
            .iter()
            .filter(|at| lines.get(**at).is_some_and(|line| attempt.explains(line)))
            .map(|at| at + 1)
            .collect();
        if attempt.answer.is_none() {
            next.extend(&explained);
        }
        explained = next;
    }
    explained.contains(&lines.len())
}

/// Checks a history with one line for each version.
fn check_versions(
    name: &str,
    lines: &[HistoryLine],
    attempts: &[SkillAttempt],
    current: &HistoryLine,
    findings: &mut Findings,
) {
    let distinct: BTreeSet<&HistoryLine> = lines.iter().collect();
    findings.unless(distinct.len() == lines.len(), || format!("{name}: a version has two lines: {lines:?}"));
    for line in lines {
        let is_known = attempts.iter().any(|attempt| attempt.explains(line));
        findings.unless(is_known, || format!("{name}: nobody wrote {line:?}"));
    }
    for answer in attempts.iter().filter_map(|attempt| attempt.answer.as_ref()) {
        findings.unless(distinct.contains(answer), || format!("{name}: {answer:?} is not in the history"));
    }
    // The current state is the last answered write, or a later one.
    let last = attempts.iter().rposition(|attempt| attempt.answer.is_some()).unwrap_or_default();
    let is_last = attempts[last..].iter().any(|attempt| attempt.explains(current));
    findings.unless(is_last && distinct.contains(current), || {
        format!("{name}: {:?} was answered, {current:?} is there", attempts[last].answer)
    });
}

fn hash_of(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn version_of(text: &str) -> String {
    hash_of(text)[..12].to_owned()
}
