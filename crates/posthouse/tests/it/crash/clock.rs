//! Crash test of the clock: SIGKILL while agents arm, replace and cancel jobs and take their fires. No
//! confirmed arm is lost, nothing runs twice or early, and a cancelled job does not fire.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use posthouse_agent::verify::{KeySet, check_claims};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::cron::{FireAt, Missed, Policy, Provision, audience};
use serde_json::json;

use super::{Dice, PATIENCE, kills};
use crate::cron::{Armer, Call, Callback, ahead};
use crate::talk::provide_crypto;
use crate::test_server::TestServer;

const AGENTS: usize = 4;
/// Callers per agent, so that their requests overlap.
const CALLERS: usize = 6;
/// Longest commit: a fire answered earlier than this before a kill is not sent again.
const COMMITTED: Duration = Duration::from_secs(10);
/// Tokens state their signing time in seconds, rounded down.
const SECOND: Duration = Duration::from_secs(1);

/// One due time that an agent asked for, and the answer it got.
#[derive(Debug)]
struct ArmRequest {
    agent: String,
    job: String,
    fire_at: FireAt,
    /// Whether the arm was confirmed.
    is_armed: bool,
    ended: Ended,
}

/// One call, and when the server signed its token. The signing time, not the time of reading, tells whether
/// a call was made before or after a kill.
struct ReceivedFire {
    call: Call,
    signed: Moment,
}

/// What the agent did with the arm later.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ended {
    No,
    /// A cancel or a newer arm was confirmed at that moment.
    At(Moment),
    /// It was tried, and the result is unknown.
    Perhaps,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_arm_is_lost_run_twice_or_early_whenever_the_server_is_killed() {
    provide_crypto();
    let mut server = TestServer::open(&[("POSTHOUSE_CLOCK__REQUESTS_PER_SECOND", "1000")]);
    server.does(&["tenant", "create", "acme"]);
    let callback = Callback::open().await;
    let mut armers = Vec::new();
    for number in 0..AGENTS {
        let name = format!("agent{number}");
        let agent = server.does(&["agent", "create", &name, "--tenant", "acme"]);
        let instance = agent["instance_id"].as_str().unwrap().to_owned();
        let armer = Armer::new(&server, &agent, callback.of(&instance)).await;
        armers.push((instance, armer));
    }
    let jwks = reqwest::get(format!("{}/.well-known/jwks.json", server.url)).await.unwrap();
    let keys = KeySet::read(&jwks.bytes().await.unwrap()).unwrap();

    let enough = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..AGENTS * CALLERS)
        .map(|number| {
            let (instance, armer) = armers[number % AGENTS].clone();
            let caller =
                Caller { number, instance, armer, dice: Dice(0x2545_f491_4f6c_dd1d ^ (number as u64 + 1)) };
            tokio::spawn(caller.calls(Arc::clone(&enough)))
        })
        .collect();

    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut deaths = Vec::new();
    for kill in 0..kills() {
        // At any moment, or right after an agent has answered: ideally between its 202 and the commit.
        if kill % 2 == 0 {
            tokio::time::sleep(Duration::from_millis(dice.below(1500) as u64)).await;
        } else {
            callback.called(callback.len() + 1 + dice.below(60)).await;
            tokio::time::sleep(Duration::from_micros(dice.below(4000) as u64)).await;
        }
        tokio::task::block_in_place(|| server.kill());
        // One server has ended, the next has not started.
        deaths.push(Timepiece::wall().now());
        tokio::task::block_in_place(|| server.start());
    }
    enough.store(true, Ordering::Relaxed);
    let mut arms = Vec::new();
    for caller in callers {
        arms.extend(caller.await.unwrap());
    }
    for (_, armer) in &armers {
        until_nothing_is_armed(armer).await;
    }
    assert_eq!(server.does(&["job", "list"])["items"], json!([]), "given up, or left");

    let heard = |call: Call| {
        let audience = audience(&call.agent.as_str().into());
        let Some(claims) = check_claims(call.token(), &audience, &keys, Some(&server.url), call.at) else {
            panic!("a token that its agent refuses: {call:?}");
        };
        ReceivedFire { signed: Moment::from_seconds(claims.get("iat").unwrap().as_i64().unwrap()), call }
    };
    let calls: Vec<ReceivedFire> = callback.calls().into_iter().map(heard).collect();
    Sum::of(&arms, &calls, &deaths).is_right(&deaths);
}

