//! `Identity`, the handle of this crate: its components, construction, and the loop that follows other nodes.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use bus::{Bus, BusEvent};
use errand::Errand;
use ledger::{
    Bindings, EnrollTokens, GatewaySettings, Invitations, Ledger, Principals, Provisioning,
    RelevancePolicies, Roster, ScopeClaims, SharedBots, SleepRecords, Staleness, TenantLimits,
};
use posthouse_time::Timepiece;
use posthouse_wire::Platform;
use tokio_util::sync::CancellationToken;
use vault::Keyring;

use crate::gate::GateRecords;
use crate::oauth::{self, TokenEndpoints};
use crate::revocation_listeners::RevocationListeners;
use crate::{
    Accounts, AdminToken, Authenticator, Config, Fault, Gate, GatewayEnrolment, GatewayProvisioning,
    Gateways, LimitValues, Metrics, Quotas, RosterView, SleepUrls, StalePolicies, Throttle, TrustedIssuers,
};

/// Dependencies of the identity crate. It gets a keyring, never the vault.
pub struct Parts {
    pub roster: Arc<dyn Roster>,
    pub access: Arc<dyn ledger::Access>,
    pub invitations: Arc<dyn Invitations>,
    pub enroll_tokens: Arc<dyn EnrollTokens>,
    pub relevance: Arc<dyn RelevancePolicies>,
    pub gateway_settings: Arc<dyn GatewaySettings>,
    pub provisioning: Arc<dyn Provisioning>,
    pub bindings: Arc<dyn Bindings>,
    pub claims: Arc<dyn ScopeClaims>,
    pub principals: Arc<dyn Principals>,
    pub shared_bots: Arc<dyn SharedBots>,
    pub staleness: Arc<dyn Staleness>,
    pub sleep: Arc<dyn SleepRecords>,
    pub tenant_limits: Arc<dyn TenantLimits>,
    pub keyring: Keyring,
    pub admin: AdminToken,
    /// Foreign issuers of identity tokens.
    pub issuers: TrustedIssuers,
    pub bus: Bus,
    /// Checks wake URLs and callback URLs.
    pub errand: Errand,
    pub timepiece: Timepiece,
    /// Lifetime of an access token.
    pub access_token: Duration,
    /// How long a gateway that provisions itself again gets the same secret.
    pub secret_reuse: Duration,
    /// The limits of tenants that have none of their own.
    pub limits: LimitValues,
    /// The server's own platforms, on which every agent has a bot.
    pub built_in: Vec<Platform>,
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
            gateway_settings: ledger.gateway_settings(),
            provisioning: ledger.provisioning(),
            bindings: ledger.bindings(),
            claims: ledger.claims(),
            principals: ledger.principals(),
            shared_bots: ledger.shared_bots(),
            staleness: ledger.staleness(),
            sleep: ledger.sleep(),
            tenant_limits: ledger.tenant_limits(),
            keyring,
            admin: AdminToken::default(),
            issuers: TrustedIssuers::default(),
            bus,
            errand,
            timepiece,
            access_token: Duration::from_secs(3600),
            secret_reuse: Config::default().secret_reuse.0,
            limits: LimitValues::default(),
            built_in: Vec::new(),
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
    /// What each tenant and agent may do per minute, and how many sockets they may have.
    pub quotas: Quotas,
    /// Stop URLs of agents, and tokens for asking to be stopped.
    pub sleep_urls: SleepUrls,
    /// Gateways that get their credential for a single-use token.
    pub gateway_enrolment: GatewayEnrolment,
    /// Gateways that get their credential when they start.
    pub gateway_provisioning: GatewayProvisioning,
    /// Settings of single gateway credentials.
    pub gateways: Gateways,
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
            issuers: parts.issuers,
            timepiece: timepiece.clone(),
        };
        let gateway_enrolment = GatewayEnrolment {
            keyring: keyring.clone(),
            records: parts.enroll_tokens,
            timepiece: timepiece.clone(),
        };
        let records = GateRecords {
            access,
            relevance: parts.relevance,
            bindings: parts.bindings,
            claims: parts.claims,
            principals: parts.principals,
            shared_bots: parts.shared_bots,
        };
        let gate = Gate::new(records, roster.clone(), timepiece.clone());
        let gateway_provisioning = GatewayProvisioning {
            keyring: keyring.clone(),
            records: parts.provisioning,
            claims: gate.claims().clone(),
            roster: roster.clone(),
            errand: errand.clone(),
            timepiece: timepiece.clone(),
            reuse: parts.secret_reuse,
            built_in: parts.built_in,
        };
        Self {
            authenticator,
            gateway_enrolment,
            sleep_urls: SleepUrls {
                keyring: keyring.clone(),
                records: parts.sleep,
                throttle: throttle.clone(),
            },
            quotas: Quotas::new(parts.tenant_limits, roster.clone(), parts.limits, Arc::clone(&metrics)),
            stale_policies: StalePolicies::new(parts.staleness, roster.clone()),
            gateway_provisioning,
            gateways: Gateways {
                records: parts.gateway_settings,
                roster: roster.clone(),
                claims: gate.claims().clone(),
            },
            gate,
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
