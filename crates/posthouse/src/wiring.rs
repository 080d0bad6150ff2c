//! Wiring of the server: opens the storage, builds all planes, opens the doors, keeps the loops running; shutdown.

mod health;
mod init;
mod planes;

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use console::AdminApi;
use edge::web;
use identity::AdminToken;
use ledger::{Ledger, Location};
use posthouse_time::Timepiece;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use vault::{MasterKeys, Vault};

use crate::config::Config;
use crate::egress_router::EgressRouter;
use crate::web_enrolment::WebEnrolment;
use crate::{doors, server};

pub use health::ServerHealth;
pub use init::init;
pub use planes::Planes;

/// Options of `serve`.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// Print one line with the URL when the server is ready.
    pub announce: bool,
}

/// Name of the stored value with the hash of the admin token.
const ADMIN: &str = "admin.token";
/// Limit of a graceful shutdown. What is not finished by then is abandoned.
const CLOSE_WITHIN: Duration = Duration::from_secs(9);
/// Interval of deleting expired rows.
const PRUNE_EVERY: Duration = Duration::from_secs(30);

/// A running server.
pub struct RunningServer {
    pub planes: Planes,
    pub url: String,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
    ledger: Ledger,
    url_file: PathBuf,
}

/// The opened ledger and vault of a server folder.
struct Storage {
    ledger: Ledger,
    vault: Vault,
    admin: AdminToken,
}

/// Serves until SIGINT or SIGTERM.
pub async fn serve(config: Config, options: ServeOptions) -> anyhow::Result<()> {
    let server = RunningServer::open(config).await?;
    if options.announce {
        println!("posthouse is ready at {}", server.url);
    }
    termination().await?;
    server.close().await;
    Ok(())
}

impl RunningServer {
    pub async fn open(config: Config) -> anyhow::Result<Self> {
        let timepiece = Timepiece::wall();
        let folder = config.storage_dir().to_owned();
        let Storage { ledger, vault, admin } = open_storage(&config, &folder, &timepiece).await?;
        let listener = listen(config.server.listen).await?;
        let address = listener.local_addr()?;
        let url = config.public_url(address);

        let planes = Planes::build(&config, &ledger, vault, admin, &url, &timepiece).await?;
        let stop = CancellationToken::new();
        let health = ServerHealth::new(&ledger);
        let doors = open_doors(&config, &planes, &ledger, &health, &url, &stop, &timepiece);
        let settings = listener_settings(&config, &timepiece)?;
        let serving = tokio::spawn(server::serve(listener, doors, settings, stop.clone()));
        planes.keep_running(&health, &stop);
        health.keep_up("prune", &stop, {
            let (ledger, stop) = (ledger.clone(), stop.clone());
            move || prune(ledger.clone(), timepiece.clone(), stop.clone())
        });

        let url_file = folder.join("house.url");
        write_url(&url_file, &config.local_url(address))?;
        tracing::info!(listen = %address, dir = %folder.display(), "the server is ready at {url}");
        Ok(Self { planes, url, stop, serving, ledger, url_file })
    }

    /// Stops accepting, drains (acknowledgements first), and closes every socket with 1012.
    pub async fn close(self) {
        tracing::info!("the server is shutting down");
        let closing = async {
            // First, so that a loop that ends now does not count as failed.
            self.stop.cancel();
            self.planes.close().await;
            let _ = self.serving.await;
        };
        if tokio::time::timeout(CLOSE_WITHIN, closing).await.is_err() {
            tracing::warn!("some work was unfinished when the server shut down");
        }
        let _ = fs::remove_file(&self.url_file);
        // The last handle: everything accepted is committed before this returns.
        drop(self.ledger);
    }
}

