//! The agent's own socket as a bell: managed cron for a body that nobody can call, such as a laptop.
//!
//! A fire down the line is a call with an answer, not an entry of the inbox: a cancel or a newer arm
//! must be able to stop the series, which an inbox never would.

use std::time::Duration;

use async_trait::async_trait;
use ledger::Arm;
use posthouse_wire::cron::FireBody;
use relay::{Relay, Said};

use crate::bell::{Bell, Rung};

pub(crate) struct Line {
    pub relay: Relay,
    pub timeout: Duration,
}

#[async_trait]
impl Bell for Line {
    async fn ring(&self, arm: &Arm) -> Rung {
        let body = FireBody::new(arm.job.clone(), arm.fire_at.clone(), &arm.policy);
        match self.relay.fire(&arm.instance, body, self.timeout).await {
            Said::Answer { status, fired } if (200..300).contains(&status) => Rung::Taken { status, fired },
            Said::Answer { status, .. } => Rung::Refused { status, retry_after: None },
            Said::Nobody => Rung::Unheard {
                why: "the agent is not connected, or takes no fires down its socket".to_owned(),
                nothing_was_sent: true,
            },
            Said::Nothing => {
                Rung::Unheard { why: "the agent did not answer".to_owned(), nothing_was_sent: false }
            }
        }
    }

    fn host(&self, arm: &Arm) -> String {
        format!("line:{}", arm.instance)
    }
}
