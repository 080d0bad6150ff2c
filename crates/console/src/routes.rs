//! Router of the admin API: every path under `/admin`, and the state behind them.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use axum::routing::{delete, get, patch, post};
use axum::{Router, middleware};
use clock::Clock;
use edge::Edge;
use edge::web::Web;
use http_kit::{Endpoint, Operation, operations, router};
use identity::Identity;
use ledger::{Audit, CapabilityUses, Inbox, Invitations, Traces, Usage};
use post::Post;
use posthouse_time::Timepiece;
use posthouse_wire::Platform;
use relay::Relay;
use workshop::{SkillRunner, Workshop};

use crate::problem::AdminProblem;
use crate::{
    AdminApi, access, agents, aliases, approval_keys, audit, auth, backup, bindings, bot_changes, bots,
    capabilities, claims, clients, connectors, enroll_tokens, inbox, invites, jobs, keys, messages, receipts,
    routing, run_settings, tenants,
};

/// Writes a consistent copy of the ledger to a new file; the error is a text for the operator.
pub type Backup =
    Arc<dyn Fn(PathBuf) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync>;

/// The chat page, for invitations.
#[derive(Clone)]
pub struct ChatPageParts {
    pub web: Arc<Web>,
    pub invitations: Arc<dyn Invitations>,
}

/// Dependencies of the admin API.
#[derive(Clone)]
pub struct Parts {
    pub identity: Identity,
    pub relay: Relay,
    pub inbox: Arc<dyn Inbox>,
    pub traces: Arc<dyn Traces>,
    pub edge: Edge,
    pub clock: Clock,
    pub post: Post,
    pub workshop: Workshop,
    pub runner: SkillRunner,
    pub admin: AdminApi,
    pub audit: Arc<dyn Audit>,
    pub usage: Arc<dyn Usage>,
    pub uses: Arc<dyn CapabilityUses>,
    /// The public URL of the server, without a trailing slash, to which agents connect.
    pub public_url: String,
    /// Built-in platforms, on which every agent gets a conversation.
    pub built_in: Vec<Platform>,
    /// None if the chat page is switched off.
    pub chat_page: Option<ChatPageParts>,
    pub timepiece: Timepiece,
    pub backup: Backup,
}

pub(crate) type Console = Arc<Parts>;

impl Parts {
    /// Whether this platform is built in: its bots are created and removed with their agents.
    pub(crate) fn is_built_in(&self, platform: &Platform) -> bool {
        self.built_in.contains(platform)
    }
}