async fn open_storage(config: &Config, folder: &Path, timepiece: &Timepiece) -> anyhow::Result<Storage> {
    if !folder.exists() {
        bail!("{} does not exist: create it with `posthouse init DIR`", folder.display());
    }
    let ledger = Ledger::open(Location::Folder(folder.to_owned()), timepiece.clone()).await?;
    ledger.set_default_tenant_limit(config.storage.tenant_bytes);
    ledger.set_default_media_limit(config.storage.media_bytes);
    ledger.set_default_data_limit(config.storage.data_bytes);
    let (key, warning) = config.vault_key()?;
    for warning in config.warnings().chain(warning) {
        tracing::warn!("{warning}");
    }
    let keys = MasterKeys::read(&key)?;
    let vault =
        Vault::unlock(keys, ledger.vault(), ledger.tokens(), &*ledger.facts(), timepiece.clone()).await?;
    let admin = match ledger.facts().fact(ADMIN).await? {
        Some(hash) => AdminToken::from_hash(hash),
        None => bail!("{} has no admin token: create the folder with `posthouse init`", folder.display()),
    };
    Ok(Storage { ledger, vault, admin })
}

/// All HTTP paths of the server.
fn open_doors(
    config: &Config,
    planes: &Planes,
    ledger: &Ledger,
    health: &ServerHealth,
    url: &str,
    stop: &CancellationToken,
    timepiece: &Timepiece,
) -> doors::Doors {
    let mut metrics = Registry::default();
    planes.register_metrics(&mut metrics);
    let Planes { identity, relay, clock, post, workshop, edge, .. } = planes;
    let admin = AdminApi::new(identity.authenticator.clone());
    let conversations = Arc::clone(post.conversations());
    let egress = EgressRouter { edge: edge.clone(), post: conversations, usage: ledger.usage() };
    let serves_page = config.platforms.web.serves_page();
    let mut routers = vec![
        identity.routes(),
        relay::routes(relay, Arc::new(egress)),
        edge::routes(edge),
        clock::routes(clock),
        post::routes(post),
        workshop::routes(workshop),
        workshop::run_routes(&planes.runner),
        workshop::tool_routes(tool_parts(planes, url, stop, timepiece)),
        console::routes(console_parts(config, planes, ledger, admin.clone(), url, timepiece)),
    ];
    if serves_page {
        routers.push(web::routes(chat_page(planes, ledger, url, stop)));
    }
    doors::open(
        &config.prefix(),
        routers,
        doors::ServerHandlers {
            health: health.clone(),
            bots: edge.health().clone(),
            metrics: Arc::new(metrics),
            metrics_open: config.metrics.open,
            admin,
            description: doors::description::served(url, serves_page),
        },
        serves_page,
        edge.hosts().clone(),
        doors::BodyLimits {
            within: config.server.body_timeout.0,
            unfinished: doors::ByteBudget::new(config.server.unfinished_body_bytes),
            unsent: doors::ByteBudget::new(config.server.unsent_answer_bytes),
            timepiece: timepiece.clone(),
        },
    )
}

/// The dependencies of the tools.
fn tool_parts(
    planes: &Planes,
    url: &str,
    stop: &CancellationToken,
    timepiece: &Timepiece,
) -> workshop::ToolParts {
    let Planes { workshop, post, .. } = planes;
    let toolbox = workshop::Toolbox {
        data: workshop.data().clone(),
        workshop: workshop.clone(),
        post: post.clone(),
        runner: planes.runner.clone(),
    };
    workshop::ToolParts {
        callers: planes.post.callers().clone(),
        workshop: workshop.clone(),
        runner: Arc::new(toolbox),
        public_url: url.to_owned(),
        timepiece: timepiece.clone(),
        closing: stop.clone(),
        tasks: planes.tool_calls.clone(),
    }
}

