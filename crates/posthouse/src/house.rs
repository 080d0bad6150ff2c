//! The wiring: constructs, in order, and hands each plane only what it may hold.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use bus::Bus;
use clock::Clock;
use console::AdminToken;
use edge::Edge;
use edge::platform::Platform;
use edge::telegram::Telegram;
use edge::web::{self, Web};
use errand::Errand;
use ledger::{Ledger, Place};
use parking_lot::Mutex;
use post::Post;
use posthouse_time::Timepiece;
use posthouse_wire::Secret;
use prometheus_client::registry::Registry;
use relay::Relay;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use vault::{Keys, Vault};

use crate::config::Config;
use crate::newcomers::Newcomers;
use crate::ways_out::WaysOut;
use crate::{doors, server};

/// What else a caller wants of a house.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Print one line with the address when ready.
    pub announce: bool,
}

/// The name of the fact that holds the admin token's hash.
const ADMIN: &str = "admin.token";
/// Everything is said and done within this, or left undone.
const CLOSE_WITHIN: Duration = Duration::from_secs(9);
/// Between two rounds of forgetting what is past its keeping.
const PRUNE_EVERY: Duration = Duration::from_secs(30);

/// A house that is open.
pub struct House {
    pub relay: Relay,
    pub edge: Edge,
    clock: Clock,
    post: Post,
    pub url: String,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
    ledger: Ledger,
    url_file: PathBuf,
}

/// Serves until a signal says to stop.
pub async fn serve(config: Config, options: Options) -> anyhow::Result<()> {
    let house = House::open(config).await?;
    if options.announce {
        println!("posthouse is ready at {}", house.url);
    }
    termination().await?;
    house.close().await;
    Ok(())
}