/// All operations with their handlers. The router is built from this list.
const ENDPOINTS: &[Endpoint<Console>] = &[
    Endpoint::closed("GET", "/admin/tenants", || get(tenants::list)),
    Endpoint::closed("POST", "/admin/tenants", || post(tenants::create)),
    Endpoint::closed("GET", "/admin/tenants/{tenant}", || get(tenants::show)),
    Endpoint::closed("PATCH", "/admin/tenants/{tenant}", || patch(tenants::change)),
    Endpoint::closed("DELETE", "/admin/tenants/{tenant}", || delete(tenants::remove)),
    Endpoint::closed("POST", "/admin/tenants/{tenant}/token", || post(tenants::token)),
    Endpoint::closed("GET", "/admin/agents", || get(agents::list)),
    Endpoint::closed("POST", "/admin/agents", || post(agents::create)),
    Endpoint::closed("GET", "/admin/agents/{agent}", || get(agents::show)),
    Endpoint::closed("DELETE", "/admin/agents/{agent}", || delete(agents::remove)),
    Endpoint::closed("PATCH", "/admin/agents/{agent}", || patch(agents::change)),
    Endpoint::closed("POST", "/admin/agents/{agent}/rotate", || post(agents::credentials::rotate)),
    Endpoint::closed("POST", "/admin/agents/{agent}/revoke", || post(agents::credentials::revoke)),
    Endpoint::closed("GET", "/admin/agents/{agent}/capabilities", || get(capabilities::list)),
    Endpoint::closed("GET", "/admin/clients", || get(clients::list)),
    Endpoint::closed("POST", "/admin/clients", || post(clients::create)),
    Endpoint::closed("DELETE", "/admin/clients/{client}", || delete(clients::remove)),
    Endpoint::closed("GET", "/admin/enroll-tokens", || get(enroll_tokens::list)),
    Endpoint::closed("POST", "/admin/enroll-tokens", || post(enroll_tokens::create)),
    Endpoint::closed("DELETE", "/admin/enroll-tokens/{token}", || delete(enroll_tokens::revoke)),
    Endpoint::closed("GET", "/admin/bots", || get(bots::list)),
    Endpoint::closed("POST", "/admin/bots", || post(bots::create)),
    Endpoint::closed("GET", "/admin/bots/{platform}/{bot}", || get(bots::show)),
    Endpoint::closed("PATCH", "/admin/bots/{platform}/{bot}", || patch(bot_changes::change)),
    Endpoint::closed("DELETE", "/admin/bots/{platform}/{bot}", || delete(bots::remove)),
    Endpoint::closed("GET", "/admin/access", || get(access::list)),
    Endpoint::closed("POST", "/admin/access/{platform}/{bot}", || post(access::decide)),
    Endpoint::closed("DELETE", "/admin/access/{platform}/{bot}", || delete(access::remove)),
    Endpoint::closed("GET", "/admin/bindings", || get(bindings::list)),
    Endpoint::closed("DELETE", "/admin/bindings", || delete(bindings::remove)),
    Endpoint::closed("GET", "/admin/claims", || get(claims::list)),
    Endpoint::closed("POST", "/admin/claims", || post(claims::grant)),
    Endpoint::closed("DELETE", "/admin/claims", || delete(claims::remove)),
    Endpoint::closed("GET", "/admin/platforms/{platform}", || get(bots::platform)),
    Endpoint::closed("GET", "/admin/routes", || get(routing::list)),
    Endpoint::closed("POST", "/admin/routes", || post(routing::create)),
    Endpoint::closed("PATCH", "/admin/routes", || patch(routing::change)),
    Endpoint::closed("DELETE", "/admin/routes", || delete(routing::remove)),
    Endpoint::closed("GET", "/admin/connectors", || get(connectors::list)),
    Endpoint::closed("POST", "/admin/connectors", || post(connectors::create)),
    Endpoint::closed("GET", "/admin/connectors/{tenant}/{name}", || get(connectors::show)),
    Endpoint::closed("DELETE", "/admin/connectors/{tenant}/{name}", || delete(connectors::remove)),
    Endpoint::closed("POST", "/admin/connectors/{tenant}/{name}/check", || post(connectors::check)),
    Endpoint::closed("GET", "/admin/aliases", || get(aliases::list)),
    Endpoint::closed("POST", "/admin/aliases", || post(aliases::create)),
    Endpoint::closed("DELETE", "/admin/aliases/{tenant}/{name}", || delete(aliases::remove)),
    Endpoint::closed("GET", "/admin/run-settings/{tenant}", || get(run_settings::show)),
    Endpoint::closed("PATCH", "/admin/run-settings/{tenant}", || patch(run_settings::change)),
    Endpoint::closed("GET", "/admin/secrets", || get(run_settings::secrets)),
    Endpoint::closed("POST", "/admin/secrets", || post(run_settings::set_secret)),
    Endpoint::closed("DELETE", "/admin/secrets/{tenant}/{name}", || delete(run_settings::remove_secret)),
    Endpoint::closed("GET", "/admin/approval-keys", || get(approval_keys::list)),
    Endpoint::closed("POST", "/admin/approval-keys", || post(approval_keys::add)),
    Endpoint::closed("DELETE", "/admin/approval-keys/{tenant}/{key}", || delete(approval_keys::revoke)),
    Endpoint::closed("GET", "/admin/skill-audit", || get(approval_keys::log)),
    Endpoint::closed("GET", "/admin/receipts", || get(receipts::list)),
    Endpoint::closed("GET", "/admin/receipts/{dispatch}", || get(receipts::show)),
    Endpoint::closed("GET", "/admin/inbox", || get(inbox::sizes)),
    Endpoint::closed("GET", "/admin/dead-letters", || get(inbox::dead_letters)),
    Endpoint::closed("POST", "/admin/dead-letters/{entry}/redrive", || post(inbox::redrive)),
    Endpoint::closed("GET", "/admin/jobs", || get(jobs::list)),
    Endpoint::closed("GET", "/admin/jobs/history", || get(jobs::history)),
    Endpoint::closed("GET", "/admin/jobs/{agent}/{job}", || get(jobs::show)),
    Endpoint::closed("POST", "/admin/jobs/{agent}/{job}/fire", || post(jobs::fire_now)),
    Endpoint::closed("POST", "/admin/jobs/{agent}/{job}/redrive", || post(jobs::redrive)),
    Endpoint::closed("GET", "/admin/signing-keys", || get(keys::list)),
    Endpoint::closed("POST", "/admin/signing-keys", || post(keys::rotate)),
    Endpoint::closed("GET", "/admin/scheduler-secrets", || get(keys::scheduler_secrets)),
    Endpoint::closed("POST", "/admin/scheduler-secrets", || post(keys::rotate_scheduler_secret)),
    Endpoint::closed("DELETE", "/admin/scheduler-secrets", || delete(keys::revoke_scheduler_secrets)),
    Endpoint::closed("GET", "/admin/messages/{id}", || get(messages::trace)),
    Endpoint::closed("GET", "/admin/invites", || get(invites::list)),
    Endpoint::closed("POST", "/admin/invites", || post(invites::create)),
    Endpoint::closed("POST", "/admin/invites/{invite}/link", || post(invites::renew)),
    Endpoint::closed("DELETE", "/admin/invites/{invite}", || delete(invites::remove)),
    Endpoint::closed("POST", "/admin/backup", || post(backup::write)),
    Endpoint::closed("GET", "/admin/audit", || get(audit::list)),
];

/// All operations. Tests check the OpenAPI fragment and the access matrix against them.
pub const OPERATIONS: &[Operation] = &operations::<Console, { ENDPOINTS.len() }>(ENDPOINTS);

/// The OpenAPI fragment of the operations, written by hand.
pub const OPENAPI: &str = include_str!("openapi.json");

/// The admin API, to be mounted below the server's path prefix.
pub fn routes(parts: Parts) -> Router {
    let console: Console = Arc::new(parts);
    let paths = router("/admin", ENDPOINTS)
        .fallback(async || AdminProblem::NOT_FOUND)
        .method_not_allowed_fallback(async || AdminProblem::METHOD)
        .layer(middleware::from_fn_with_state(Arc::clone(&console), audit::record))
        .layer(middleware::from_fn_with_state(Arc::clone(&console), auth::admit))
        .with_state(console);
    Router::new().nest("/admin", paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_described_and_nothing_else_is() {
        let wrong = http_kit::openapi::check_fragment(OPENAPI, &[post::OPENAPI], OPERATIONS);
        assert_eq!(wrong, Vec::<String>::new());
    }
}
