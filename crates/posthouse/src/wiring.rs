//! Wiring of the server: builds all planes in order and gives each only what it may hold; `init`, start and
//! shutdown.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use bus::Bus;
use clock::Clock;
use console::AdminDoor;
use edge::Edge;
use edge::platform::Platform;
use edge::telegram::Telegram;
use edge::web::{self, Web};
use errand::Errand;
use identity::{AdminToken, Identity};
use ledger::{Ledger, Location};
use parking_lot::Mutex;
use post::Post;
use posthouse_time::Timepiece;
use posthouse_wire::Secret;
use prometheus_client::registry::Registry;
use relay::Relay;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use vault::{MasterKeys, Vault};

use crate::config::Config;
use crate::egress_router::EgressRouter;
use crate::key_files::{self, Disk, SystemDisk};
use crate::web_enrolment::WebEnrolment;
use crate::{doors, server};

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
    pub identity: Identity,
    relay: Relay,
    pub edge: Edge,
    pub web: Arc<Web>,
    clock: Clock,
    post: Post,
    pub url: String,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
    ledger: Ledger,
    url_file: PathBuf,
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
        if !folder.exists() {
            bail!("{} does not exist: create it with `posthouse init DIR`", folder.display());
        }
        let ledger = Ledger::open(Location::Folder(folder.clone()), timepiece.clone()).await?;
        ledger.set_default_tenant_limit(config.storage.tenant_bytes);
        let (key, warning) = config.vault_key()?;
        if let Some(warning) = warning {
            tracing::warn!("{warning}");
        }
        let keys = MasterKeys::read(&key)?;
        let vault =
            Vault::unlock(keys, ledger.vault(), ledger.tokens(), &*ledger.facts(), timepiece.clone()).await?;
        let admin = match ledger.facts().fact(ADMIN).await? {
            Some(hash) => AdminToken::from_hash(hash),
            None => bail!("{} has no admin token: create the folder with `posthouse init`", folder.display()),
        };

        let listener = listen(config.server.listen).await?;
        let address = listener.local_addr()?;
        let url = config.public_url(address);

        let bus = Bus::local();
        let errand = Errand::new(config.errand());
        let identity = Identity::new(identity::Parts {
            admin,
            access_token: config.relay.access_token.0,
            token_leeway: config.relay.token_leeway.0,
            ..identity::Parts::over(&ledger, vault.keyring(), bus.clone(), errand.clone(), timepiece.clone())
        });
        let relay = Relay::new(relay::Parts {
            config: config.relay.clone(),
            inbox: ledger.inbox(),
            outbox: ledger.outbox(),
            identity: identity.clone(),
            bus,
            errand: errand.clone(),
            timepiece: timepiece.clone(),
        });
        let admin = AdminDoor::new(identity.authenticator.clone());
        let signer = vault.signer(config.clock.signing).await?;
        let clock = Clock::new(clock::Parts {
            config: config.clock.clone(),
            arms: ledger.arms(),
            signer: signer.clone(),
            relay: relay.clone(),
            identity: identity.clone(),
            errand: errand.clone(),
            issuer: url.clone(),
            timepiece: timepiece.clone(),
        })?;
        let post = Post::new(post::Parts {
            config: config.post.clone(),
            receipts: ledger.receipts(),
            exchanges: ledger.exchanges(),
            connectors: ledger.connectors(),
            usage: ledger.usage(),
            relay: relay.clone(),
            identity: identity.clone(),
            clock: clock.clone(),
            webhook_signer: vault.webhook_signer(&signer),
            errand: errand.clone(),
            public_url: url.clone(),
            timepiece: timepiece.clone(),
        });
        post.take_over().await?;
        let web = Arc::new(Web::new(ledger.rooms(), ledger.invitations(), timepiece.clone()));
        let edge = Edge::new(edge::Parts {
            identity: identity.clone(),
            vault,
            relay: relay.clone(),
            timepiece: timepiece.clone(),
            platforms: platforms(&config, &web, &timepiece),
            public_url: url.clone(),
        });

        let stop = CancellationToken::new();
        let health = ServerHealth::new(&ledger);
        let mut metrics = Registry::default();
        identity.metrics().register(&mut metrics);
        relay.metrics().register(&mut metrics);
        edge.metrics().register(&mut metrics);
        clock.metrics().register(&mut metrics);
        post.metrics().register(&mut metrics);
        let mut planes = vec![
            identity.routes(),
            relay::routes(
                &relay,
                Arc::new(EgressRouter {
                    edge: edge.clone(),
                    post: Arc::clone(post.conversations()),
                    usage: ledger.usage(),
                }),
            ),
            edge::routes(&edge),
            clock::routes(&clock),
            post::routes(&post),
            console::routes(console::Parts {
                identity: identity.clone(),
                relay: relay.clone(),
                inbox: ledger.inbox(),
                traces: ledger.traces(),
                edge: edge.clone(),
                clock: clock.clone(),
                post: post.clone(),
                admin: admin.clone(),
                audit: ledger.audit(),
                usage: ledger.usage(),
                public_url: url.clone(),
                built_in: if config.platforms.web.enabled { vec![web::NAME.into()] } else { Vec::new() },
                guests: config
                    .platforms
                    .web
                    .serves_page()
                    .then(|| console::Guests { web: Arc::clone(&web), invitations: ledger.invitations() }),
                timepiece: timepiece.clone(),
                backup: backup(&ledger),
            }),
        ];
        if config.platforms.web.serves_page() {
            planes.push(web::routes(web::ChatPage {
                web: Arc::clone(&web),
                intake: edge.intake().clone(),
                bots: edge.bots().clone(),
                relay: relay.clone(),
                identity: identity.clone(),
                enrol: Arc::new(WebEnrolment { accounts: identity.accounts.clone(), url: url.clone() }),
                audit: ledger.audit(),
                metrics: Arc::clone(edge.metrics()),
                public_url: url.as_str().into(),
                closing: stop.clone(),
            }));
        }
        let doors = doors::open(
            &config.prefix(),
            planes,
            doors::Porter {
                health: health.clone(),
                metrics: Arc::new(metrics),
                metrics_open: config.metrics.open,
                admin,
            },
            config.platforms.web.serves_page(),
            doors::BodyLimits {
                within: config.server.body_timeout.0,
                unfinished: doors::ByteBudget::new(config.server.unfinished_body_bytes),
                timepiece: timepiece.clone(),
            },
        );
        let max_connections = connections(config.server.max_connections);
        let settings = server::Settings {
            max_connections,
            reserved_connections: config.server.reserved_connections,
            max_connections_per_address: config.server.max_connections_per_address,
            max_connections_per_principal: config.server.max_connections_per_principal,
            header_timeout: config.server.header_timeout.0,
            write_timeout: config.server.write_timeout.0,
            timepiece: timepiece.clone(),
            trusted_proxies: config.server.trusted_proxies.clone(),
            tls: config.server.tls.as_ref().map(|tls| server::tls(&tls.cert, &tls.key)).transpose()?,
        };
        let serving = tokio::spawn(server::serve(listener, doors, settings, stop.clone()));

        health.keep_up("identity", &stop, {
            let identity = identity.clone();
            move || {
                let identity = identity.clone();
                async move { identity.run().await.map_err(|fault| fault.to_string()) }
            }
        });
        health.keep_up("relay", &stop, {
            let relay = relay.clone();
            move || {
                let relay = relay.clone();
                async move { relay.run().await.map_err(|fault| fault.to_string()) }
            }
        });
        health.keep_up("edge", &stop, {
            let edge = edge.clone();
            move || {
                let edge = edge.clone();
                async move { edge.run().await.map_err(|fault| fault.to_string()) }
            }
        });
        health.keep_up("clock", &stop, {
            let clock = clock.clone();
            move || {
                let clock = clock.clone();
                async move { clock.run().await.map_err(|fault| fault.to_string()) }
            }
        });
        health.keep_up("post", &stop, {
            let post = post.clone();
            move || {
                let post = post.clone();
                async move { post.run().await.map_err(|fault| fault.to_string()) }
            }
        });
        health.keep_up("prune", &stop, {
            let (ledger, timepiece, stop) = (ledger.clone(), timepiece.clone(), stop.clone());
            move || prune(ledger.clone(), timepiece.clone(), stop.clone())
        });

        let url_file = folder.join("house.url");
        write_url(&url_file, &config.local_url(address))?;
        tracing::info!(listen = %address, dir = %folder.display(), "the server is ready at {url}");
        Ok(Self { identity, relay, edge, web, clock, post, url, stop, serving, ledger, url_file })
    }

    /// Stops accepting, drains (acknowledgements first), and closes every socket with 1012.
    pub async fn close(self) {
        tracing::info!("the server is shutting down");
        let closing = async {
            // First, so that a loop that ends now does not count as failed.
            self.stop.cancel();
            self.edge.close();
            self.post.close().await;
            self.clock.close().await;
            self.relay.close().await;
            self.identity.close();
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

fn platforms(config: &Config, web: &Arc<Web>, timepiece: &Timepiece) -> Vec<Arc<dyn Platform>> {
    let mut platforms: Vec<Arc<dyn Platform>> =
        vec![Arc::new(Telegram::new(&config.platforms.telegram.api_base_url, timepiece.clone()))];
    if config.platforms.web.enabled {
        platforms.push(Arc::clone(web) as Arc<dyn Platform>);
    }
    platforms
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

/// Health of the server, with the reason if it is not ready.
#[derive(Clone)]
pub struct ServerHealth {
    ledger: Arc<dyn ledger::ServerFacts>,
    fallen: Arc<Mutex<Vec<(&'static str, String)>>>,
}

impl ServerHealth {
    fn new(ledger: &Ledger) -> Self {
        Self { ledger: ledger.facts(), fallen: Arc::default() }
    }

    pub async fn check(&self) -> Result<(), String> {
        if let Some((name, why)) = self.fallen.lock().first() {
            return Err(format!("the {name} loop has failed: {why}"));
        }
        if let Some(fault) = self.ledger.refusal() {
            return Err(format!("the disk refuses writes: {fault}"));
        }
        self.ledger.fact(ADMIN).await.map(drop).map_err(|fault| fault.to_string())
    }

    /// Runs a loop until shutdown. A failed loop shows in the health and is restarted.
    fn keep_up<F>(&self, name: &'static str, stop: &CancellationToken, start: impl Fn() -> F + Send + 'static)
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let (fallen, stop) = (Arc::clone(&self.fallen), stop.clone());
        tokio::spawn(async move {
            let mut pause = Duration::from_millis(250);
            loop {
                let ended = tokio::spawn(start()).await;
                if stop.is_cancelled() {
                    return;
                }
                let why = match ended {
                    Ok(Ok(())) => "it ended unexpectedly".to_owned(),
                    Ok(Err(why)) => why,
                    Err(_) => "it panicked".to_owned(),
                };
                tracing::error!(name, why, "a loop has failed and is restarted");
                fallen.lock().push((name, why));
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
                pause = (pause * 2).min(Duration::from_secs(30));
                fallen.lock().retain(|(of, _)| *of != name);
            }
        });
    }
}

/// Creates a server folder: configuration, vault key and admin token. They survive power loss once this
/// returns. If it fails, it leaves nothing behind.
pub async fn init(dir: &Path) -> anyhow::Result<CreatedFiles> {
    init_on(dir, &SystemDisk).await
}

async fn init_on(dir: &Path, disk: &(dyn Disk + Sync)) -> anyhow::Result<CreatedFiles> {
    if dir.join("posthouse.toml").exists() {
        bail!("{} is already a server folder", dir.display());
    }
    let mut made = CreatedFiles::default();
    match fill(dir, disk, &mut made).await {
        Ok(()) => Ok(made),
        Err(error) => {
            made.remove();
            Err(error)
        }
    }
}

/// The files that [`init`] itself created. Another process may be running `init` in the same folder.
#[derive(Default)]
pub struct CreatedFiles {
    files: Vec<PathBuf>,
    folder: Option<PathBuf>,
}

impl CreatedFiles {
    /// Removes the files, and the folder if it is empty then.
    pub fn remove(self) {
        for file in self.files {
            let _ = fs::remove_file(file);
        }
        if let Some(folder) = self.folder {
            let _ = fs::remove_dir(folder);
        }
    }

    fn write(&mut self, path: PathBuf, text: &str, disk: &dyn Disk) -> anyhow::Result<()> {
        key_files::write_durably(&path, text, disk)?;
        self.files.push(path);
        Ok(())
    }
}

/// Files that a running server creates besides those of `init`.
const OPENED: [&str; 5] = ["ledger.db", "ledger.db-wal", "ledger.db-shm", "house.lock", "house.url"];

async fn fill(dir: &Path, disk: &(dyn Disk + Sync), made: &mut CreatedFiles) -> anyhow::Result<()> {
    if key_files::create_folder_durably(dir, disk)? {
        made.folder = Some(dir.to_owned());
    }
    let token = Secret::new(format!("pha_{}", vault::random_hex(32)?.expose()));
    // First, because only one process can create it: the second one fails here.
    made.write(dir.join("vault.key"), MasterKeys::generate()?.expose(), disk)?;
    made.write(dir.join("admin.token"), &format!("{}\n", token.expose()), disk)?;
    let opened =
        OPENED.map(|name| dir.join(name)).into_iter().filter(|path| !path.exists()).collect::<Vec<_>>();
    let ledger = Ledger::open(Location::Folder(dir.to_owned()), Timepiece::wall()).await?;
    made.files.extend(opened);
    ledger.facts().set_fact(ADMIN, &AdminToken::hash(&token)).await?;
    drop(ledger);
    // Last, so that a folder that contains it is complete.
    made.write(dir.join("posthouse.toml"), crate::config::FRESH, disk)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_files::tests::Recorder;

    /// Another process that ran `init` in the same folder a moment earlier.
    struct Rival(PathBuf);

    impl Disk for Rival {
        fn sync_file(&self, _path: &Path, _file: &fs::File) -> std::io::Result<()> {
            Ok(())
        }

        fn sync_folder(&self, _folder: &Path) -> std::io::Result<()> {
            ["vault.key", "admin.token", "ledger.db", "house.lock"]
                .iter()
                .try_for_each(|name| fs::write(self.0.join(name), "the rival's"))
        }
    }

    #[tokio::test]
    async fn two_processes_that_make_one_house_leave_the_first_s_keys_alone() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("new");
        assert!(init_on(&dir, &Rival(dir.clone())).await.is_err());
        for name in ["vault.key", "admin.token", "ledger.db", "house.lock"] {
            assert_eq!(fs::read_to_string(dir.join(name)).unwrap(), "the rival's", "{name}");
        }
    }

    #[tokio::test]
    async fn init_syncs_every_key_file_and_its_folder() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("house");
        let recorder = Recorder::default();
        init_on(&dir, &recorder).await.unwrap();
        let synced = recorder.0.lock().clone();
        for name in ["vault.key", "admin.token", "posthouse.toml"] {
            let length = fs::metadata(dir.join(name)).unwrap().len();
            let whole = synced.iter().position(|call| *call == format!("file {name} with {length} bytes"));
            let whole = whole.unwrap_or_else(|| panic!("{name} was not synced whole: {synced:?}"));
            let named = synced[whole..].iter().any(|call| call.starts_with("folder") && call.contains(name));
            assert!(named, "the folder was not synced after {name}: {synced:?}");
        }
        assert_eq!(synced[0], "folder with house", "the name of the new folder itself");
    }
}