async fn until_nothing_is_armed(armer: &Armer) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !armer.listed().await.is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    if waited.await.is_err() {
        panic!("still armed: {:?}", armer.listed().await);
    }
}

/// A client that sends one request after another.
struct Caller {
    number: usize,
    instance: String,
    armer: Armer,
    dice: Dice,
}

impl Caller {
    async fn calls(mut self, enough: Arc<AtomicBool>) -> Vec<ArmRequest> {
        let mut arms = Vec::new();
        for round in 0.. {
            if enough.load(Ordering::Relaxed) {
                break;
            }
            let job = format!("job-{}-{round}", self.number);
            match self.dice.below(8) {
                0 | 1 => self.replaces(&job, &mut arms).await,
                2 | 3 => self.cancels(&job, &mut arms).await,
                4 => self.goes_on(&job, &mut arms).await,
                5 => self.asks_once(&job, &mut arms).await,
                _ => drop(self.arms(&job, &mut arms).await),
            }
            tokio::time::sleep(self.millis(60)).await;
        }
        arms
    }

    fn millis(&mut self, most: usize) -> Duration {
        Duration::from_millis(self.dice.below(most) as u64)
    }

    fn noted(&self, job: &str, fire_at: &FireAt, is_armed: bool) -> ArmRequest {
        let (agent, job) = (self.instance.clone(), job.to_owned());
        ArmRequest { agent, job, fire_at: fire_at.clone(), is_armed, ended: Ended::No }
    }

    /// Arms, and repeats the same request until there is an answer.
    async fn arms(&mut self, job: &str, arms: &mut Vec<ArmRequest>) -> usize {
        let due = ahead(self.millis(3000));
        // Due times of one job differ, because an equal one would be the same arm.
        let fire_at = FireAt::from_micros(due.due_us() + (arms.len() % 1000) as i64);
        self.insists("provision", &self.armer.provision(job, &fire_at).body()).await;
        arms.push(self.noted(job, &fire_at, true));
        arms.len() - 1
    }

    /// Arms once, and gives up if there is no answer.
    async fn asks_once(&mut self, job: &str, arms: &mut Vec<ArmRequest>) {
        let fire_at = ahead(self.millis(3000));
        let answer = self.armer.posts("provision", &self.armer.provision(job, &fire_at).body()).await;
        let is_armed = answer.is_some_and(|(status, _)| status == 200);
        arms.push(self.noted(job, &fire_at, is_armed));
    }

    async fn replaces(&mut self, job: &str, arms: &mut Vec<ArmRequest>) {
        let first = self.arms(job, arms).await;
        tokio::time::sleep(self.millis(2000)).await;
        self.arms(job, arms).await;
        arms[first].ended = Ended::At(Timepiece::wall().now());
    }

    async fn cancels(&mut self, job: &str, arms: &mut Vec<ArmRequest>) {
        let armed = self.arms(job, arms).await;
        tokio::time::sleep(self.millis(2000)).await;
        let body = json!({ "job_id": job });
        arms[armed].ended = match self.dice.below(4) {
            0 => match self.armer.posts("cancel", &body).await {
                Some((200, _)) => Ended::At(Timepiece::wall().now()),
                _ => Ended::Perhaps,
            },
            _ => {
                self.insists("cancel", &body).await;
                Ended::At(Timepiece::wall().now())
            }
        };
    }

