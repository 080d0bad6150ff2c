//! Writer of skills for the crash test. It knows what each of its skills must be, and compares that with the store after
//! every request whose answer was lost, and at the end.

use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::StatusCode;
use tokio::sync::watch;

use super::approval_rows::ApprovalRows;
use super::expected_skill::{ExpectedSkill, SkillChange, StoredState};
use super::tenants::StoreTenant;
use super::{Dice, Findings};

/// Skills that one program writes again and again.
const SKILLS: usize = 3;
const STATUSES: [&str; 3] = ["Draft", "Approved", "Disabled"];

pub struct SkillWriter {
    number: usize,
    tenant: StoreTenant,
    answered: Arc<AtomicUsize>,
    dice: Dice,
}

/// What one program wrote, and what must be there now.
pub struct WrittenSkills {
    tenant: StoreTenant,
    skills: HashMap<String, ExpectedSkill>,
    /// How often each version was approved, by skill and version.
    approvals: HashMap<(String, String), usize>,
    pub changes: ChangeCounts,
    pub findings: Findings,
}

/// Answered changes.
#[derive(Clone, Copy, Default)]
pub struct ChangeCounts {
    pub writes: usize,
    pub statuses: usize,
    pub deletions: usize,
    pub restores: usize,
}

impl ChangeCounts {
    pub fn sum(all: impl Iterator<Item = Self>) -> Self {
        all.fold(Self::default(), |sum, more| Self {
            writes: sum.writes + more.writes,
            statuses: sum.statuses + more.statuses,
            deletions: sum.deletions + more.deletions,
            restores: sum.restores + more.restores,
        })
    }

    pub fn has_all(&self) -> bool {
        [self.writes, self.statuses, self.deletions, self.restores].iter().all(|count| *count > 0)
    }

    fn count(&mut self, change: &SkillChange) {
        *match change {
            SkillChange::Write { .. } => &mut self.writes,
            SkillChange::Status(_) => &mut self.statuses,
            SkillChange::Delete => &mut self.deletions,
            SkillChange::Restore => &mut self.restores,
        } += 1;
    }
}

impl Display for ChangeCounts {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Self { writes, statuses, deletions, restores } = self;
        write!(
            out,
            "{writes} skill writes, {statuses} status changes, {deletions} deletions, {restores} restored"
        )
    }
}

impl SkillWriter {
    pub fn new(number: usize, tenant: StoreTenant, answered: Arc<AtomicUsize>, dice: Dice) -> Self {
        Self { number, tenant, answered, dice }
    }

    pub async fn writes(mut self, enough: watch::Receiver<bool>) -> WrittenSkills {
        let mut written = WrittenSkills {
            tenant: self.tenant.clone(),
            skills: HashMap::new(),
            approvals: HashMap::new(),
            changes: ChangeCounts::default(),
            findings: Findings::default(),
        };
        for round in 0.. {
            // After a finding nothing is known any more.
            if *enough.borrow() || written.findings.is_any() {
                break;
            }
            let name = format!("tide-{}-{}", self.number, self.dice.below(SKILLS));
            let change = self.choose(round, written.skills.get(&name));
            if written.change(&name, &change).await {
                self.answered.fetch_add(1, Ordering::Relaxed);
            }
        }
        written
    }

    fn choose(&mut self, mark: usize, skill: Option<&ExpectedSkill>) -> SkillChange {
        let status = STATUSES[self.dice.below(STATUSES.len())];
        let (exists, restores) =
            skill.map_or((false, false), |skill| (skill.exists(), skill.can_be_restored()));
        match (exists, self.dice.below(12)) {
            (true, 0..=1) => SkillChange::Delete,
            (true, 2) => SkillChange::Restore,
            (true, 3..=6) => SkillChange::Status(status),
            (false, 0..=5) if restores => SkillChange::Restore,
            (false, 6) => SkillChange::Status(status),
            (false, 7) => SkillChange::Delete,
            _ => SkillChange::Write { mark, status },
        }
    }
}

