//! The client for calls to the house: bounded, without redirects, trusting what this machine trusts.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use reqwest::redirect::Policy;
use rustls_platform_verifier::BuilderVerifierExt;

/// How much of an unexpected answer is shown.
const SHOWN: usize = 200;

/// A client for addresses like `url`. Made whole here, TLS provider and all: an agent's process may hold
/// another default, or none. `tls` is trusted instead of what the machine trusts.
pub(crate) fn client(
    url: &str,
    tls: Option<&Arc<rustls::ClientConfig>>,
    patience: Duration,
) -> Result<reqwest::Client, String> {
    let tls = match tls {
        Some(tls) => Ok(rustls::ClientConfig::clone(tls)),
        None => trust(url.starts_with("https://")),
    };
    let built = reqwest::Client::builder()
        .user_agent(concat!("posthouse-agent/", env!("CARGO_PKG_VERSION")))
        // Who is believed, and who gets our token, is decided by the address in the configuration alone.
        .redirect(Policy::none())
        .timeout(patience)
        .tls_backend_preconfigured(tls.map_err(|fault| fault.to_string())?)
        .build();
    built.map_err(|fault| fault.to_string())
}

/// Why an answer's body is not there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unread {
    #[error("{0}")]
    Broken(String),
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
}

/// An answer's body, if it is no longer than that.
pub(crate) async fn body(mut answer: reqwest::Response, longest: usize) -> Result<BytesMut, Unread> {
    let mut body = BytesMut::new();
    while let Some(piece) = answer.chunk().await.map_err(|fault| Unread::Broken(in_words(fault)))? {
        if body.len() + piece.len() > longest {
            return Err(Unread::TooLong(longest));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// What went wrong underneath, which says more than "error sending request", and never the address.
pub(crate) fn in_words(fault: reqwest::Error) -> String {
    if fault.is_timeout() {
        return "no answer in time".to_owned();
    }
    let fault = fault.without_url();
    let mut deepest: &dyn std::error::Error = &fault;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

/// The beginning of a text, in one line.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// What the machine trusts; nobody where no TLS is spoken, so that a machine without certificates will do.
fn trust(secure: bool) -> Result<rustls::ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = match secure {
        true => builder.with_platform_verifier()?,
        false => builder.with_root_certificates(rustls::RootCertStore::empty()),
    };
    Ok(builder.with_no_client_auth())
}
