//! `Identity`, the handle of this crate: its components, construction, and the loop that follows other nodes.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use bus::{Bus, BusEvent};
use errand::Errand;
use ledger::{EnrollTokens, Invitations, Ledger, RelevancePolicies, Roster, SleepRecords, Staleness};
use posthouse_time::Timepiece;
use tokio_util::sync::CancellationToken;
use vault::Keyring;

use crate::oauth::{self, TokenEndpoints};
use crate::revocation_listeners::RevocationListeners;
use crate::{
    Accounts, AdminToken, Authenticator, Fault, Gate, GatewayEnrolment, Metrics, RosterView, SleepUrls,
    StalePolicies, Throttle,
};

/// Dependencies of the identity crate. It gets a keyring, never the vault.
pub struct Parts {
    pub roster: Arc<dyn Roster>,
    pub access: Arc<dyn ledger::Access>,
    pub invitations: Arc<dyn Invitations>,
    pub enroll_tokens: Arc<dyn EnrollTokens>,
    pub relevance: Arc<dyn RelevancePolicies>,
    pub staleness: Arc<dyn Staleness>,
    pub sleep: Arc<dyn SleepRecords>,
    pub keyring: Keyring,
    pub admin: AdminToken,
    pub bus: Bus,
    /// Checks wake URLs and callback URLs.
    pub errand: Errand,
    pub timepiece: Timepiece,
    /// Lifetime of an access token.
    pub access_token: Duration,
}

impl Parts {
    /// The parts over one ledger, with the default lifetimes and without an operator.
    pub fn over(ledger: &Ledger, keyring: Keyring, bus: Bus, errand: Errand, timepiece: Timepiece) -> Self {
        Self {
            roster: ledger.roster(),
            access: ledger.access(),
            invitations: ledger.invitations(),
            enroll_tokens: ledger.enroll_tokens(),
            relevance: ledger.relevance(),
            staleness: ledger.staleness(),
            sleep: ledger.sleep(),
            keyring,
            admin: AdminToken::default(),
            bus,
            errand,
            timepiece,
            access_token: Duration::from_secs(3600),
        }
    }
}

/// Who is calling and what they may do. A cloneable handle of its components.
#[derive(Clone)]
pub struct Identity {
    /// From a request to its principal.
    pub authenticator: Authenticator,
    /// Tenants, agents and their credentials: creating and ending.
    pub accounts: Accounts,
    /// Cached reads of agents, access tokens and routes.
    pub roster: RosterView,
    /// Who may write to an agent.
    pub gate: Gate,
    /// What happens to messages that waited too long.
    pub stale_policies: StalePolicies,
    /// Stop URLs of agents, and tokens for asking to be stopped.
    pub sleep_urls: SleepUrls,
    /// Gateways that get their credential for a single-use token.
    pub gateway_enrolment: GatewayEnrolment,
    tokens: TokenEndpoints,
    metrics: Arc<Metrics>,
    bus: Bus,
    closing: CancellationToken,
}

impl Identity {
    pub fn new(parts: Parts) -> Self {
        let Parts { roster, access, invitations, keyring, admin, bus, errand, timepiece, .. } = parts;
        let keyring = keyring.granting_access_for(parts.access_token);
        let metrics = Arc::<Metrics>::default();
        let roster = RosterView::new(roster, keyring.clone(), bus.clone(), timepiece.clone());
        let throttle = Throttle::new(Arc::clone(&metrics), timepiece.clone());
        let authenticator = Authenticator {
            keyring: keyring.clone(),
            roster: roster.clone(),
            invitations,
            throttle: throttle.clone(),
            admin,
        };
        let gateway_enrolment = GatewayEnrolment {
            keyring: keyring.clone(),
            records: parts.enroll_tokens,
            timepiece: timepiece.clone(),
        };
        Self {
            authenticator,
            gateway_enrolment,
            sleep_urls: SleepUrls {
                keyring: keyring.clone(),
                records: parts.sleep,
                throttle: throttle.clone(),
            },
            stale_policies: StalePolicies::new(parts.staleness, roster.clone()),
            gate: Gate::new(access, parts.relevance, roster.clone(), timepiece.clone()),
            tokens: TokenEndpoints::new(keyring.clone(), throttle, Arc::clone(&metrics), timepiece.clone()),
            accounts: Accounts {
                keyring,
                roster: roster.clone(),
                bus: bus.clone(),
                revocations: RevocationListeners::default(),
                errand,
                timepiece,
            },
            roster,
            metrics,
            bus,
            closing: CancellationToken::new(),
        }
    }

    /// Follows changes that other nodes announce, until [`Identity::close`].
    pub async fn run(&self) -> Result<(), Fault> {
        let mut notifications = self.bus.listen();
        loop {
            tokio::select! {
                () = self.closing.cancelled() => return Ok(()),
                event = notifications.next() => match event {
                    BusEvent::Notification(notification) => self.roster.react_to(&notification),
                    BusEvent::Missed => self.roster.missed(),
                    BusEvent::Closed => return Ok(()),
                },
            }
        }
    }

    pub fn close(&self) {
        self.closing.cancel();
    }

    /// The OAuth token endpoints.
    pub fn routes(&self) -> Router {
        oauth::routes(self.tokens.clone())
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }
}
