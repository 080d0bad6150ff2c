//! Proof that a fire comes from this server: a signed token for one instance, or an HMAC with the job's key.

use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use ledger::Arm;
use posthouse_time::Moment;
use posthouse_wire::cron::{
    CRON_KEY, FireClaims, FireProof, PURPOSE, TimedSignature, audience, cron_key_message,
};
use vault::{Signer, random_hex};

use crate::Fault;

/// Lifetime of a fire token. An attempt takes ten seconds by default; the rest allows for differing clocks.
const LIFE_SECONDS: i64 = 90;

/// Builds the header that proves one attempt. Every token has a `jti` of its own.
pub(crate) fn proof(
    signer: &Signer,
    issuer: &str,
    arm: &Arm,
    now: Moment,
) -> Result<(HeaderName, HeaderValue), Fault> {
    let (name, value) = match arm.proof {
        FireProof::PortalJwt => {
            let token = signer.sign(&claims(issuer, arm, now)?)?;
            // Stock agents compare `Bearer` case-sensitively.
            (AUTHORIZATION, format!("Bearer {}", token.expose()))
        }
        FireProof::PerJobKey => {
            let key = signer.cron_key(&arm.instance, &arm.job);
            let message = cron_key_message(&arm.job, &arm.fire_at);
            let stamp = TimedSignature::make(&key, now.seconds(), &message);
            (HeaderName::from_static(CRON_KEY), stamp.header())
        }
    };
    let mut value = HeaderValue::from_str(&value).expect("tokens and stamps are ASCII");
    value.set_sensitive(true);
    Ok((name, value))
}

fn claims(issuer: &str, arm: &Arm, now: Moment) -> Result<FireClaims, Fault> {
    let audience = audience(&arm.instance);
    let now = now.seconds();
    Ok(FireClaims {
        iss: issuer.to_owned(),
        aud: audience.clone(),
        sub: audience,
        purpose: PURPOSE.to_owned(),
        iat: now,
        nbf: now,
        exp: now + LIFE_SECONDS,
        jti: random_hex(16)?.expose().to_owned(),
        job_id: arm.job.clone(),
        fire_at: arm.fire_at.text().to_owned(),
        schedule_id: arm.schedule.clone(),
    })
}
