//! SDK agents that record every message and answer every question.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthouse_agent::{Agent, Conversation, Message, Settings, WebSocketTransport};
use posthouse_wire::Secret;
use serde_json::Value;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::PATIENCE;

/// Which agent's handler was given which text, and how often.
pub type Seen = HashMap<(String, String), u32>;

/// Prefix of a question whose answer waits until the server was killed once more.
pub const THOUGHTFUL: &str = "after the next kill: ";

/// What an agent answers.
pub fn answer(agent: &str, question: &str) -> String {
    format!("{agent} heard {question}")
}

#[derive(Default)]
pub struct Agents {
    pub seen: Arc<Mutex<Seen>>,
    lines: Vec<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Agents {
    /// `made` is the output of `agent create`; `lives` counts the kills.
    pub fn dial(&mut self, url: &str, name: &str, made: &Value, lives: watch::Receiver<usize>) {
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        let settings = Settings::new(url, text("gateway_id").as_str(), Secret::new(text("secret")));
        let (name, seen) = (name.to_owned(), Arc::clone(&self.seen));
        let agent = Agent::builder(WebSocketTransport::new(settings).unwrap()).on_message(
            move |message: Message, conversation: Conversation| {
                let (name, seen, lives) = (name.clone(), Arc::clone(&seen), lives.clone());
                async move {
                    let said = message.text().to_owned();
                    *seen.lock().unwrap().entry((name.clone(), said.clone())).or_default() += 1;
                    let posted = message.posted().unwrap();
                    if posted.expects_reply {
                        answers(&name, &said, &conversation, lives).await;
                    } else if let Some(meta) = &posted.meta {
                        assert!(said.ends_with(meta.dispatch_id.as_str()), "{said} came as {meta:?}");
                    }
                    Ok(())
                }
            },
        );
        let (leave, left) = oneshot::channel();
        let running = tokio::spawn(async move {
            let left = async move {
                let _ = left.await;
            };
            agent.run(left).await.unwrap();
        });
        self.lines.push((leave, running));
    }

    /// How many dispatches were handled so far.
    pub fn handled(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// Waits until so many more were.
    pub async fn handles_more(&self, more: usize) {
        let wanted = self.handled() + more;
        let waited = tokio::time::timeout(PATIENCE, async {
            while self.handled() < wanted {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        assert!(waited.await.is_ok(), "stuck with {} of {wanted} handled", self.handled());
    }

    pub async fn leave(self) {
        for (leave, running) in self.lines {
            let _ = leave.send(());
            running.await.unwrap();
        }
    }
}

/// Repeats its answer until the server has it. An answer that a kill cut off may have been stored; the
/// first answer counts, so repeating is harmless.
async fn answers(name: &str, said: &str, conversation: &Conversation, mut lives: watch::Receiver<usize>) {
    if said.starts_with(THOUGHTFUL) {
        let life = *lives.borrow_and_update();
        // An error says that the test has ended.
        let _ = lives.wait_for(|kills| *kills > life || *kills == usize::MAX).await;
    }
    let saying = async {
        while conversation.answer(&answer(name, said)).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, saying).await.expect("the server does not take an answer");
}
