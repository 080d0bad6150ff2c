//! HTTP client for calls to the server: bounded bodies, no redirects, the machine's trusted certificates.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use posthouse_wire::address::is_this_machine;
use reqwest::redirect::Policy;
use rustls_platform_verifier::BuilderVerifierExt;

/// Time limit of opening a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Reason of a call that took too long.
pub(crate) const NO_ANSWER: &str = "no answer in time";
/// Characters of an unexpected answer that are shown.
#[cfg(any(feature = "cron", feature = "post"))]
const SHOWN: usize = 200;

/// A client for addresses like `url`. It names its TLS provider, because the agent's process may have
/// another default, or none. `tls` replaces the machine's trusted certificates.
pub(crate) fn client(
    url: &str,
    tls: Option<&Arc<rustls::ClientConfig>>,
    patience: Duration,
) -> Result<reqwest::Client, String> {
    let tls = match tls {
        Some(tls) => Ok(rustls::ClientConfig::clone(tls)),
        None => trust(url.starts_with("https://")),
    };
    let mut built = reqwest::Client::builder()
        .user_agent(concat!("posthouse-agent/", env!("CARGO_PKG_VERSION")))
        // Without redirects, only the configured address decides which server is trusted and gets the
        // token.
        .redirect(Policy::none())
        .connect_timeout(CONNECT_LIMIT)
        .timeout(patience)
        .tls_backend_preconfigured(tls.map_err(|fault| fault.to_string())?);
    if reqwest::Url::parse(url).is_ok_and(|url| url.host_str().is_some_and(is_this_machine)) {
        // A proxy would look for the server on its own machine.
        built = built.no_proxy();
    }
    built.build().map_err(|fault| fault.to_string())
}

/// Reason why the body of an answer is missing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("{0}")]
    Broken(String),
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
}

/// The body of an answer, if it has at most `longest` bytes.
pub(crate) async fn body(mut answer: reqwest::Response, longest: usize) -> Result<BytesMut, BodyError> {
    let mut body = BytesMut::new();
    while let Some(piece) = answer.chunk().await.map_err(|fault| BodyError::Broken(in_words(fault)))? {
        if body.len() + piece.len() > longest {
            return Err(BodyError::TooLong(longest));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// The innermost cause, which says more than "error sending request", and never contains the address.
pub(crate) fn in_words(fault: reqwest::Error) -> String {
    if fault.is_timeout() {
        return NO_ANSWER.to_owned();
    }
    let fault = fault.without_url();
    let mut deepest: &dyn std::error::Error = &fault;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

/// The beginning of an unexpected answer, in one line.
#[cfg(any(feature = "cron", feature = "post"))]
pub(crate) fn shown(text: &str) -> String {
    beginning(text, SHOWN)
}

/// The first characters of a text, in one line.
#[cfg(any(feature = "cron", feature = "post", feature = "media"))]
pub(crate) fn beginning(text: &str, longest: usize) -> String {
    text.chars().take(longest).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The machine's trusted certificates. Empty for plain HTTP, so that a machine without certificates works.
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
