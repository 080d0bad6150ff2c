//! Program that writes to agents one message after another, and retries until it gets an answer.

use std::time::Duration;

use posthouse_agent::post::{AgentAnswer, Ask, Client, Fault, Notify, Wake};
use posthouse_time::Timepiece;
use posthouse_wire::CorrelationId;
use posthouse_wire::delivery::WakeTime;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::agents::THOUGHTFUL;
use super::{Dice, HOOKED, PATIENCE};

/// Questions of one program that are open at a time.
const ASKING: usize = 4;

/// What was written, and what the program knows about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    pub agent: String,
    pub text: String,
    pub what: What,
    /// Whether the server gave a receipt, or an answer.
    pub answered: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// Notified or woken, under this dispatch id.
    Dispatch(String),
    /// Asked under this correlation id, with the answer.
    Question(CorrelationId, AgentAnswer),
}

pub struct Program {
    number: usize,
    client: Client,
    door: ApiConnection,
    agents: Vec<String>,
    dice: Dice,
}

impl Program {
    pub fn new(number: usize, client: Client, door: ApiConnection, agents: Vec<String>, dice: Dice) -> Self {
        Self { number, client, door, agents, dice }
    }

    pub async fn writes(mut self, enough: watch::Receiver<bool>) -> Vec<Written> {
        let mut written = Vec::new();
        // Such questions are answered after the next kill, and nobody waits for them in the meantime.
        let mut asking = JoinSet::new();
        for round in 0.. {
            if *enough.borrow() {
                break;
            }
            // Unique, and the same however often it is sent.
            let id = format!("p{}-{round}", self.number);
            let agent = self.agents[self.dice.below(self.agents.len())].clone();
            written.push(match self.dice.below(12) {
                0..=2 => self.notifies(&agent, id).await,
                3 => self.notifies_once(&agent, id).await,
                4 | 5 => self.notifies(HOOKED, id).await,
                6 => self.notifies_a_session(&agent, id).await,
                7 => self.wakes(&agent, id, WakeTime::Immediate).await,
                8 => {
                    let at = Timepiece::wall().now() + Duration::from_millis(self.dice.below(2000) as u64);
                    self.wakes(&agent, id, WakeTime::At(at.millis())).await
                }
                9 if asking.len() < ASKING => {
                    let question = self.question(&agent, &id, &format!("{THOUGHTFUL}{id}"));
                    asking.spawn(asks(self.client.clone(), question));
                    continue;
                }
                10 if asking.len() < ASKING => {
                    let question = self.question(&agent, &id, &format!("{THOUGHTFUL}{id}"));
                    asking.spawn(asks_and_comes_back(self.client.clone(), self.door.clone(), question));
                    continue;
                }
                _ => asks(self.client.clone(), self.question(&agent, &id, &id)).await,
            });
            written.extend(std::iter::from_fn(|| asking.try_join_next()).map(Result::unwrap));
            tokio::time::sleep(Duration::from_millis(self.dice.below(20) as u64)).await;
        }
        written.extend(asking.join_all().await);
        written
    }

    async fn notifies(&self, agent: &str, id: String) -> Written {
        let wish = self.notify(agent, &id);
        let notified = insists(|| self.client.notify(&wish)).await;
        assert!(notified.dispatched.iter().all(|one| one.ok), "{notified:?}");
        // If the webhook knows the agent too, both were tried, under one id.
        let ways = if agent == self.agents[0] { 2 } else { 1 };
        assert_eq!((notified.dispatch_id.as_str(), notified.dispatched.len()), (id.as_str(), ways));
        Written { agent: agent.to_owned(), text: id.clone(), what: What::Dispatch(id), answered: true }
    }

    /// Gives up if there is no answer.
    async fn notifies_once(&self, agent: &str, id: String) -> Written {
        let answered = self.client.notify(&self.notify(agent, &id)).await.is_ok();
        Written { agent: agent.to_owned(), text: id.clone(), what: What::Dispatch(id), answered }
    }

    async fn notifies_a_session(&self, agent: &str, id: String) -> Written {
        let wish = Notify {
            wait: Some(Duration::from_millis(200)),
            // The webhook tries wakes only once.
            connectors: Some(vec!["relay".to_owned()]),
            ..self.notify(&format!("{agent}@desk-{}", self.number), &id)
        };
        insists(|| self.client.notify(&wish)).await;
        Written { agent: agent.to_owned(), text: id.clone(), what: What::Dispatch(id), answered: true }
    }

