//! Fires over the agent's relay connection, for agents that have no callback URL, such as on a laptop.
//!
//! Such a fire is a call with an answer, not an inbox entry: a cancel or a newer arm must be able to stop the
//! attempts, which is not possible for an entry.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ledger::Arm;
use posthouse_wire::cron::FireBody;
use relay::{FireAnswer, Fires};

use crate::target::{FireOutcome, FireTarget};

pub(crate) struct SocketTarget {
    pub fires: Arc<Fires>,
    pub timeout: Duration,
}

#[async_trait]
impl FireTarget for SocketTarget {
    async fn fire(&self, arm: &Arm) -> FireOutcome {
        let body = FireBody::new(arm.job.clone(), arm.fire_at.clone(), &arm.policy);
        match self.fires.send(&arm.instance, body, self.timeout).await {
            FireAnswer::Answer { status, fired } if (200..300).contains(&status) => {
                FireOutcome::Accepted { status, fired }
            }
            FireAnswer::Answer { status, .. } => FireOutcome::Refused { status, retry_after: None },
            FireAnswer::NotConnected => FireOutcome::NoAnswer {
                why: "the agent is not connected, or its client does not accept fires over the socket"
                    .to_owned(),
                nothing_was_sent: true,
            },
            FireAnswer::NoAnswer => {
                FireOutcome::NoAnswer { why: "the agent did not answer".to_owned(), nothing_was_sent: false }
            }
        }
    }

    fn host(&self, arm: &Arm) -> String {
        format!("line:{}", arm.instance)
    }
}