impl WrittenSkills {
    /// Asks for one change and notes what became of it. False if its answer was lost.
    async fn change(&mut self, name: &str, change: &SkillChange) -> bool {
        let before = self.skills.get(name).cloned().unwrap_or_default();
        let expected = before.after(change, &self.tenant);
        let (method, path, body) = change.request(name, &self.tenant);
        let Some((status, text)) = self.tenant.client.answer(method, &path, body.as_ref()).await else {
            if !self.is_as(name, expected.as_ref().unwrap_or(&before), Some(&before)).await {
                return false;
            }
            if let Ok(after) = expected {
                self.note(name, after, change);
            }
            return false;
        };
        let (is_right, wanted) = match &expected {
            Ok(_) => (status.is_success(), StatusCode::OK),
            Err(code) => (status == *code, *code),
        };
        self.findings.unless(is_right, || {
            format!("{name}: {change:?} of {before:?} was answered {status} {text}, not {wanted}")
        });
        if let Ok(after) = expected {
            self.changes.count(change);
            self.note(name, after, change);
        }
        true
    }

    /// How often its skills were approved.
    pub fn approvals(&self) -> usize {
        self.approvals.values().sum()
    }

    fn note(&mut self, name: &str, after: ExpectedSkill, change: &SkillChange) {
        let is_write = matches!(change, SkillChange::Write { .. } | SkillChange::Status(_));
        if let Some(version) = after.approved_version(name, &self.tenant).filter(|_| is_write) {
            *self.approvals.entry((name.to_owned(), version)).or_default() += 1;
        }
        self.skills.insert(name.to_owned(), after);
    }

    /// Whether the stored skill is the expected one. If it is another one, it must be this `other`.
    async fn is_as(&mut self, name: &str, expected: &ExpectedSkill, other: Option<&ExpectedSkill>) -> bool {
        let stored = match self.stored(name).await {
            Ok(stored) => stored,
            Err(why) => {
                self.findings.unless(false, || format!("{name}: {why}"));
                return false;
            }
        };
        let difference = |state: &ExpectedSkill| state.difference(stored.as_ref(), name, &self.tenant);
        let Some(why) = difference(expected) else { return true };
        let is_other = other.is_some_and(|other| difference(other).is_none());
        self.findings.unless(is_other, || format!("{} {name} {why}", self.tenant.name));
        false
    }

    /// A skill as it is stored. It asks until a server answers.
    async fn stored(&self, name: &str) -> Result<Option<StoredState>, String> {
        let path = format!("/v1/skills/{name}");
        loop {
            let skill = self.tenant.client.answer("GET", &path, None).await;
            let history = self.tenant.client.answer("GET", &format!("{path}/versions"), None).await;
            match (skill, history) {
                (Some((StatusCode::OK, skill)), Some((StatusCode::OK, history))) => {
                    return StoredState::read(&skill, &history).map(Some);
                }
                (Some((StatusCode::NOT_FOUND, _)), Some((StatusCode::NOT_FOUND, _))) => return Ok(None),
                (Some((skill, _)), Some((history, _))) => {
                    return Err(format!("the skill was answered {skill}, its history {history}"));
                }
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }

    /// Compares all skills with the store, and all approvals with the audit log. Skills that were deleted are restored,
    /// so that what comes back is compared too.
    pub async fn check(&mut self, log: &ApprovalRows) {
        for (name, expected) in self.skills.clone() {
            self.is_as(&name, &expected, None).await;
            if !expected.exists() && expected.can_be_restored() {
                self.change(&name, &SkillChange::Restore).await;
                let restored = self.skills[&name].clone();
                self.is_as(&name, &restored, None).await;
            }
        }
        log.check(self.tenant.kept, &self.approvals, &mut self.findings);
    }
}
