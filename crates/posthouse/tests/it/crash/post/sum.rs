//! Totals of the crash test of the post: lost, repeated and changed messages.

use std::collections::HashMap;
use std::time::Duration;

use posthouse_agent::post::{Client, DispatchReceipt, Fault, ReceiptState};
use posthouse_wire::CorrelationId;

use super::agents::{Seen, answer};
use super::hook::Call;
use super::program::{What, Written};
use super::{AGENTS, HOOKED};

/// A killed server's pending deliveries are sent again after the next start. A passing run never waits this
/// long.
const SETTLED_WITHIN: Duration = Duration::from_secs(150);

pub type Receipts = HashMap<String, Vec<DispatchReceipt>>;
pub type Answers = HashMap<CorrelationId, String>;

/// Waits until everything with a receipt has ended, and returns the server's receipts. Unknown or
/// unfinished ones are counted as failures later.
pub async fn settled(client: &Client, written: &[Written]) -> Receipts {
    let mut receipts = Receipts::new();
    let mut open: Vec<&String> = written.iter().filter_map(promised).collect();
    let _ = tokio::time::timeout(SETTLED_WITHIN, async {
        while !open.is_empty() {
            let mut still = Vec::new();
            for dispatch in std::mem::take(&mut open) {
                let found = match client.receipt(&dispatch.as_str().into()).await {
                    Ok(found) => found,
                    Err(Fault::Refused { status: 404, .. }) => Vec::new(),
                    Err(other) => panic!("the receipt of {dispatch}: {other}"),
                };
                if found.iter().any(|receipt| !has_ended(receipt)) {
                    still.push(dispatch);
                }
                receipts.insert(dispatch.clone(), found);
            }
            open = still;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    receipts
}

/// The stored answers of all questions, fetched once more.
pub async fn attached(client: &Client, written: &[Written]) -> Answers {
    let mut answers = Answers::new();
    for one in written {
        if let What::Question(correlation, _) = &one.what {
            // A missing answer is counted as a failure later.
            if let Ok(answered) = client.attach(correlation).await {
                answers.insert(correlation.clone(), answered.response.content);
            }
        }
    }
    answers
}

fn promised(written: &Written) -> Option<&String> {
    match &written.what {
        What::Dispatch(dispatch) if written.answered => Some(dispatch),
        _ => None,
    }
}

fn has_ended(receipt: &DispatchReceipt) -> bool {
    match receipt.state {
        ReceiptState::Acknowledged | ReceiptState::Failed | ReceiptState::Expired => true,
        // A webhook does not acknowledge.
        ReceiptState::Delivered => receipt.connector != "relay",
        ReceiptState::Scheduled | ReceiptState::Queued => false,
    }
}

#[derive(Debug, Default, PartialEq)]
pub struct Sum {
    written: usize,
    /// With a receipt or an answer.
    promised: usize,
    questions: usize,
    handled: usize,
    /// Receipts that were given and are now unknown.
    forgotten: usize,
    /// Known, but not acknowledged by the agent or accepted by the receiver.
    unfinished: usize,
    /// Confirmed, but no agent or receiver ever had the text.
    lost: usize,
    /// Handled more than once by one agent.
    twice: usize,
    /// Handled by an agent that was not the recipient, or written by nobody.
    astray: usize,
    /// Answers of another agent than the asked one, or answers that differ when fetched again.
    wrong: usize,
    hooked: usize,
    hooked_again: usize,
    /// Calls whose bytes differ from the first call.
    changed: usize,
    /// Details of each failure.
    stories: Vec<String>,
}

impl Sum {
    pub fn of(
        written: &[Written],
        receipts: &Receipts,
        answers: &Answers,
        seen: &Seen,
        calls: &[Call],
    ) -> Self {
        let mut sum = Self { written: written.len(), handled: seen.len(), ..Self::default() };
        let mut hooked: HashMap<(&str, &str), Vec<&Call>> = HashMap::new();
        for call in calls {
            hooked.entry((&call.agent, &call.dispatch)).or_default().push(call);
        }
        let mut unclaimed = seen.clone();
        for one in written {
            let before = sum.broken();
            let times = unclaimed.remove(&(one.agent.clone(), one.text.clone())).unwrap_or(0);
            sum.promised += usize::from(one.answered);
            sum.twice += usize::from(times > 1);
            match &one.what {
                What::Dispatch(dispatch) if one.answered => {
                    let known = receipts.get(dispatch).map(Vec::as_slice).unwrap_or_default();
                    sum.forgotten += usize::from(known.is_empty());
                    for receipt in known {
                        let good = match receipt.connector.as_str() {
                            "relay" => receipt.state == ReceiptState::Acknowledged && times > 0,
                            _ => receipt.state == ReceiptState::Delivered,
                        };
                        sum.unfinished += usize::from(!good);
                        let called = hooked.get(&(one.agent.as_str(), dispatch.as_str()));
                        let taken = called.is_some_and(|calls| {
                            calls.iter().any(|call| call.taken && call.text == one.text)
                        });
                        sum.lost += usize::from(receipt.connector != "relay" && !taken);
                    }
                    sum.lost += usize::from(one.agent != HOOKED && times == 0);
                }
                What::Dispatch(_) => {}
                What::Question(correlation, told) => {
                    sum.questions += 1;
                    let expected = answer(&one.agent, &one.text);
                    let told = &told.response;
                    let is_right = told.content == expected && told.agent_id == one.agent;
                    sum.wrong += usize::from(!is_right || answers.get(correlation) != Some(&expected));
                    sum.lost += usize::from(times == 0);
                }
            }
            if sum.broken() != before {
                let known = match &one.what {
                    What::Dispatch(dispatch) => receipts.get(dispatch),
                    What::Question(..) => None,
                };
                sum.stories.push(format!("{one:?} was handled {times} times, {known:?}"));
            }
        }
        sum.astray = unclaimed.len();
        sum.stories.extend(unclaimed.keys().map(|key| format!("{key:?} was never written")));
        for calls in hooked.values() {
            sum.hooked += 1;
            sum.hooked_again += calls.len() - 1;
            sum.changed += calls.iter().filter(|call| call.body != calls[0].body).count();
        }
        sum
    }

    /// Counts that must be zero.
    fn broken(&self) -> [usize; 7] {
        [self.forgotten, self.unfinished, self.lost, self.twice, self.astray, self.wrong, self.changed]
    }

    pub fn is_right(&self, kills: usize) {
        println!(
            "{kills} kills, {} wishes of programs, {} with a receipt or an answer, {} of them questions; {} handled \
             by {AGENTS} agents: {} receipts forgotten, {} not finished, {} lost, {} handled twice, {} astray, {} \
             answers wrong; {} dispatches to a webhook, {} calls repeated, {} with other bytes",
            self.written,
            self.promised,
            self.questions,
            self.handled,
            self.forgotten,
            self.unfinished,
            self.lost,
            self.twice,
            self.astray,
            self.wrong,
            self.hooked,
            self.hooked_again,
            self.changed,
        );
        assert_eq!(self.broken(), [0; 7], "{:#?}", self.stories);
        assert!(self.questions > 0 && self.hooked > 0 && self.promised > self.questions, "{self:?}");
    }
}

/// Tests the check itself: it detects each kind of failure.
#[test]
fn the_sum_tells_every_broken_promise_from_a_kept_one() {
    let told = |agent: &str, id: &str, answered| Written {
        agent: agent.to_owned(),
        text: id.to_owned(),
        what: What::Dispatch(id.to_owned()),
        answered,
    };
    let asked = |id: &str, content: &str| {
        let answer = serde_json::json!({
            "correlation_id": id, "content": content, "sent_at": 1, "agent_id": "heron",
        });
        let what = What::Question(id.into(), serde_json::from_value(answer).unwrap());
        Written { agent: "heron".to_owned(), text: id.to_owned(), what, answered: true }
    };
    let written = [
        told("heron", "kept", true),
        told("heron", "perhaps", false),
        told("heron", "forgotten", true),
        told("heron", "queued", true),
        told("heron", "unheard", true),
        told("heron", "twice", true),
        told(HOOKED, "hooked", true),
        told(HOOKED, "never called", true),
        told(HOOKED, "called otherwise", true),
        asked("right", "heron heard right"),
        asked("wrong", "perry heard wrong"),
        asked("changed", "heron heard changed"),
    ];
    let receipt = |id: &str, connector: &str, state: &str| {
        let receipt = serde_json::json!({
            "dispatch_id": id, "connector": connector, "agent_id": "heron", "route": "deliver",
            "state": state, "sent_at": 1, "accepted_at": 1,
        });
        (id.to_owned(), vec![serde_json::from_value(receipt).unwrap()])
    };
    let receipts = Receipts::from([
        receipt("kept", "relay", "acknowledged"),
        receipt("queued", "relay", "queued"),
        receipt("unheard", "relay", "acknowledged"),
        receipt("twice", "relay", "acknowledged"),
        receipt("hooked", "hooks", "delivered"),
        receipt("never called", "hooks", "delivered"),
        receipt("called otherwise", "hooks", "delivered"),
    ]);
    let answers = [("right", "heron heard right"), ("wrong", "perry heard wrong"), ("changed", "else")];
    let answers = answers.map(|(id, content)| (id.into(), content.to_owned())).into();
    let seen = ["kept", "perhaps", "forgotten", "queued", "right", "wrong", "changed", "nobody's"];
    let mut seen: Seen = seen.map(|text| (("heron".to_owned(), text.to_owned()), 1)).into();
    seen.insert(("heron".to_owned(), "twice".to_owned()), 2);
    let call = |id: &str, body: &str| Call {
        dispatch: id.to_owned(),
        agent: HOOKED.to_owned(),
        text: id.to_owned(),
        body: body.as_bytes().to_vec(),
        taken: true,
    };
    let calls = [
        call("hooked", "a"),
        call("hooked", "a"),
        call("called otherwise", "a"),
        call("called otherwise", "b"),
    ];
    let sum = Sum::of(&written, &receipts, &answers, &seen, &calls);
    let expected = Sum {
        written: 12,
        promised: 11,
        questions: 3,
        handled: 9,
        forgotten: 1,
        unfinished: 2,
        lost: 2,
        twice: 1,
        astray: 1,
        wrong: 2,
        hooked: 2,
        hooked_again: 2,
        changed: 1,
        stories: Vec::new(),
    };
    assert_eq!(Sum { stories: Vec::new(), ..sum }, expected);
}
