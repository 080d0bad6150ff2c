//! The approval gate: whether a skill may run, by its status and its signature.
//!
//! In open mode the word `Approved` is enough. In signed mode the status line must also carry one token
//! `v3:<signature>`, an Ed25519 signature over the [signed text](signed_text) by one of the tenant's keys.

mod keys;
mod signed_text;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::status::{BodyStatus, Status, gate_line, place_status_line, status_of};
pub use keys::{ApprovalPublicKey, ApprovalSigningKey, KeyFault};
pub(crate) use signed_text::is_unsigned;
pub use signed_text::signed_text;

/// The only version of tokens that is accepted.
const TOKEN_VERSION: &str = "v3";

/// What a tenant demands of a skill that is to run.
#[derive(Clone, Copy)]
pub enum ApprovalMode<'k> {
    /// The status. Tokens are ignored.
    Open,
    /// The status and a signature by any of these keys.
    Signed(&'k [ApprovalPublicKey]),
}

/// The answer of the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalVerdict {
    /// The skill may run. In signed mode, `key` is the index of the key that signed it.
    Approved {
        key: Option<usize>,
    },
    Refused(ApprovalRefusal),
}

/// Why a skill may not run. The texts are for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalRefusal {
    #[error("the skill has no `# Status:` line, so it counts as Draft")]
    NoStatus,
    #[error("the status of the skill is not Draft, Approved or Disabled, so it counts as Draft")]
    UnknownStatus,
    #[error("the skill has several status lines that disagree, so it counts as Draft")]
    StatusDisagrees,
    #[error("the skill is a Draft; somebody must review and approve it first")]
    Draft,
    #[error("the skill is Disabled")]
    Disabled,
    #[error("the skill is marked Approved but is not signed; approve it again")]
    NotSigned,
    #[error("the approval token is not of the form 'v3:<signature>'; approve the skill again")]
    MalformedToken,
    #[error("the version 'v0' of approval tokens is reserved")]
    ReservedVersion,
    #[error("the version '{0}' of approval tokens is not accepted; approve the skill again")]
    UnsupportedVersion(String),
    #[error("the signature cannot be checked because no approval key is configured")]
    NoKey,
    #[error("the signature is invalid: the skill was changed after its approval, or signed with another key")]
    InvalidSignature,
}

/// Decides whether a skill may run.
pub fn check_approval(body: &str, mode: ApprovalMode<'_>) -> ApprovalVerdict {
    let verdict = check_status(body).and_then(|()| match mode {
        ApprovalMode::Open => Ok(None),
        ApprovalMode::Signed(keys) => check_signature(body, keys).map(Some),
    });
    match verdict {
        Ok(key) => ApprovalVerdict::Approved { key },
        Err(refusal) => ApprovalVerdict::Refused(refusal),
    }
}

fn check_status(body: &str) -> Result<(), ApprovalRefusal> {
    match status_of(body) {
        BodyStatus::Agreed(Status::Approved) => Ok(()),
        BodyStatus::Agreed(Status::Draft) => Err(ApprovalRefusal::Draft),
        BodyStatus::Agreed(Status::Disabled) => Err(ApprovalRefusal::Disabled),
        BodyStatus::Missing => Err(ApprovalRefusal::NoStatus),
        BodyStatus::Unknown => Err(ApprovalRefusal::UnknownStatus),
        BodyStatus::Disagreeing => Err(ApprovalRefusal::StatusDisagrees),
    }
}

/// The index of the key that signed the text.
fn check_signature(body: &str, keys: &[ApprovalPublicKey]) -> Result<usize, ApprovalRefusal> {
    let token = gate_line(body).and_then(|line| line.token).ok_or(ApprovalRefusal::NotSigned)?;
    let signature = signature_in(token)?;
    if keys.is_empty() {
        return Err(ApprovalRefusal::NoKey);
    }
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| ApprovalRefusal::InvalidSignature)?;
    let signed = signed_text(body);
    keys.iter()
        .position(|key| key.verifies(signed.as_bytes(), &signature))
        .ok_or(ApprovalRefusal::InvalidSignature)
}

/// The signature of a token, still in base64url.
fn signature_in(token: &str) -> Result<&str, ApprovalRefusal> {
    let (version, signature) = token.split_once(':').ok_or(ApprovalRefusal::MalformedToken)?;
    let digits = version.strip_prefix('v').unwrap_or_default();
    let base64url = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let well_formed = !digits.is_empty()
        && digits.chars().all(|c| c.is_ascii_digit())
        && !signature.is_empty()
        && signature.chars().all(base64url);
    match version {
        _ if !well_formed => Err(ApprovalRefusal::MalformedToken),
        TOKEN_VERSION => Ok(signature),
        "v0" => Err(ApprovalRefusal::ReservedVersion),
        other => Err(ApprovalRefusal::UnsupportedVersion(other.to_owned())),
    }
}

/// The text as Approved, with a signature by this key in its status line. An older token is replaced.
pub fn stamp(body: &str, key: &ApprovalSigningKey) -> String {
    let line = format!("# Status: {}", Status::Approved);
    let placed = place_status_line(body, Status::Approved, &line);
    // The line is placed first: where it goes can change the signed text, its token cannot.
    let signature = key.sign(signed_text(&placed.text).as_bytes());
    let token = format!(" {TOKEN_VERSION}:{}", URL_SAFE_NO_PAD.encode(signature));
    let mut stamped = placed.text;
    stamped.insert_str(placed.start + line.len(), &token);
    stamped
}

#[cfg(test)]
mod tests;
