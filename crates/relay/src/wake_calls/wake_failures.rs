//! Wake URLs that do not work: refused when a gateway named them, or not reached when they were called.

use std::collections::HashMap;

use parking_lot::Mutex;
use posthouse_time::Moment;
use posthouse_wire::{InstanceId, TenantId};

/// Most agents with failures, in total and of one tenant. Beyond it, the oldest failure of the tenant is forgotten, or of
/// the tenant that has most of them.
const AGENTS: usize = 10_000;
const AGENTS_OF_A_TENANT: usize = 1_000;

/// The latest failure of a wake URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WakeFailure {
    pub at: Moment,
    /// The reason, without the URL.
    pub reason: String,
}

/// What is known about the wake URLs of one agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WakeFailures {
    /// A gateway named a URL that the server does not call. The URL was not stored.
    pub refused: Option<WakeFailure>,
    /// The stored URL could not be reached at the latest call.
    pub not_reached: Option<WakeFailure>,
}

/// The failures of all agents since the start of the server.
#[derive(Default)]
pub(super) struct FailureLog(Mutex<HashMap<InstanceId, LoggedFailures>>);

struct LoggedFailures {
    tenant: TenantId,
    refused: Option<WakeFailure>,
    /// With the URL that was called: the failure ends when the agent gets another one.
    not_reached: Option<(String, WakeFailure)>,
}

impl LoggedFailures {
    fn latest(&self) -> Moment {
        let refused = self.refused.as_ref().map(|failure| failure.at);
        refused.max(self.not_reached.as_ref().map(|(_, failure)| failure.at)).unwrap_or_default()
    }
}

impl FailureLog {
    /// Records whether the wake URL that a gateway named was refused.
    pub fn named(&self, tenant: &TenantId, agent: &InstanceId, refused: Option<WakeFailure>) {
        self.change(tenant, agent, refused.is_some(), |failures| failures.refused = refused);
    }

    /// Records whether a call of a wake URL failed.
    pub fn called(&self, tenant: &TenantId, agent: &InstanceId, url: &str, failed: Option<WakeFailure>) {
        self.change(tenant, agent, failed.is_some(), |failures| {
            failures.not_reached = failed.map(|failure| (url.to_owned(), failure));
        });
    }

    /// The failures of an agent that has this wake URL.
    pub fn of(&self, agent: &InstanceId, wake_url: Option<&str>) -> WakeFailures {
        let log = self.0.lock();
        let Some(failures) = log.get(agent) else { return WakeFailures::default() };
        let not_reached = failures.not_reached.as_ref().filter(|(url, _)| wake_url == Some(url));
        WakeFailures {
            refused: failures.refused.clone(),
            not_reached: not_reached.map(|(_, failure)| failure.clone()),
        }
    }

    fn change(
        &self,
        tenant: &TenantId,
        agent: &InstanceId,
        has_failed: bool,
        change: impl FnOnce(&mut LoggedFailures),
    ) {
        let mut log = self.0.lock();
        if has_failed && !log.contains_key(agent) {
            make_room(&mut log, tenant);
            let none = LoggedFailures { tenant: tenant.clone(), refused: None, not_reached: None };
            log.insert(agent.clone(), none);
        }
        let Some(failures) = log.get_mut(agent) else { return };
        change(failures);
        if failures.refused.is_none() && failures.not_reached.is_none() {
            log.remove(agent);
        }
    }
}

fn make_room(log: &mut HashMap<InstanceId, LoggedFailures>, tenant: &TenantId) {
    let from = match log.values().filter(|failures| failures.tenant == *tenant).count() {
        AGENTS_OF_A_TENANT.. => Some(tenant.clone()),
        _ if log.len() < AGENTS => None,
        _ => {
            let mut counts: HashMap<&TenantId, usize> = HashMap::new();
            log.values().for_each(|failures| *counts.entry(&failures.tenant).or_default() += 1);
            counts.into_iter().max_by_key(|(_, count)| *count).map(|(tenant, _)| tenant.clone())
        }
    };
    let Some(from) = from else { return };
    let of_tenant = log.iter().filter(|(_, failures)| failures.tenant == from);
    let oldest = of_tenant.min_by_key(|(_, failures)| failures.latest()).map(|(agent, _)| agent.clone());
    if let Some(oldest) = oldest {
        log.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(seconds: i64) -> Option<WakeFailure> {
        Some(WakeFailure { at: Moment::from_seconds(seconds), reason: "unreachable".to_owned() })
    }

    #[test]
    fn a_failure_ends_with_the_next_success_or_with_another_url() {
        let log = FailureLog::default();
        let (tenant, heron) = (TenantId::from("ten_1"), InstanceId::from("inst_heron"));
        log.called(&tenant, &heron, "https://a", failed(1));
        log.named(&tenant, &heron, failed(2));
        let both = WakeFailures { refused: failed(2), not_reached: failed(1) };
        assert_eq!(log.of(&heron, Some("https://a")), both);
        assert_eq!(log.of(&heron, Some("https://b")), WakeFailures { not_reached: None, ..both.clone() });
        assert_eq!(log.of(&"inst_otter".into(), Some("https://a")), WakeFailures::default());
        log.called(&tenant, &heron, "https://a", None);
        assert_eq!(log.of(&heron, Some("https://a")), WakeFailures { not_reached: None, ..both });
        log.named(&tenant, &heron, None);
        assert!(log.0.lock().is_empty());
    }

    #[test]
    fn a_tenant_with_many_failures_forgets_its_own() {
        let log = FailureLog::default();
        let agent =
            |tenant: usize, number: usize| InstanceId::from(format!("inst_{tenant}_{number}").as_str());
        log.named(&"quiet".into(), &agent(0, 0), failed(0));
        for tenant in 1..=12 {
            for number in 0..AGENTS_OF_A_TENANT + 10 {
                log.named(&format!("busy-{tenant}").as_str().into(), &agent(tenant, number), failed(1));
            }
        }
        assert_eq!(log.0.lock().len(), AGENTS);
        assert_eq!(log.of(&agent(0, 0), None).refused, failed(0));
    }
}
