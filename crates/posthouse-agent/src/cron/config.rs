//! Cron settings of an agent, and the trigger that they select.

use std::sync::Arc;
use std::time::Duration;

use posthouse_time::Timepiece;
use posthouse_wire::Secret;

use super::schedule::zone;
use super::{ApiCredential, Chronos, Portal, Trigger};
use crate::jobs::JobStoreSettings;
use crate::verify::{Expected, FireVerifier, PerJobKey, PinnedKey, verifier};

/// Cron settings of an agent, under the names that a stock agent uses.
#[derive(Clone, Default)]
pub struct Config {
    /// `cron.provider`: `chronos` for the portal; empty, `builtin`, `in-process` or `inprocess` for the
    /// ticker; `none` for neither.
    pub provider: String,
    /// `cron.chronos.portal_url`: address of the portal, and issuer of its fire tokens.
    pub portal_url: String,
    /// `cron.chronos.callback_url`: URL at which the portal reaches this agent.
    pub callback_url: String,
    /// `cron.chronos.deliver`: with `socket`, fires arrive on the agent's own relay connection and no
    /// callback is needed.
    pub by_socket: bool,
    /// `cron.chronos.expected_audience`: `agent:{instance}`.
    pub expected_audience: String,
    /// `cron.chronos.nas_jwks_url`: URL of the portal's keys, or a public key in PEM.
    pub nas_jwks_url: String,
    /// `cron.chronos.verifier`: `portal_jwt` (default), `pinned_key` or `per_job_key`.
    pub verifier: String,
    /// `cron.chronos.client_id` and `client_secret`, or an `access_token` instead.
    pub credential: Option<ApiCredential>,
    /// `cron.max_parallel_jobs`, or `HERMES_CRON_MAX_PARALLEL`, which takes precedence. Default: unlimited.
    pub max_parallel_jobs: Option<usize>,
    /// `timezone`, unless `HERMES_TIMEZONE` is set.
    pub timezone: Option<String>,
    /// `HERMES_CRON_TIMEOUT`, in seconds: time that a run may be silent. Default: 600 s.
    pub inactivity: Option<Duration>,
}

/// The trigger and verifier that a configuration selects.
pub struct Choice {
    pub trigger: Trigger,
    /// Verifier of fires that arrive by HTTP.
    pub verifier: Option<Arc<dyn FireVerifier>>,
}

impl Config {
    /// Reads the environment: each name in capitals with `_` for `.`, such as `CRON_CHRONOS_PORTAL_URL`.
    pub fn from_env() -> Self {
        Self::read(|name| std::env::var(name.to_uppercase().replace('.', "_")).ok())
    }

