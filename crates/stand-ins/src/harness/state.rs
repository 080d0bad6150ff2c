//! Shared state of a stand-in: transcript, faults, tasks, clock, connections to receivers.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    clock::PlatformClock,
    faults::{CallFault, CallFaultState, FaultList},
    transcript::{PlatformRow, RowFilter, Rows},
    webhooks::{DeliveryAttempt, HeldDeliveries},
};

/// Settings that every stand-in has.
#[derive(Clone, Debug)]
pub struct HarnessSettings {
    /// Default `127.0.0.1:0`: any free port.
    pub listen: SocketAddr,
    /// Number of stored rows of transcript, refusals and deliveries, each. Default 200,000.
    pub transcript_rows: usize,
    /// Time limit of one webhook delivery. Default 30 s.
    pub webhook_timeout: Duration,
    /// Pauses before a failed webhook delivery is tried again. Default 50 ms, 100 ms, 200 ms.
    pub retries: Vec<Duration>,
}

impl Default for HarnessSettings {
    fn default() -> HarnessSettings {
        HarnessSettings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            transcript_rows: 200_000,
            webhook_timeout: Duration::from_secs(30),
            retries: [50, 100, 200].map(Duration::from_millis).to_vec(),
        }
    }
}

/// State that every stand-in has.
pub struct Harness {
    pub(crate) settings: HarnessSettings,
    pub(crate) address: SocketAddr,
    clock: PlatformClock,
    transcript: Mutex<Rows>,
    refusals: Mutex<Rows>,
    pub(super) attempts: Mutex<Vec<DeliveryAttempt>>,
    pub(super) held: Mutex<HeldDeliveries>,
    pub(super) faults: Mutex<FaultList>,
    /// Notified after every change that a test may be waiting for.
    pub(crate) changed: Notify,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    pub(super) http: reqwest::Client,
    released: watch::Sender<u64>,
    hanging: Arc<AtomicUsize>,
    last_seq: AtomicU64,
    last_id: AtomicU64,
}

/// Counts one hanging call while it exists, even if its caller leaves.
struct HangingCall(Arc<AtomicUsize>);

impl Drop for HangingCall {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Harness {
    pub(super) fn new(settings: HarnessSettings, address: SocketAddr) -> io::Result<Harness> {
        Ok(Harness {
            address,
            clock: PlatformClock::default(),
            transcript: Mutex::new(Rows::new(settings.transcript_rows)),
            refusals: Mutex::new(Rows::new(settings.transcript_rows)),
            attempts: Mutex::default(),
            held: Mutex::default(),
            faults: Mutex::default(),
            changed: Notify::new(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            http: super::webhooks::client(settings.webhook_timeout)?,
            released: watch::Sender::new(0),
            hanging: Arc::default(),
            last_seq: AtomicU64::new(0),
            last_id: AtomicU64::new(0),
            settings,
        })
    }

    /// `http://127.0.0.1:<port>`, without a trailing slash.
    pub(crate) fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Milliseconds since 1970 by the clock of the platform.
    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.unix_ms()
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.changed.notify_waiters();
    }

    /// A number that grows with every call.
    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Adds a row to the transcript.
    pub(crate) fn record(&self, row: PlatformRow) {
        self.push(&self.transcript, row);
    }

    pub(super) fn record_refusal(&self, row: PlatformRow) {
        self.push(&self.refusals, row);
    }

    fn push(&self, rows: &Mutex<Rows>, row: PlatformRow) {
        let mut rows = rows.lock();
        let seq = self.last_seq.fetch_add(1, Ordering::Relaxed) + 1;
        rows.push(PlatformRow { seq, at_ms: self.now_ms(), ..row });
        drop(rows);
        self.changed.notify_waiters();
    }

    pub(crate) fn transcript(&self, filter: &RowFilter) -> Vec<PlatformRow> {
        self.transcript.lock().find(filter)
    }

    pub(crate) fn refusals(&self, filter: &RowFilter) -> Vec<PlatformRow> {
        self.refusals.lock().find(filter)
    }

    pub(crate) fn add_fault(&self, fault: CallFault) -> u64 {
        self.faults.lock().add(fault)
    }

    pub(crate) fn faults(&self) -> Vec<CallFaultState> {
        self.faults.lock().list()
    }

    /// A future that ends with the next release after this call, even if that is before the first poll.
    pub(super) fn until_released(&self) -> impl Future<Output = ()> + use<> {
        let mut released = self.released.subscribe();
        self.hanging.fetch_add(1, Ordering::Relaxed);
        let hanging = HangingCall(self.hanging.clone());
        self.changed.notify_waiters();
        async move {
            let _hanging = hanging;
            // An error means that the stand-in has ended, which is a release too.
            _ = released.changed().await;
        }
    }

    pub(super) fn hanging(&self) -> usize {
        self.hanging.load(Ordering::Relaxed)
    }

    pub(super) fn release(&self) {
        self.released.send_modify(|times| *times += 1);
    }

    /// Removes all faults. Hanging calls continue, held deliveries are sent.
    pub(super) fn clear_faults(&self) {
        self.faults.lock().clear();
        self.release_held();
        self.release();
    }

    pub(super) fn reset(&self) {
        self.faults.lock().clear();
        self.held.lock().forget();
        self.transcript.lock().clear();
        self.refusals.lock().clear();
        self.attempts.lock().clear();
        self.release();
        self.changed.notify_waiters();
    }

    /// The matching rows once there are `count` of them, or after `patience` those found so far.
    pub(super) async fn wait(
        &self,
        filter: &RowFilter,
        count: usize,
        patience: Duration,
    ) -> Result<Vec<PlatformRow>, Vec<PlatformRow>> {
        let mut end = std::pin::pin!(tokio::time::sleep(patience));
        loop {
            let mut news = std::pin::pin!(self.changed.notified());
            news.as_mut().enable();
            let found = self.transcript(filter);
            if found.len() >= count {
                return Ok(found);
            }
            tokio::select! {
                () = &mut news => {}
                () = &mut end => return Err(found),
                () = self.stop.cancelled() => return Err(found),
            }
        }
    }
}
