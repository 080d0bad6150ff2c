//! Brings the portal to what the jobs want.

use std::collections::HashSet;

use futures_util::StreamExt;
use futures_util::stream;
use jiff::Timestamp;
use parking_lot::Mutex;
use posthouse_wire::JobId;
use posthouse_wire::cron::{Proof, Provision};

use super::wish::{Arm, Wish, wish};
use super::{Chronos, Cron, Refusal};

/// Calls to the portal at a time.
const AT_A_TIME: usize = 8;

/// What a round came to.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// The first thing that went wrong, and how many did.
    pub trouble: Option<String>,
    pub troubles: usize,
    /// The portal will not have us.
    pub refused: Option<String>,
    /// When to look again although nothing has changed: somebody's claim may have lapsed by then.
    pub again: Option<Timestamp>,
}

/// One thing to be said to the portal.
enum Say {
    Arm { job: JobId, arm: Box<Arm> },
    Cancel(JobId),
}

/// Reads the jobs and says to the portal what it does not know yet. A failure stops nothing but itself.
pub(super) async fn reconcile(cron: &Cron, chronos: &Chronos) -> Round {
    let round = Mutex::new(Round::default());
    let wants_listing = cron.0.memory.lock().wants_listing();
    if wants_listing {
        match chronos.portal.list().await {
            Ok(listing) => cron.0.memory.lock().learn(listing),
            Err(refusal) => round.lock().note("list", None, refusal),
        }
    }
    cron.0.memory.lock().before_reading();
    // Read after the listing: a job that was made meanwhile is no orphan.
    let jobs = match cron.0.store.list().await {
        Ok(jobs) => jobs,
        Err(fault) => {
            round.lock().note("read the jobs", None, Refusal::Passing(fault.to_string()));
            return round.into_inner();
        }
    };
    let mut wishes = Vec::with_capacity(jobs.len());
    for job in &jobs {
        let wish = wish(job, cron.now(), &cron.0.terms.zone);
        if let Wish::Leave { until } = &wish {
            let mut round = round.lock();
            round.again = Some(round.again.map_or(*until, |again| again.min(*until)));
        }
        wishes.push((job.id(), wish));
    }
    let says = to_say(cron, chronos, wishes);
    let round = &round;
    stream::iter(says)
        .for_each_concurrent(AT_A_TIME, |say| async move {
            // Once is enough to know that.
            let over = round.lock().refused.is_some();
            if over {
                return;
            }
            let (what, job) = match &say {
                Say::Arm { job, .. } => ("arm", job),
                Say::Cancel(job) => ("cancel", job),
            };
            if let Err(refusal) = put(cron, chronos, &say).await {
                round.lock().note(what, Some(job), refusal);
            }
        })
        .await;
    std::mem::take(&mut *round.lock())
}

/// What the portal lacks, the soonest first, and then what it holds that nobody wants.
fn to_say(cron: &Cron, chronos: &Chronos, wishes: Vec<(JobId, Wish)>) -> Vec<Say> {
    let memory = cron.0.memory.lock();
    let mut orphans = memory.jobs();
    let wanted: HashSet<&JobId> =
        wishes.iter().filter(|(_, wish)| *wish != Wish::Nothing).map(|(job, _)| job).collect();
    orphans.retain(|armed| !wanted.contains(armed) && !memory.is_moving(armed));
    let mut arms = Vec::new();
    for (job, wish) in wishes {
        let Wish::Arm(arm) = wish else { continue };
        if memory.is_moving(&job) {
            continue;
        }
        let keyless = chronos.proof == Proof::PerJobKey && !chronos.keys.holds(&job);
        if keyless || memory.lacks(&job, &arm, cron.now()) {
            arms.push((job, arm));
        }
    }
    arms.sort_by_key(|(_, arm)| arm.fire_at.due_us());
    let arms = arms.into_iter().map(|(job, arm)| Say::Arm { job, arm });
    arms.chain(orphans.into_iter().map(Say::Cancel)).collect()
}

async fn put(cron: &Cron, chronos: &Chronos, say: &Say) -> Result<(), Refusal> {
    match say {
        Say::Cancel(job) => {
            chronos.portal.cancel(job).await?;
            cron.0.memory.lock().cancelled(job);
            chronos.keys.forget(job);
        }
        Say::Arm { job, arm } => {
            if arm.abandoned {
                chronos.portal.cancel(job).await?;
            }
            let wish = Provision {
                job: job.clone(),
                fire_at: arm.fire_at.clone(),
                callback: chronos.callback.clone(),
                dedup: Provision::dedup_key(job, &arm.fire_at),
                proof: chronos.proof,
                policy: arm.policy.clone(),
                then: arm.then.clone(),
            };
            // Noted before the portal hears of it: a job that is due fires before the answer is here, and
            // that it fired must find a note to cross out.
            let before = cron.0.memory.lock().arming(&wish);
            match chronos.portal.provision(&wish).await {
                Ok(provisioned) => {
                    if let Some(key) = provisioned.cron_key {
                        chronos.keys.keep(job, key);
                    }
                }
                Err(refusal) => {
                    cron.0.memory.lock().not_armed(&wish, before);
                    return Err(refusal);
                }
            }
        }
    }
    Ok(())
}

impl Round {
    pub(super) fn went_well(&self) -> bool {
        self.troubles == 0
    }

    fn note(&mut self, what: &str, job: Option<&JobId>, refusal: Refusal) {
        self.troubles += 1;
        let job = job.map(|job| format!(" {job}")).unwrap_or_default();
        tracing::debug!("could not {what}{job}: {refusal}");
        match refusal {
            Refusal::Identity(why) => {
                self.refused.get_or_insert(why);
            }
            Refusal::Passing(why) => {
                self.trouble.get_or_insert(format!("could not {what}{job}: {why}"));
            }
        }
    }
}
