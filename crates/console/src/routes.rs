//! Router of the admin API: every path under `/admin`, and the state behind them.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use axum::routing::{MethodRouter, delete, get, patch, post};
use axum::{Router, middleware};
use clock::Clock;
use edge::Edge;
use edge::web::Web;
use identity::Identity;
use ledger::{Audit, Inbox, Invitations, Traces, Usage};
use post::Post;
use posthouse_time::Timepiece;
use posthouse_wire::Platform;
use relay::Relay;

use crate::problem::AdminProblem;
use crate::{
    AdminDoor, access, agents, aliases, audit, auth, backup, bots, clients, connectors, inbox, invites, jobs,
    keys, messages, receipts, routing, tenants,
};

/// Writes a consistent copy of the ledger to a new file; the error is a text for the operator.
pub type Backup =
    Arc<dyn Fn(PathBuf) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync>;

/// The chat page, for invitations.
#[derive(Clone)]
pub struct Guests {
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
    pub admin: AdminDoor,
    pub audit: Arc<dyn Audit>,
    pub usage: Arc<dyn Usage>,
    /// The public URL of the server, without a trailing slash, to which agents connect.
    pub public_url: String,
    /// Built-in platforms, on which every agent gets a conversation.
    pub built_in: Vec<Platform>,
    /// None if the chat page is switched off.
    pub guests: Option<Guests>,
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

/// One operation of the admin API.
pub struct Operation {
    pub method: &'static str,
    /// Below `/admin`, in the syntax of the router.
    pub path: &'static str,
    mount: fn() -> MethodRouter<Console>,
}

impl Operation {
    const fn of(method: &'static str, path: &'static str, mount: fn() -> MethodRouter<Console>) -> Self {
        Self { method, path, mount }
    }
}

/// All operations. The router is built from this list; tests that must cover every operation use it too.
pub const OPERATIONS: &[Operation] = &[
    Operation::of("GET", "/tenants", || get(tenants::list)),
    Operation::of("POST", "/tenants", || post(tenants::create)),
    Operation::of("GET", "/tenants/{tenant}", || get(tenants::show)),
    Operation::of("PATCH", "/tenants/{tenant}", || patch(tenants::change)),
    Operation::of("DELETE", "/tenants/{tenant}", || delete(tenants::remove)),
    Operation::of("POST", "/tenants/{tenant}/token", || post(tenants::token)),
    Operation::of("GET", "/agents", || get(agents::list)),
    Operation::of("POST", "/agents", || post(agents::create)),
    Operation::of("GET", "/agents/{agent}", || get(agents::show)),
    Operation::of("DELETE", "/agents/{agent}", || delete(agents::remove)),
    Operation::of("PATCH", "/agents/{agent}", || patch(agents::change)),
    Operation::of("POST", "/agents/{agent}/rotate", || post(agents::credentials::rotate)),
    Operation::of("POST", "/agents/{agent}/revoke", || post(agents::credentials::revoke)),
    Operation::of("GET", "/clients", || get(clients::list)),
    Operation::of("POST", "/clients", || post(clients::create)),
    Operation::of("DELETE", "/clients/{client}", || delete(clients::remove)),
    Operation::of("GET", "/bots", || get(bots::list)),
    Operation::of("POST", "/bots", || post(bots::create)),
    Operation::of("GET", "/bots/{platform}/{bot}", || get(bots::show)),
    Operation::of("PATCH", "/bots/{platform}/{bot}", || patch(bots::change)),
    Operation::of("DELETE", "/bots/{platform}/{bot}", || delete(bots::remove)),
    Operation::of("GET", "/access", || get(access::list)),
    Operation::of("POST", "/access/{platform}/{bot}", || post(access::decide)),
    Operation::of("DELETE", "/access/{platform}/{bot}", || delete(access::remove)),
    Operation::of("GET", "/platforms/{platform}", || get(bots::platform)),
    Operation::of("GET", "/routes", || get(routing::list)),
    Operation::of("POST", "/routes", || post(routing::create)),
    Operation::of("DELETE", "/routes", || delete(routing::remove)),
    Operation::of("GET", "/connectors", || get(connectors::list)),
    Operation::of("POST", "/connectors", || post(connectors::create)),
    Operation::of("GET", "/connectors/{tenant}/{name}", || get(connectors::show)),
    Operation::of("DELETE", "/connectors/{tenant}/{name}", || delete(connectors::remove)),
    Operation::of("POST", "/connectors/{tenant}/{name}/check", || post(connectors::check)),
    Operation::of("GET", "/aliases", || get(aliases::list)),
    Operation::of("POST", "/aliases", || post(aliases::create)),
    Operation::of("DELETE", "/aliases/{tenant}/{name}", || delete(aliases::remove)),
    Operation::of("GET", "/receipts", || get(receipts::list)),
    Operation::of("GET", "/receipts/{dispatch}", || get(receipts::show)),
    Operation::of("GET", "/inbox", || get(inbox::sizes)),
    Operation::of("GET", "/dead-letters", || get(inbox::dead_letters)),
    Operation::of("POST", "/dead-letters/{entry}/redrive", || post(inbox::redrive)),
    Operation::of("GET", "/jobs", || get(jobs::list)),
    Operation::of("GET", "/jobs/history", || get(jobs::history)),
    Operation::of("GET", "/jobs/{agent}/{job}", || get(jobs::show)),
    Operation::of("POST", "/jobs/{agent}/{job}/fire", || post(jobs::fire_now)),
    Operation::of("POST", "/jobs/{agent}/{job}/redrive", || post(jobs::redrive)),
    Operation::of("GET", "/signing-keys", || get(keys::list)),
    Operation::of("POST", "/signing-keys", || post(keys::rotate)),
    Operation::of("GET", "/scheduler-secrets", || get(keys::scheduler_secrets)),
    Operation::of("POST", "/scheduler-secrets", || post(keys::rotate_scheduler_secret)),
    Operation::of("DELETE", "/scheduler-secrets", || delete(keys::revoke_scheduler_secrets)),
    Operation::of("GET", "/messages/{id}", || get(messages::trace)),
    Operation::of("GET", "/invites", || get(invites::list)),
    Operation::of("POST", "/invites", || post(invites::create)),
    Operation::of("POST", "/invites/{invite}/link", || post(invites::renew)),
    Operation::of("DELETE", "/invites/{invite}", || delete(invites::remove)),
    Operation::of("POST", "/backup", || post(backup::write)),
    Operation::of("GET", "/audit", || get(audit::list)),
];

/// The admin API, to be mounted below the server's path prefix.
pub fn routes(parts: Parts) -> Router {
    let console: Console = Arc::new(parts);
    let mounted = OPERATIONS
        .iter()
        .fold(Router::new(), |router, operation| router.route(operation.path, (operation.mount)()));
    let paths = mounted
        .fallback(async || AdminProblem::NOT_FOUND)
        .method_not_allowed_fallback(async || AdminProblem::METHOD)
        .layer(middleware::from_fn_with_state(Arc::clone(&console), audit::note))
        .layer(middleware::from_fn_with_state(Arc::clone(&console), auth::admit))
        .with_state(console);
    Router::new().nest("/admin", paths)
}