    /// Arms the job's next times at once; each must run, however late.
    async fn goes_on(&mut self, job: &str, arms: &mut Vec<ArmRequest>) {
        let first = self.dice.below(1000) as u64;
        let times: Vec<FireAt> = (0..3).map(|n| ahead(Duration::from_millis(first + 700 * n))).collect();
        let arm = Provision {
            then: times[1..].to_vec(),
            policy: Policy { missed: Missed::All, window: Some(3600), ..Policy::default() },
            ..self.armer.provision(job, &times[0])
        };
        self.insists("provision", &arm.body()).await;
        arms.extend(times.iter().map(|time| self.noted(job, time, true)));
    }

    async fn insists(&self, verb: &str, body: &serde_json::Value) {
        let insisting = async {
            loop {
                match self.armer.posts(verb, body).await {
                    Some((200, _)) => return,
                    // The server is down, or not ready yet.
                    None | Some((503, _)) => tokio::time::sleep(Duration::from_millis(20)).await,
                    Some(other) => panic!("{verb} was answered {other:?}"),
                }
            }
        };
        tokio::time::timeout(PATIENCE, insisting).await.expect("the server does not answer");
    }
}

/// Totals of this test.
#[derive(Debug, Default, PartialEq)]
struct Sum {
    wished: usize,
    answered: usize,
    replaced_or_cancelled: usize,
    /// Of those, ended before they were due: they must never fire.
    silenced: usize,
    run: usize,
    /// Confirmed, neither replaced nor cancelled, and never run.
    lost: usize,
    twice: usize,
    early: usize,
    /// Called although a cancel or a newer arm was confirmed before they were due.
    not_silent: usize,
    /// Calls that were never armed.
    unasked: usize,
    sent_again: usize,
    /// Of those, with no kill in between.
    without_cause: usize,
    /// Details of each failure.
    stories: Vec<String>,
}

impl Sum {
    fn of(arms: &[ArmRequest], calls: &[ReceivedFire], deaths: &[Moment]) -> Self {
        let mut heard: HashMap<(&str, &str, &str), Vec<&ReceivedFire>> = HashMap::new();
        for one in calls {
            let ReceivedFire { call, .. } = one;
            heard.entry((&call.agent, &call.job, &call.fire_at)).or_default().push(one);
        }
        let mut sum = Self { wished: arms.len(), ..Self::default() };
        for arm in arms {
            let mut heard = heard.remove(&(&*arm.agent, &*arm.job, arm.fire_at.text())).unwrap_or_default();
            let calls: Vec<&Call> = heard.iter().map(|one| &one.call).collect();
            let runs = calls.iter().filter(|call| call.runs).count();
            let before = sum.broken();
            sum.answered += usize::from(arm.is_armed);
            sum.run += runs;
            sum.twice += usize::from(runs > 1);
            sum.early += calls.iter().filter(|call| call.at.millis() * 1000 < arm.fire_at.due_us()).count();
            match arm.ended {
                Ended::No if arm.is_armed && runs == 0 => sum.lost += 1,
                Ended::At(moment) => {
                    sum.replaced_or_cancelled += 1;
                    // Before its due time no attempt can have begun.
                    if moment.millis() < arm.fire_at.due_ms() {
                        sum.silenced += 1;
                        sum.not_silent += calls.len();
                    }
                }
                _ => {}
            }
            // A call that was in transit at a kill may be read after calls of the next server.
            heard.sort_by_key(|one| one.signed);
            for pair in heard.windows(2) {
                let has_cause = |death: &Moment| {
                    (pair[0].signed..=pair[1].signed + SECOND).contains(death)
                        && pair[0].call.at + COMMITTED >= *death
                };
                sum.sent_again += 1;
                sum.without_cause += usize::from(!deaths.iter().any(has_cause));
            }
            if sum.broken() != before {
                let heard: Vec<_> = calls.iter().map(|call| (call.at, call.runs)).collect();
                sum.stories.push(format!("{arm:?} was called at {heard:?}"));
            }
        }
        sum.stories.extend(heard.keys().map(|key| format!("{key:?} was never wished for")));
        sum.unasked = heard.values().map(Vec::len).sum();
        sum
    }