    /// Reads any source of settings by name, such as the object that `posthouse agent create --json` prints
    /// under `cron`.
    pub fn read(setting: impl Fn(&str) -> Option<String>) -> Self {
        let set =
            |name: &str| setting(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let chronos = |name: &str| set(&format!("cron.chronos.{name}"));
        let by_client = || {
            let (id, secret) = (chronos("client_id")?, chronos("client_secret")?);
            Some(ApiCredential::Client { id, secret: Secret::new(secret) })
        };
        let by_token = || Some(ApiCredential::Token(Secret::new(chronos("access_token")?)));
        let at_most = set("hermes_cron_max_parallel").or_else(|| set("cron.max_parallel_jobs"));
        Self {
            provider: set("cron.provider").unwrap_or_default(),
            portal_url: chronos("portal_url").unwrap_or_default(),
            callback_url: chronos("callback_url").unwrap_or_default(),
            by_socket: chronos("deliver").is_some_and(|way| way.eq_ignore_ascii_case("socket")),
            expected_audience: chronos("expected_audience").unwrap_or_default(),
            nas_jwks_url: chronos("nas_jwks_url").unwrap_or_default(),
            verifier: chronos("verifier").unwrap_or_default(),
            credential: by_client().or_else(by_token),
            max_parallel_jobs: at_most.and_then(|runs| runs.parse().ok()).filter(|runs| *runs > 0),
            timezone: set("timezone"),
            inactivity: set("hermes_cron_timeout").and_then(|s| s.parse().ok()).map(Duration::from_secs),
        }
    }

    /// Settings for opening a store, with the wall clock and the configured zone and inactivity.
    pub fn store_settings(&self) -> JobStoreSettings {
        let store_settings = JobStoreSettings::new(Timepiece::wall(), zone(self.timezone.as_deref()));
        JobStoreSettings {
            inactivity: self.inactivity.unwrap_or(store_settings.inactivity),
            ..store_settings
        }
    }

    /// Selects the trigger, without network calls. Unknown or incomplete settings select the ticker, with a
    /// warning, because cron always needs a trigger.
    pub fn choose(&self, timepiece: &Timepiece) -> Choice {
        let ticker = Choice { trigger: Trigger::Ticker, verifier: None };
        match self.provider.trim().to_ascii_lowercase().as_str() {
            "" | "builtin" | "in-process" | "inprocess" => ticker,
            "none" => Choice { trigger: Trigger::Off, verifier: None },
            "chronos" => self.chronos(timepiece).unwrap_or_else(|why| {
                tracing::warn!("managed cron is not available, so the local ticker runs: {why}");
                ticker
            }),
            unknown => {
                tracing::warn!(provider = unknown, "unknown cron provider; the local ticker runs");
                ticker
            }
        }
    }

    fn chronos(&self, timepiece: &Timepiece) -> Result<Choice, String> {
        let needed = |value: &str, name: &str| match value {
            "" => Err(format!("cron.chronos.{name} is not set")),
            _ => Ok(()),
        };
        needed(&self.portal_url, "portal_url")?;
        if !self.by_socket {
            needed(&self.callback_url, "callback_url")?;
        }
        let credential = self.credential.clone().ok_or("no credential for the portal is set")?;
        let portal = Portal::new(&self.portal_url, credential, timepiece.clone());
        let chronos = match self.by_socket {
            // The relay connection is authenticated, so neither a callback nor a verifier is needed.
            true => {
                let trigger = Trigger::Chronos(Chronos::by_socket(portal));
                return Ok(Choice { trigger, verifier: None });
            }
            false => Chronos::by_callback(portal, &self.callback_url),
        };
        let per_job = self.verifier == "per_job_key";
        let chronos = if per_job { chronos.with_keys_per_job() } else { chronos };
        let verifier = self.fire_verifier(&chronos, timepiece)?;
        Ok(Choice { trigger: Trigger::Chronos(chronos), verifier: Some(verifier) })
    }

    /// Incomplete settings are an error, because a verifier without them would refuse every fire.
    fn fire_verifier(
        &self,
        chronos: &Chronos,
        timepiece: &Timepiece,
    ) -> Result<Arc<dyn FireVerifier>, String> {
        if self.verifier == "per_job_key" {
            return Ok(Arc::new(PerJobKey::new(chronos.keys(), timepiece.clone())));
        }
        if self.expected_audience.is_empty() {
            return Err("cron.chronos.expected_audience is not set".to_owned());
        }
        if self.nas_jwks_url.is_empty() {
            return Err("cron.chronos.nas_jwks_url is not set".to_owned());
        }
        let expected =
            Expected { audience: self.expected_audience.clone(), issuer: Some(self.portal_url.clone()) };
        let bad_key = |_| "cron.chronos.nas_jwks_url is neither a URL nor a public key in PEM".to_owned();
        match self.verifier.as_str() {
            "" | "portal_jwt" => verifier(&self.nas_jwks_url, expected, timepiece.clone()).map_err(bad_key),
            "pinned_key" => {
                let pinned = PinnedKey::new(&self.nas_jwks_url, expected, timepiece.clone());
                Ok(Arc::new(pinned.map_err(bad_key)?))
            }
            unknown => Err(format!("cron.chronos.verifier {unknown:?} is unknown")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: [(&str, &str); 7] = [
        ("cron.provider", "chronos"),
        ("cron.chronos.portal_url", "http://127.0.0.1:1"),
        ("cron.chronos.callback_url", "http://127.0.0.1:2"),
        ("cron.chronos.expected_audience", "agent:inst_1"),
        ("cron.chronos.nas_jwks_url", "http://127.0.0.1:1/.well-known/jwks.json"),
        ("cron.chronos.client_id", "agent:inst_1"),
        ("cron.chronos.client_secret", "canary"),
    ];

    fn chosen(settings: &[(&str, &str)]) -> Choice {
        let value = |name: &str| settings.iter().rfind(|(known, _)| *known == name).map(|(_, value)| *value);
        Config::read(|name| value(name).map(str::to_owned)).choose(&Timepiece::wall())
    }

    fn ticks(settings: &[(&str, &str)]) -> bool {
        matches!(chosen(settings).trigger, Trigger::Ticker)
    }

    #[test]
    fn the_ticker_is_chosen_by_its_names_and_in_place_of_what_is_unknown() {
        for provider in ["", "builtin", "in-process", "inprocess", "INPROCESS", "celery"] {
            assert!(ticks(&[("cron.provider", provider)]), "{provider}");
        }
        assert!(matches!(chosen(&[("cron.provider", "none")]).trigger, Trigger::Off));
    }

    #[test]
    fn chronos_is_chosen_when_portal_callback_and_credential_are_there() {
        let choice = chosen(&WHOLE);
        assert!(choice.verifier.is_some());
        assert!(matches!(&choice.trigger, Trigger::Chronos(_)));
        assert!(!format!("{:?}", choice.trigger).contains("canary"));
        for missing in 1..WHOLE.len() {
            let mut settings = WHOLE.to_vec();
            let (name, _) = settings.remove(missing);
            assert!(ticks(&settings), "without {name}");
        }
    }

    #[test]
    fn a_token_of_its_own_is_a_credential_and_a_socket_needs_no_callback() {
        let socket = [WHOLE[0], WHOLE[1], ("cron.chronos.deliver", "socket")];
        assert!(ticks(&socket));
        let choice = chosen(&[&socket[..], &[("cron.chronos.access_token", "canary")]].concat());
        assert!(matches!(choice.trigger, Trigger::Chronos(_)) && choice.verifier.is_none());
    }

    #[test]
    fn the_verifier_is_chosen_by_name_and_one_that_could_pass_nothing_is_none() {
        let with = |verifier| [&WHOLE[..], &[("cron.chronos.verifier", verifier)]].concat();
        assert!(chosen(&with("per_job_key")).verifier.is_some());
        assert!(chosen(&with("portal_jwt")).verifier.is_some());
        assert!(ticks(&with("pinned_key")), "an address is no key");
        assert!(ticks(&with("trust_everybody")));
    }

    #[test]
    fn the_environment_bounds_parallel_runs_before_the_config_does() {
        let of = |settings: &[(&str, &str)]| {
            let value =
                |name: &str| settings.iter().find(|(known, _)| *known == name).map(|(_, v)| v.to_string());
            Config::read(value).max_parallel_jobs
        };
        assert_eq!(of(&[("cron.max_parallel_jobs", "3")]), Some(3));
        assert_eq!(of(&[("cron.max_parallel_jobs", "3"), ("hermes_cron_max_parallel", "2")]), Some(2));
        assert_eq!(of(&[("cron.max_parallel_jobs", "many")]), None);
    }

    #[test]
    fn a_store_is_opened_with_the_configured_patience() {
        let of = |seconds: &str| {
            let seconds = seconds.to_owned();
            Config::read(|name| (name == "hermes_cron_timeout").then(|| seconds.clone()))
                .store_settings()
                .inactivity
        };
        assert_eq!(of("30"), Duration::from_secs(30));
        assert_eq!(of("soon"), Duration::from_secs(600));
    }
}
