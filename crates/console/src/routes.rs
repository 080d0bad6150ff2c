//! The door itself: every path under `/admin`, and what stands behind them.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::routing::{delete, get, post};
use axum::{Router, middleware};
use clock::Clock;
use edge::Edge;
use edge::web::Web;
use ledger::Rooms;
use posthouse_time::Timepiece;
use posthouse_wire::Platform;
use relay::Relay;

use crate::problem::Problem;
use crate::{
    AdminToken, agents, auth, backup, bots, clients, inbox, invites, jobs, keys, messages, routing, tenants,
};

/// Writes a consistent copy of the ledger to a file that is not there yet; an error in words.
pub type Backup =
    Arc<dyn Fn(PathBuf) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync>;

/// Whether a wake URL may be called at all; an error in words.
pub type WakeUrlCheck = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// The web chat, for inviting people to it.
#[derive(Clone)]
pub struct Guests {
    pub web: Arc<Web>,
    pub rooms: Arc<dyn Rooms>,
}

/// What the console is built from.
#[derive(Clone)]
pub struct Parts {
    pub relay: Relay,
    pub edge: Edge,
    pub clock: Clock,
    pub admin: AdminToken,
    /// The house's one address, without a trailing slash: what agents are told to dial.
    pub public_url: String,
    /// Platforms of the house's own, on which every agent gets a conversation.
    pub built_in: Vec<Platform>,
    /// Nothing when the web chat is switched off.
    pub guests: Option<Guests>,
    pub timepiece: Timepiece,
    pub wake_url: WakeUrlCheck,
    pub backup: Backup,
}

pub(crate) type Console = Arc<Parts>;

/// The largest body that is read.
const LARGEST_BODY: usize = 256 * 1024;

impl Parts {
    /// Whether this platform is the house itself: its bots come and go with their agents.
    pub(crate) fn is_built_in(&self, platform: &Platform) -> bool {
        self.built_in.contains(platform)
    }
}

/// The admin API, to be mounted under the house's prefix.
pub fn routes(parts: Parts) -> Router {
    let console: Console = Arc::new(parts);
    let paths = Router::new()
        .route("/tenants", get(tenants::list).post(tenants::create))
        .route("/tenants/{tenant}", get(tenants::show).delete(tenants::remove))
        .route("/agents", get(agents::list).post(agents::create))
        .route("/agents/{agent}", get(agents::show).delete(agents::remove).patch(agents::change))
        .route("/agents/{agent}/rotate", post(agents::credentials::rotate))
        .route("/agents/{agent}/revoke", post(agents::credentials::revoke))
        .route("/clients", get(clients::list).post(clients::create))
        .route("/clients/{client}", delete(clients::remove))
        .route("/bots", get(bots::list).post(bots::create))
        .route("/bots/{platform}/{bot}", get(bots::show).delete(bots::remove))
        .route("/platforms/{platform}", get(bots::platform))
        .route("/routes", get(routing::list).post(routing::create).delete(routing::remove))
        .route("/inbox", get(inbox::sizes))
        .route("/dead-letters", get(inbox::dead_letters))
        .route("/dead-letters/{entry}/redrive", post(inbox::redrive))
        .route("/jobs", get(jobs::list))
        .route("/jobs/history", get(jobs::history))
        .route("/jobs/{agent}/{job}", get(jobs::show))
        .route("/jobs/{agent}/{job}/fire", post(jobs::fire_now))
        .route("/jobs/{agent}/{job}/redrive", post(jobs::redrive))
        .route("/signing-keys", get(keys::list).post(keys::rotate))
        .route(
            "/scheduler-secrets",
            get(keys::scheduler_secrets)
                .post(keys::rotate_scheduler_secret)
                .delete(keys::revoke_scheduler_secrets),
        )
        .route("/messages/{id}", get(messages::trace))
        .route("/invites", get(invites::list).post(invites::create))
        .route("/invites/{person}", delete(invites::remove))
        .route("/backup", post(backup::write))
        .fallback(async || Problem::NOT_FOUND)
        .method_not_allowed_fallback(async || Problem::METHOD)
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .layer(middleware::from_fn_with_state(Arc::clone(&console), auth::admit))
        .with_state(console);
    Router::new().nest("/admin", paths)
}
