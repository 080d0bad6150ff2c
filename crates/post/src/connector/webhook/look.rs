//! Whether those behind the addresses are there, and who is not.

use std::collections::BTreeMap;

use errand::{Call, Url};
use futures_util::StreamExt;
use http::Method;

use super::Webhook;

/// How many receivers are asked at once how they are.
const ASKED_AT_ONCE: usize = 8;
/// How many of those that are not well are named.
const NAMED: usize = 3;

impl Webhook {
    /// Every status address answers 2xx. Where none is configured, any HTTP answer of the receivers shows that
    /// somebody is there.
    pub(super) async fn look(&self) -> Result<(), String> {
        let agents = || self.settings.agents.0.iter();
        // Asked once for all who share it, and told by the first of their names.
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

    /// Everyone answers, and answers well if `well` is asked for.
    async fn all_answer(
        &self,
        method: &Method,
        urls: BTreeMap<&str, &str>,
        well: bool,
    ) -> Result<(), String> {
        let calls: Vec<(Call, String)> = urls
            .into_iter()
            .map(|(url, agent)| {
                let call = Call::new(method.clone(), url).timeout(self.settings.timeout).max_answer(0);
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
        let told = troubles.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
        match (troubles.is_empty(), more) {
            (true, _) => Ok(()),
            (false, 0) => Err(told),
            (false, more) => Err(format!("{told}; and {more} more")),
        }
    }
}

/// A path may hold a secret as well as a query may.
fn origin(url: &str) -> String {
    Url::parse(url).map_or_else(|_| "the address".to_owned(), |url| url.origin().ascii_serialization())
}
