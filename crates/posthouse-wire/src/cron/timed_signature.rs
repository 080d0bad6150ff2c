//! HMAC signatures of external schedulers, and of fires with a per-job key.
//!
//! The format is `t=<unix seconds>,v1=<hex HMAC-SHA256>`.

use std::fmt::Write as _;

use aws_lc_rs::hmac;
use subtle::ConstantTimeEq;

use super::FireAt;
use crate::{JobId, Secret};

/// Header with which an external scheduler signs its request body.
pub const SIGNATURE: &str = "x-posthouse-signature";
/// Header of a fire that is signed with a per-job key.
pub const CRON_KEY: &str = "x-posthouse-cron-key";

/// A time and its HMAC digests, one for every key in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedSignature {
    pub at: i64,
    digests: Vec<[u8; 32]>,
}

impl TimedSignature {
    /// Largest difference between the time of a stamp and now, in either direction.
    pub const WINDOW_SECONDS: u64 = 300;

    /// Signs `message` at the time `at`.
    pub fn make(secret: &Secret, at: i64, message: &[u8]) -> Self {
        Self { at, digests: vec![digest(secret, at, message)] }
    }

    pub fn header(&self) -> String {
        let mut header = format!("t={}", self.at);
        for digest in &self.digests {
            let _ = write!(header, ",v1={}", hex::encode(digest));
        }
        header
    }

    /// Reads a stamp: one time, and one to four digests. Unknown schemes are ignored. `None` for anything else.
    pub fn read(header: &str) -> Option<Self> {
        let (mut at, mut digests) = (None, Vec::new());
        for part in header.split(',') {
            match part.trim().split_once('=')? {
                ("t", seconds) if at.is_none() && seconds.bytes().all(|b| b.is_ascii_digit()) => {
                    at = Some(seconds.parse().ok()?);
                }
                ("t", _) => return None,
                ("v1", text) => {
                    let mut digest = [0; 32];
                    hex::decode_to_slice(text, &mut digest).ok()?;
                    digests.push(digest);
                }
                _ => {}
            }
        }
        (1..=4).contains(&digests.len()).then_some(Self { at: at?, digests })
    }

    /// Verifies the stamp: returns the digest of `message` that one of `secrets` made, if the time is near `now`.
    pub fn verify<'a>(
        &self,
        secrets: impl IntoIterator<Item = &'a Secret>,
        message: &[u8],
        now: i64,
    ) -> Option<[u8; 32]> {
        let fresh = self.at.abs_diff(now) <= Self::WINDOW_SECONDS;
        let mut found = None;
        for secret in secrets {
            let right = digest(secret, self.at, message);
            for offered in &self.digests {
                if bool::from(right.ct_eq(offered)) {
                    found = Some(right);
                }
            }
        }
        found.filter(|_| fresh)
    }
}

/// The message that a per-job key signs.
pub fn cron_key_message(job: &JobId, fire_at: &FireAt) -> Vec<u8> {
    format!("{job}.{fire_at}").into_bytes()
}

fn digest(secret: &Secret, at: i64, message: &[u8]) -> [u8; 32] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes());
    let mut context = hmac::Context::with_key(&key);
    context.update(at.to_string().as_bytes());
    context.update(b".");
    context.update(message);
    let mut bytes = [0; 32];
    bytes.copy_from_slice(context.sign().as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_vouches_for_its_bytes_inside_its_window() {
        let (old, new) = (Secret::new("old"), Secret::new("new"));
        let stamp = TimedSignature::read(&TimedSignature::make(&old, 1_000, b"body").header()).unwrap();
        assert!(stamp.verify([&new, &old], b"body", 1_300).is_some());
        assert!(stamp.verify([&new, &old], b"body", 700).is_some());
        assert_eq!(stamp.verify([&new, &old], b"body", 1_301), None);
        assert_eq!(stamp.verify([&new], b"body", 1_000), None);
        assert_eq!(stamp.verify([&old], b"other", 1_000), None);
    }

    #[test]
    fn what_is_no_stamp_reads_as_nothing() {
        let good = TimedSignature::make(&Secret::new("k"), 5, b"").header();
        let digest = good.split_once(',').unwrap().1;
        for text in [
            "",
            "t=5",
            digest,
            &format!("t=-5,{digest}"),
            &format!("t=5,t=6,{digest}"),
            "t=5,v1=zz",
            "t=99999999999999999999,v1=00",
            &format!("t=5,{digest},{digest},{digest},{digest},{digest}"),
        ] {
            assert_eq!(TimedSignature::read(text), None, "{text}");
        }
        assert!(TimedSignature::read(&format!("t=5,v0=ab,{digest},{digest}")).is_some());
    }
}