    /// Counts that must be zero.
    fn broken(&self) -> [usize; 6] {
        [self.lost, self.twice, self.early, self.not_silent, self.unasked, self.without_cause]
    }

    fn is_right(&self, deaths: &[Moment]) {
        println!(
            "{} kills, {} due times wished for, {} answered for, {} of them replaced or cancelled ({} before \
             their time): {} run, {} lost, {} run twice, {} early, {} not silent, {} unasked; {} fires sent again \
             because a kill fell between 202 and its commit, {} without that cause",
            deaths.len(),
            self.wished,
            self.answered,
            self.replaced_or_cancelled,
            self.silenced,
            self.run,
            self.lost,
            self.twice,
            self.early,
            self.not_silent,
            self.unasked,
            self.sent_again,
            self.without_cause,
        );
        assert_eq!(self.broken(), [0; 6], "{:#?}\nkilled at {deaths:?}", self.stories);
        assert!(self.run > 0 && self.silenced > 0, "{self:?}");
    }
}

/// Tests the check itself: it detects each kind of failure.
#[test]
fn the_sum_tells_every_broken_promise_from_a_kept_one() {
    let moment = |ms| Moment::from_seconds(1_000) + Duration::from_millis(ms);
    let arm = |job: &str, due, ended| ArmRequest {
        agent: "heron".to_owned(),
        job: job.to_owned(),
        fire_at: FireAt::from_micros(moment(due).millis() * 1000),
        is_armed: true,
        ended,
    };
    let call = |arm: &ArmRequest, at, runs| ReceivedFire {
        call: Call {
            agent: arm.agent.clone(),
            job: arm.job.clone(),
            fire_at: arm.fire_at.text().to_owned(),
            headers: http::HeaderMap::new(),
            at: moment(at),
            runs,
        },
        signed: Moment::from_seconds(moment(at).seconds()),
    };
    let arms = [
        arm("kept", 100, Ended::No),
        arm("lost", 100, Ended::No),
        arm("early", 100, Ended::No),
        arm("twice", 100, Ended::No),
        arm("silent", 9_000, Ended::At(moment(50))),
        arm("loud", 9_000, Ended::At(moment(50))),
        arm("too late", 100, Ended::At(moment(150))),
        arm("again", 19_000, Ended::No),
        arm("again long after", 100, Ended::No),
        arm("again for nothing", 100, Ended::No),
    ];
    let [kept, _, early, twice, _, loud, too_late, again, long_after, for_nothing] = &arms;
    let calls = [
        call(kept, 100, true),
        call(early, 99, true),
        call(twice, 19_800, true),
        call(twice, 21_000, true),
        call(loud, 9_100, true),
        call(too_late, 120, true),
        call(again, 19_900, true),
        call(again, 21_100, false),
        call(long_after, 200, true),
        call(long_after, 21_100, false),
        call(for_nothing, 15_000, true),
        call(for_nothing, 18_500, false),
        call(&arm("unasked", 0, Ended::No), 100, true),
    ];
    let sum = Sum::of(&arms, &calls, &[moment(20_000)]);
    let expected = Sum {
        wished: 10,
        answered: 10,
        replaced_or_cancelled: 3,
        silenced: 2,
        run: 9,
        lost: 1,
        twice: 1,
        early: 1,
        not_silent: 1,
        unasked: 1,
        sent_again: 4,
        without_cause: 2,
        stories: Vec::new(),
    };
    assert_eq!(sum.stories.len(), 7, "{:#?}", sum.stories);
    assert_eq!(Sum { stories: Vec::new(), ..sum }, expected);
}
