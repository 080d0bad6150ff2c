//! Authentication of the callers of `/v1`: the agent or tenant of a credential, and the label of the caller that it acts
//! for. Every API below `/v1` asks this one component.

use std::sync::Arc;

use http::HeaderMap;
use http::request::Parts;
use http_kit::{ClientAddress, OverLimit};
use identity::{Authentication, Identity, OverQuota, QuotaKind};
use posthouse_wire::{InstanceId, TenantId};

use crate::{Caller, Fault};

/// The longest caller label, in bytes.
const LONGEST_LABEL: usize = 128;

/// Why a caller is refused.
#[derive(Clone, Debug)]
pub enum CallerRefusal {
    /// The credential is missing, malformed, expired, revoked or unknown, or its agent was removed. One variant, so
    /// that the answer does not reveal which.
    Nobody,
    /// Too many refused credentials came from this address.
    Barred,
    /// An agent's credential, and the caller header names another agent.
    SomebodyElse {
        header: String,
    },
    /// The value of the caller header is not a valid name.
    BadLabel {
        header: String,
        why: &'static str,
    },
    /// The caller or its tenant has too many connections.
    OverLimit(OverLimit),
    /// The caller or its tenant makes too many requests.
    TooManyRequests(OverQuota),
    Fault(Fault),
}

impl<F: Into<Fault>> From<F> for CallerRefusal {
    fn from(fault: F) -> Self {
        CallerRefusal::Fault(fault.into())
    }
}

/// Finds out who calls. Clones share everything.
#[derive(Clone)]
pub struct Callers {
    identity: Identity,
    /// The header with the label.
    header: Arc<str>,
}

impl Callers {
    pub fn new(identity: Identity, header: &str) -> Self {
        Self { identity, header: header.into() }
    }

    /// The caller that made the request with this head. Its connection counts against the caller from now on, and the
    /// request is counted, once, however long it waits for an answer.
    pub async fn caller(&self, head: &Parts) -> Result<Caller, CallerRefusal> {
        let headers = &head.headers;
        let address = head.extensions.get().map(|ClientAddress(address)| *address);
        let principal = match self.identity.authenticator.program(headers, address).await? {
            Authentication::Known(principal) => principal,
            Authentication::Refused(_) => return Err(CallerRefusal::Nobody),
            Authentication::Barred => return Err(CallerRefusal::Barred),
        };
        principal.within_limits(&head.extensions).map_err(CallerRefusal::OverLimit)?;
        let header = &*self.header;
        let caller = Caller::of(&principal, None).ok_or(CallerRefusal::Nobody)?;
        self.count_request(&caller.tenant, caller.instance()).await?;
        match (Caller { attested: label(headers, header)?, ..caller }) {
            Caller { agent: Some(agent), attested: Some(label), .. }
                if label != agent.name && label != agent.id.as_str() =>
            {
                Err(CallerRefusal::SomebodyElse { header: header.to_owned() })
            }
            caller @ Caller { agent: Some(_), .. } => Ok(Caller { attested: None, ..caller }),
            caller => Ok(caller),
        }
    }

    /// Counts a request of a program against its quota and that of its tenant.
    pub(crate) async fn count_request(
        &self,
        tenant: &TenantId,
        agent: Option<&InstanceId>,
    ) -> Result<(), CallerRefusal> {
        let counted = self.identity.quotas.take(QuotaKind::ProgramRequest, tenant, agent).await;
        counted.map_err(CallerRefusal::TooManyRequests)
    }
}

/// The caller that a program acts for, by this header. An empty value counts as none.
fn label(headers: &HeaderMap, header: &str) -> Result<Option<String>, CallerRefusal> {
    let bad = |why| CallerRefusal::BadLabel { header: header.to_owned(), why };
    let mut values = headers.get_all(header).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(bad("is given more than once"));
    }
    let text = std::str::from_utf8(value.as_bytes()).map_err(|_| bad("is not UTF-8"))?.trim();
    match text {
        "" => Ok(None),
        _ if text.len() > LONGEST_LABEL => Err(bad("is longer than 128 bytes")),
        _ if text.chars().any(char::is_control) => Err(bad("contains a control character")),
        _ => Ok(Some(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const HEADER: &str = "x-agent-id";

    fn labelled(value: &[u8]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, HeaderValue::from_bytes(value).unwrap());
        headers
    }

    #[test]
    fn a_caller_is_named_by_visible_text_in_any_script_and_an_empty_header_names_nobody() {
        assert_eq!(label(&HeaderMap::new(), HEADER).unwrap(), None);
        assert_eq!(label(&labelled(b""), HEADER).unwrap(), None);
        assert_eq!(label(&labelled(b"  "), HEADER).unwrap(), None);
        assert_eq!(label(&labelled(b"perry"), HEADER).unwrap().as_deref(), Some("perry"));
        assert_eq!(label(&labelled("пётр".as_bytes()), HEADER).unwrap().as_deref(), Some("пётр"));
        assert_eq!(label(&labelled(&[b'x'; 128]), HEADER).unwrap().unwrap().len(), 128);
    }

    #[test]
    fn a_label_that_is_too_long_or_no_text_or_given_twice_is_refused() {
        for bad in [&[b'x'; 129][..], b"\xff\xfe", b"a\tb"] {
            assert!(matches!(label(&labelled(bad), HEADER), Err(CallerRefusal::BadLabel { .. })), "{bad:?}");
        }
        let mut twice = labelled(b"perry");
        twice.append(HEADER, HeaderValue::from_static("heron"));
        assert!(matches!(label(&twice, HEADER), Err(CallerRefusal::BadLabel { .. })));
    }
}