impl House {
    pub async fn open(config: Config) -> anyhow::Result<Self> {
        let timepiece = Timepiece::wall();
        let folder = config.storage_dir().to_owned();
        if !folder.exists() {
            bail!("{} does not exist: make a house with `posthouse init DIR`", folder.display());
        }
        let ledger = Ledger::open(Place::Folder(folder.clone()), timepiece.clone()).await?;
        let keys = Keys::read(&config.vault_key()?)?;
        let vault =
            Vault::unlock(keys, ledger.vault(), ledger.tokens(), &*ledger.house(), timepiece.clone()).await?;
        let admin = match ledger.house().fact(ADMIN).await? {
            Some(hash) => AdminToken::from_hash(hash),
            None => bail!("{} has no admin token: it was not made by `posthouse init`", folder.display()),
        };

        let listener = TcpListener::bind(config.server.listen)
            .await
            .with_context(|| format!("cannot listen on {}", config.server.listen))?;
        let address = listener.local_addr()?;
        let url = config.public_url(address);

        let bus = Bus::local();
        let errand = Errand::new(config.errand());
        let relay = Relay::new(relay::Parts {
            config: config.relay.clone(),
            inbox: ledger.inbox(),
            outbox: ledger.outbox(),
            roster: ledger.roster(),
            traces: ledger.traces(),
            keyring: vault.keyring(),
            bus,
            errand: errand.clone(),
            timepiece: timepiece.clone(),
        });
        let signer = vault.signer(config.clock.signing).await?;
        let clock = Clock::new(clock::Parts {
            config: config.clock.clone(),
            arms: ledger.arms(),
            signer: signer.clone(),
            relay: relay.clone(),
            errand: errand.clone(),
            issuer: url.clone(),
            timepiece: timepiece.clone(),
        })?;
        let post = Post::new(post::Parts {
            config: config.post.clone(),
            receipts: ledger.receipts(),
            exchanges: ledger.exchanges(),
            connectors: ledger.connectors(),
            relay: relay.clone(),
            clock: clock.clone(),
            stamps: vault.stamps(&signer),
            errand: errand.clone(),
            public_url: url.clone(),
            timepiece: timepiece.clone(),
        });
        post.take_over().await?;
        let web = Arc::new(Web::new(ledger.rooms(), timepiece.clone()));
        let edge = Edge::new(edge::Parts {
            roster: ledger.roster(),
            vault,
            relay: relay.clone(),
            timepiece: timepiece.clone(),
            platforms: platforms(&config, &web, &timepiece),
            public_url: url.clone(),
        });

        let stop = CancellationToken::new();
        let health = Health::new(&ledger);
        let mut metrics = Registry::default();
        relay.metrics().register(&mut metrics);
        edge.metrics().register(&mut metrics);
        clock.metrics().register(&mut metrics);
        post.metrics().register(&mut metrics);
        let mut planes = vec![
            relay::routes(&relay, Arc::new(WaysOut { edge: edge.clone(), post: post.clone() })),
            edge::routes(&edge),
            clock::routes(&clock),
            post::routes(&post),
            console::routes(console::Parts {
                relay: relay.clone(),
                edge: edge.clone(),
                clock: clock.clone(),
                post: post.clone(),
                admin: admin.clone(),
                audit: ledger.audit(),
                public_url: url.clone(),
                built_in: if config.platforms.web.enabled { vec![web::NAME.into()] } else { Vec::new() },
                guests: config
                    .platforms
                    .web
                    .enabled
                    .then(|| console::Guests { web: Arc::clone(&web), rooms: ledger.rooms() }),
                timepiece: timepiece.clone(),
                wake_url: Arc::new(move |url| {
                    errand.check(url).map(drop).map_err(|refusal| refusal.to_string())
                }),
                backup: backup(&ledger),
            }),
        ];
        if config.platforms.web.enabled {
            planes.push(web::routes(web::Chat {
                web,
                intake: edge.intake().clone(),
                bots: edge.bots().clone(),
                relay: relay.clone(),
                enrol: Arc::new(Newcomers { relay: relay.clone(), url: url.clone() }),
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
            config.server.body_timeout.0,
        );
        let settings = server::Settings {
            max_connections: config.server.max_connections,
            header_timeout: config.server.header_timeout.0,
            trusted_proxies: config.server.trusted_proxies.clone(),
            tls: config.server.tls.as_ref().map(|tls| server::tls(&tls.cert, &tls.key)).transpose()?,
        };
        let serving = tokio::spawn(server::serve(listener, doors, settings, stop.clone()));

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
        write_private(&url_file, &format!("{}\n", config.local_url(address)), true)?;
        tracing::info!(listen = %address, dir = %folder.display(), "the house is open at {url}");
        Ok(Self { relay, edge, clock, post, url, stop, serving, ledger, url_file })
    }

    /// Stops accepting, drains, acknowledgements first, closes every socket with 1012.
    pub async fn close(self) {
        tracing::info!("the house is closing");
        let closing = async {
            // First, so that no loop that ends now is taken for a fallen one.
            self.stop.cancel();
            self.edge.close();
            self.post.close().await;
            self.clock.close().await;
            self.relay.close().await;
            let _ = self.serving.await;
        };
        if tokio::time::timeout(CLOSE_WITHIN, closing).await.is_err() {
            tracing::warn!("something was still under way when the house closed");
        }
        let _ = fs::remove_file(&self.url_file);
        // The last handle: what was accepted is committed before this returns.
        drop(self.ledger);
    }
}

fn platforms(config: &Config, web: &Arc<Web>, timepiece: &Timepiece) -> Vec<Arc<dyn Platform>> {
    let mut platforms: Vec<Arc<dyn Platform>> =
        vec![Arc::new(Telegram::new(&config.platforms.telegram.api_base_url, timepiece.clone()))];
    if config.platforms.web.enabled {
        platforms.push(Arc::clone(web) as Arc<dyn Platform>);
    }
    platforms
}

/// A copy of the ledger, for whoever may ask for one.
fn backup(ledger: &Ledger) -> console::Backup {
    let house = ledger.house();
    Arc::new(move |to| {
        let house = Arc::clone(&house);
        Box::pin(async move { house.backup(&to).await.map_err(|fault| fault.to_string()) })
    })
}

async fn prune(ledger: Ledger, timepiece: Timepiece, stop: CancellationToken) -> Result<(), String> {
    let house = ledger.house();
    loop {
        while house.prune().await.map_err(|fault| fault.to_string())? {}
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = timepiece.after(PRUNE_EVERY) => {}
        }
    }
}

/// Whether the house can do its work, in words when it cannot.
#[derive(Clone)]
pub struct Health {
    ledger: Arc<dyn ledger::House>,
    fallen: Arc<Mutex<Vec<(&'static str, String)>>>,
}

impl Health {
    fn new(ledger: &Ledger) -> Self {
        Self { ledger: ledger.house(), fallen: Arc::default() }
    }

    pub async fn check(&self) -> Result<(), String> {
        if let Some((name, why)) = self.fallen.lock().first() {
            return Err(format!("the {name} loop has fallen: {why}"));
        }
        self.ledger.fact(ADMIN).await.map(drop).map_err(|fault| fault.to_string())
    }

    /// Runs a loop until the house closes; a fallen one shows in health and is started again.
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
                    Ok(Ok(())) => "it ended by itself".to_owned(),
                    Ok(Err(why)) => why,
                    Err(_) => "it panicked".to_owned(),
                };
                tracing::error!(name, why, "a loop has fallen and is started again");
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

/// Makes a house: its folder, its configuration, its vault key and its admin token.
pub async fn init(dir: &Path) -> anyhow::Result<()> {
    if dir.join("posthouse.toml").exists() {
        bail!("{} already holds a house", dir.display());
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let token = Secret::new(format!("pha_{}", vault::random_hex(32)?.expose()));
    write_private(&dir.join("vault.key"), Keys::generate()?.expose(), false)?;
    write_private(&dir.join("admin.token"), &format!("{}\n", token.expose()), false)?;
    let ledger = Ledger::open(Place::Folder(dir.to_owned()), Timepiece::wall()).await?;
    ledger.house().set_fact(ADMIN, &AdminToken::hash(&token)).await?;
    drop(ledger);
    // Last, so that a folder that holds it is whole.
    write_private(&dir.join("posthouse.toml"), crate::config::FRESH, false)
}

/// A file that only its owner can read.
fn write_private(path: &Path, text: &str, replace: bool) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    if replace {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    let mut file = options.open(path).with_context(|| format!("cannot write {}", path.display()))?;
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
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