/// The dependencies of the admin API and the console.
fn console_parts(
    config: &Config,
    planes: &Planes,
    ledger: &Ledger,
    admin: AdminApi,
    url: &str,
    timepiece: &Timepiece,
) -> console::Parts {
    let Planes { identity, relay, clock, post, workshop, edge, web, .. } = planes;
    let web_config = &config.platforms.web;
    console::Parts {
        identity: identity.clone(),
        relay: relay.clone(),
        inbox: ledger.inbox(),
        traces: ledger.traces(),
        edge: edge.clone(),
        clock: clock.clone(),
        post: post.clone(),
        workshop: workshop.clone(),
        runner: planes.runner.clone(),
        admin,
        audit: ledger.audit(),
        usage: ledger.usage(),
        uses: ledger.capability_uses(),
        public_url: url.to_owned(),
        built_in: if web_config.enabled { vec![web::NAME.into()] } else { Vec::new() },
        chat_page: web_config
            .serves_page()
            .then(|| console::ChatPageParts { web: Arc::clone(web), invitations: ledger.invitations() }),
        timepiece: timepiece.clone(),
        backup: backup(ledger),
    }
}

/// The dependencies of the chat page.
fn chat_page(planes: &Planes, ledger: &Ledger, url: &str, stop: &CancellationToken) -> web::ChatPage {
    let Planes { identity, relay, edge, web, .. } = planes;
    web::ChatPage {
        web: Arc::clone(web),
        intake: edge.intake().clone(),
        bots: edge.bots().clone(),
        relay: relay.clone(),
        identity: identity.clone(),
        enrol: Arc::new(WebEnrolment { accounts: identity.accounts.clone(), url: url.to_owned() }),
        audit: ledger.audit(),
        metrics: Arc::clone(edge.metrics()),
        public_url: url.into(),
        closing: stop.clone(),
    }
}

fn listener_settings(config: &Config, timepiece: &Timepiece) -> anyhow::Result<server::Settings> {
    Ok(server::Settings {
        max_connections: connections(config.server.max_connections),
        reserved_connections: config.server.reserved_connections,
        max_connections_per_address: config.server.max_connections_per_address,
        max_connections_per_principal: config.server.max_connections_per_principal,
        header_timeout: config.server.header_timeout.0,
        write_timeout: config.server.write_timeout.0,
        timepiece: timepiece.clone(),
        trusted_proxies: config.server.trusted_proxies.clone(),
        tls: config.server.tls.as_ref().map(|tls| server::tls(&tls.cert, &tls.key)).transpose()?,
    })
}

/// Maximum number of connections under the limit of open files.
fn connections(wanted: usize) -> usize {
    let open_files = server::raise_limit();
    let connections = server::connections_within(open_files, wanted);
    let limit = open_files.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
    if connections < wanted {
        tracing::warn!(
            open_files = limit,
            connections,
            wanted,
            "the limit of open files allows fewer connections than server.max_connections: raise it (ulimit -n)"
        );
    } else {
        tracing::info!(open_files = limit, connections, "limits of open files and connections");
    }
    connections
}

/// Binds the listener. The error says what to do if another program uses the address.
async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => anyhow!(
            "cannot listen on {address}: address already in use; stop the program that listens there, or choose \
             another address with --listen"
        ),
        _ => anyhow!("cannot listen on {address}: {error}"),
    })
}

/// Backup function for the admin API.
fn backup(ledger: &Ledger) -> console::Backup {
    let facts = ledger.facts();
    Arc::new(move |to| {
        let facts = Arc::clone(&facts);
        Box::pin(async move { facts.backup(&to).await.map_err(|fault| fault.to_string()) })
    })
}

async fn prune(ledger: Ledger, timepiece: Timepiece, stop: CancellationToken) -> Result<(), String> {
    let facts = ledger.facts();
    loop {
        while facts.prune().await.map_err(|fault| fault.to_string())? {}
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = timepiece.after(PRUNE_EVERY) => {}
        }
    }
}

/// Writes the URL for commands on this machine. It is rewritten at every start, so it is not synced.
fn write_url(path: &Path, url: &str) -> anyhow::Result<()> {
    let write = || {
        let mut file = OpenOptions::new().write(true).mode(0o600).create(true).truncate(true).open(path)?;
        file.write_all(format!("{url}\n").as_bytes())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// SIGINT or SIGTERM.
pub async fn termination() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
    }
    Ok(())
}