    async fn wakes(&self, agent: &str, id: String, when: WakeTime) -> Written {
        let mut wish = Wake::new(agent);
        wish.dispatch_id = id.as_str().into();
        wish.opts.context = Some(id.clone());
        wish.opts.when = when;
        wish.connectors = Some(vec!["relay".to_owned()]);
        wish.wait = Some(Duration::from_millis(200));
        insists(|| self.client.wake(&wish)).await;
        Written { agent: agent.to_owned(), text: id.clone(), what: What::Dispatch(id), answered: true }
    }

    fn notify(&self, agent: &str, id: &str) -> Notify {
        let mut wish = Notify::new(agent, id);
        wish.dispatch_id = id.into();
        wish.from = Some(format!("program{}", self.number));
        wish
    }

    fn question(&self, agent: &str, id: &str, text: &str) -> Ask {
        let mut wish = Ask::new(agent, text);
        wish.correlation_id = id.into();
        wish.timeout = PATIENCE;
        wish
    }
}

/// Plain HTTP client of a program, for questions whose answer is not awaited in the same request.
#[derive(Clone)]
pub struct ApiConnection {
    pub server: String,
    pub id: String,
    pub secret: String,
    pub http: reqwest::Client,
}

impl ApiConnection {
    /// Sends the question and disconnects soon, until the server has it. From then on it counts as asked.
    async fn puts(&self, wish: &Ask) {
        let body = json!({
            "agent": wish.agent, "message": wish.message, "correlation_id": wish.correlation_id,
            "timeout": wish.timeout.as_secs(), "wait": 0,
        });
        let putting = async || {
            let mut soon = Duration::from_millis(30);
            loop {
                let request = self.http.post(format!("{}/v1/exchange", self.server));
                let request = request.basic_auth(&self.id, Some(&self.secret)).body(body.to_string());
                match request.timeout(soon).send().await.map(|answer| answer.status().as_u16()) {
                    Ok(200 | 202) => return,
                    // The server is down, not ready yet, or did not wait.
                    Err(_) | Ok(503) if self.knows(wish).await => return,
                    Err(_) | Ok(503) => tokio::time::sleep(Duration::from_millis(20)).await,
                    Ok(other) => panic!("a question was answered {other}"),
                }
                // A request that was cut off before it was accepted was never stored: a slow server gets
                // more time with each attempt.
                soon *= 2;
            }
        };
        tokio::time::timeout(PATIENCE, putting()).await.expect("the server takes no question");
    }

    async fn knows(&self, wish: &Ask) -> bool {
        let request = self.http.get(format!("{}/v1/exchanges/{}", self.server, wish.correlation_id));
        let asked = request.basic_auth(&self.id, Some(&self.secret)).send().await;
        asked.is_ok_and(|answer| matches!(answer.status().as_u16(), 200 | 202))
    }
}

async fn asks(client: Client, wish: Ask) -> Written {
    let answer = insists(|| client.exchange(&wish)).await;
    answered(wish, answer)
}

/// Disconnects once the server has the question, and fetches the answer by its id only.
async fn asks_and_comes_back(client: Client, door: ApiConnection, wish: Ask) -> Written {
    door.puts(&wish).await;
    let answer = insists(|| client.attach(&wish.correlation_id)).await;
    answered(wish, answer)
}

fn answered(wish: Ask, answer: AgentAnswer) -> Written {
    let Ask { agent, message, correlation_id, .. } = wish;
    Written { agent, text: message, what: What::Question(correlation_id, answer), answered: true }
}

/// Repeats the same request until there is an answer.
async fn insists<T, F: Future<Output = Result<T, Fault>>>(wish: impl Fn() -> F) -> T {
    let insisting = async {
        loop {
            match wish().await {
                Ok(answer) => return answer,
                // The server is down, or not ready yet.
                Err(Fault::Unreachable { .. } | Fault::Refused { status: 503, .. }) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(other) => panic!("the server refused: {other}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, insisting).await.expect("the server does not answer")
}
