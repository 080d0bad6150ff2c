//! State shared by all connections of one stand-in.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    inject::{Injected, Injection},
    settings::Settings,
    transcript::{Filter, TranscriptRow},
    world::World,
};

pub(super) struct Shared {
    pub settings: Settings,
    pub world: Mutex<World>,
    /// Notified after every change that a test may be waiting for.
    pub changed: Notify,
    pub stop: CancellationToken,
    pub tasks: TaskTracker,
    pub http: reqwest::Client,
    released: watch::Sender<u64>,
    hanging: Arc<AtomicUsize>,
    generations: AtomicU64,
}

/// Counts one hanging call while it exists, even if its caller leaves.
struct Hanging(Arc<AtomicUsize>);

impl Drop for Hanging {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    pub fn new(settings: Settings) -> io::Result<Shared> {
        Ok(Shared {
            world: Mutex::new(World::new(&settings)),
            http: client(&settings)?,
            settings,
            changed: Notify::new(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            released: watch::Sender::new(0),
            hanging: Arc::new(AtomicUsize::new(0)),
            generations: AtomicU64::new(0),
        })
    }

    pub fn inject(&self, injection: Injection) -> Result<Injected, String> {
        let injected = self.world.lock().inject(injection, self.settings.transcript_rows);
        self.changed.notify_waiters();
        injected
    }

    pub fn transcript(&self, filter: &Filter) -> Vec<TranscriptRow> {
        self.world.lock().transcript.iter().filter(|row| filter.wants(row)).cloned().collect()
    }

    pub fn refusals(&self, filter: &Filter) -> Vec<TranscriptRow> {
        self.world.lock().refusals.iter().filter(|row| filter.wants(row)).cloned().collect()
    }

    pub fn next_generation(&self) -> u64 {
        self.generations.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Ends with the next release after this call. The call counts, not the first poll.
    pub fn until_released(&self) -> impl Future<Output = ()> + use<> {
        let mut released = self.released.subscribe();
        self.hanging.fetch_add(1, Ordering::Relaxed);
        let hanging = Hanging(self.hanging.clone());
        self.changed.notify_waiters();
        async move {
            let _hanging = hanging;
            // An error means that the stand-in has ended, which is a release too.
            _ = released.changed().await;
        }
    }

    pub fn hanging(&self) -> usize {
        self.hanging.load(Ordering::Relaxed)
    }

    pub fn release(&self) {
        self.released.send_modify(|times| *times += 1);
    }

    pub fn clear_faults(&self) {
        let mut world = self.world.lock();
        world.faults.clear();
        for state in &mut world.bots {
            if let Some(webhook) = &mut state.webhook {
                webhook.release_held();
            }
        }
        drop(world);
        self.release();
    }

    pub fn reset(&self) {
        self.world.lock().reset();
        self.release();
        self.changed.notify_waiters();
    }
}

/// Webhooks are delivered to plain http on this machine. No certificate is trusted, so an https webhook
/// fails and getWebhookInfo reports it.
fn client(settings: &Settings) -> io::Result<reqwest::Client> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(settings.webhook_timeout)
        .build()
        .map_err(io::Error::other)
}
