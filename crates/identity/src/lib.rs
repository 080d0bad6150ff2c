//! Identity: who is calling, and what they may do.
//!
//! - [`Authenticator`] turns every request into one [`Principal`].
//! - [`Accounts`] creates and removes tenants, agents, their credentials, bots and routes.
//! - [`RosterView`] is the only cache of agents, access tokens and routes.
//! - [`Gate`] decides who may write to an agent.
//! - [`GatewayEnrolment`] gives out credentials for single-use tokens.
//! - [`TrustedIssuers`] checks tokens of foreign issuers.
//! - [`Quotas`] limits what each tenant may do per minute.
//! - `TokenEndpoints` answers OAuth token requests.
//!
//! Invariants: tenant and agent come from the stored record of the credential, never from a body or a frame; a
//! refusal looks the same as absence; a revocation takes effect before its command answers.

mod accounts;
mod admin_token;
mod authenticator;
mod authorization;
mod bots;
mod config;
mod credentials;
mod fault;
mod gate;
mod gateway_enrolment;
mod gateways;
mod identity;
mod issuers;
mod metrics;
mod oauth;
mod principal;
mod provisioning;
mod quotas;
mod record_cache;
mod refresh_log;
mod revocation_listeners;
mod roster_versions;
mod roster_view;
mod route;
mod sleep_urls;
mod staleness;
mod tenant_cache;
mod throttle;

pub use accounts::{Accounts, Enrolled, Enrolment, NotEnrolled};
pub use admin_token::AdminToken;
pub use authenticator::{Authentication, Authenticator, CredentialRefusal, fingerprint};
pub use bots::AgentSettings;
pub use config::{Config, IssuerSettings};
pub use credentials::HttpSecrets;
pub use fault::Fault;
pub use gate::{
    Admitted, AuthorLinks, AuthorPolicies, ChatVisibility, Gate, GateDecision, IncomingMessage, LinkCode,
    LinkCodes, LinkResult, PairingCode, PlaceClaims, Relevance, SenderAccess, Stranger, is_link_code,
    link_command, may_write_to_peer,
};
pub use gateway_enrolment::{EnrolledGateway, GatewayEnrolment};
pub use gateways::{GatewayChange, GatewayChanged, Gateways};
pub use identity::{Identity, Parts};
pub use issuers::{IssuedClaims, TokenPurpose, TrustedIssuers};
pub use metrics::Metrics;
pub use oauth::{LOGIN_SCOPE, OPENAPI, OPERATIONS};
pub use principal::{AgentCredential, Principal};
pub use provisioning::{GatewayProvisioning, ProvisionedGateway};
pub use quotas::{LimitValues, OverQuota, QuotaKind, QuotaUse, Quotas, SocketPlace};
pub use revocation_listeners::RevokedAccess;
pub use roster_versions::{RosterChange, RosterWatch};
pub use roster_view::RosterView;
pub use route::{EventOrigin, Routed};
pub use sleep_urls::{SleepCaller, SleepUrls};
pub use staleness::StalePolicies;
pub use tenant_cache::TenantCache;
pub use throttle::Throttle;
pub use vault::{
    AccessGrant, BOOTSTRAP_CLIENT, EndedCredentials, GatewayOwner, Login, SHORTEST_ACCESS, WhichCredentials,
};
