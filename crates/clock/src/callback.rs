//! Fires over HTTP to the agent's callback URL.

use async_trait::async_trait;
use bytes::Bytes;
use errand::{Errand, OutgoingCall};
use http::HeaderValue;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use ledger::Arm;
use posthouse_time::Timepiece;
use posthouse_wire::cron::{FireBody, Fired};
use std::time::Duration;
use vault::Signer;

use crate::mint;
use crate::target::{FireOutcome, FireTarget};

/// Path of the fire endpoint below the agent's base URL.
const PATH: &str = "/api/cron/fire";
/// Largest part of an answer that is read, in bytes.
const LARGEST_ANSWER: usize = 4 * 1024;

pub(crate) struct Callback {
    pub errand: Errand,
    pub signer: Signer,
    pub issuer: String,
    pub timeout: Duration,
    pub timepiece: Timepiece,
}

#[async_trait]
impl FireTarget for Callback {
    async fn fire(&self, arm: &Arm) -> FireOutcome {
        let Some(base) = &arm.callback else { return no_answer("the agent has no callback URL", true) };
        let proof = match mint::proof(&self.signer, &self.issuer, arm, self.timepiece.now()) {
            Ok(proof) => proof,
            Err(fault) => {
                tracing::error!(%fault, "could not sign a fire");
                return no_answer("the server could not sign the fire", true);
            }
        };
        let body = FireBody::new(arm.job.clone(), arm.fire_at.clone(), &arm.policy);
        let body = serde_json::to_vec(&body).expect("a fire is plain text");
        let call = OutgoingCall::post(format!("{}{PATH}", base.trim_end_matches('/')), Bytes::from(body))
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header(proof.0, proof.1)
            .timeout(self.timeout)
            .max_answer(LARGEST_ANSWER)
            .on_behalf_of(arm.tenant.as_str());
        match self.errand.run(call).await {
            Ok(answer) if answer.status.is_success() => {
                FireOutcome::Accepted { status: answer.status.as_u16(), fired: Fired::read(&answer.body) }
            }
            Ok(answer) => FireOutcome::Refused {
                status: answer.status.as_u16(),
                retry_after: answer.headers.get(RETRY_AFTER).and_then(seconds),
            },
            Err(fault) => {
                FireOutcome::NoAnswer { nothing_was_sent: fault.nothing_was_sent(), why: fault.to_string() }
            }
        }
    }

    /// Host and port as the URL spells them; it was checked when the job was armed. Several spellings count as several
    /// hosts, as several names of one machine do.
    fn host(&self, arm: &Arm) -> String {
        let url = arm.callback.as_deref().unwrap_or_default();
        let (_, rest) = url.split_once("://").unwrap_or_default();
        rest.split(['/', '?']).next().unwrap_or_default().to_ascii_lowercase()
    }
}

fn no_answer(why: &str, nothing_was_sent: bool) -> FireOutcome {
    FireOutcome::NoAnswer { why: why.to_owned(), nothing_was_sent }
}

/// Reads `Retry-After` in seconds. A date is ignored; the retry table decides then.
fn seconds(value: &HeaderValue) -> Option<Duration> {
    value.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}
