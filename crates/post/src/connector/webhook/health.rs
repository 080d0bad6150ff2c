//! Health check of webhook receivers.

use std::collections::BTreeMap;

use errand::{OutgoingCall, Url};
use futures_util::StreamExt;
use http::Method;

use super::WebhookConnector;

/// The largest number of concurrent checks.
const ASKED_AT_ONCE: usize = 8;
/// The number of failed receivers named in the result.
const NAMED: usize = 3;

impl WebhookConnector {
    /// Healthy if every status URL answers 2xx. If none is configured, any HTTP response of the receivers suffices.
    pub(super) async fn check_receivers(&self) -> Result<(), String> {
        let agents = || self.settings.agents.0.iter();
        // A shared URL is checked once, and reported with the first of its agents.
        let statuses: BTreeMap<&str, &str> = agents()
            .rev()
            .filter_map(|(name, receiver)| Some((receiver.status_url.as_deref()?, name.as_str())))
            .collect();
        if !statuses.is_empty() {
            return self.all_answer(&Method::GET, statuses, true).await;
        }
        let receivers =
            agents().rev().map(|(name, receiver)| (receiver.url.as_str(), name.as_str())).collect();
        self.all_answer(&Method::HEAD, receivers, false).await
    }

    /// Checks that every URL answers, and with 2xx if `well` is set.
    async fn all_answer(
        &self,
        method: &Method,
        urls: BTreeMap<&str, &str>,
        well: bool,
    ) -> Result<(), String> {
        let calls: Vec<(OutgoingCall, String)> = urls
            .into_iter()
            .map(|(url, agent)| {
                let call = OutgoingCall::new(method.clone(), url)
                    .timeout(self.settings.timeout)
                    .max_answer(0)
                    .on_behalf_of(self.tenant.as_str());
                (call, format!("agent '{agent}': {method} {}", origin(url)))
            })
            .collect();
        let troubles: Vec<String> = futures_util::stream::iter(calls)
            .map(|(call, whom)| async move {
                match self.errand.run(call).await {
                    Ok(answer) if well && !answer.status.is_success() => {
                        Some(format!("{whom}: HTTP {}", answer.status.as_u16()))
                    }
                    Ok(_) => None,
                    Err(fault) => Some(format!("{whom}: {fault}")),
                }
            })
            .buffered(ASKED_AT_ONCE)
            .filter_map(async |trouble| trouble)
            .collect()
            .await;
        let more = troubles.len().saturating_sub(NAMED);
        let named = troubles.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
        match (troubles.is_empty(), more) {
            (true, _) => Ok(()),
            (false, 0) => Err(named),
            (false, more) => Err(format!("{named}; and {more} more")),
        }
    }
}

/// Only the origin of a URL: path and query may contain secrets.
fn origin(url: &str) -> String {
    Url::parse(url).map_or_else(|_| "the address".to_owned(), |url| url.origin().ascii_serialization())
}
