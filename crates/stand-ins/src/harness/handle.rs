//! Handle of a running stand-in.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use serde_json::Value;
use tokio::net::TcpListener;

use super::{
    faults::{CallFault, CallFaultState},
    platform::StandInPlatform,
    server,
    state::{Harness, HarnessSettings},
    transcript::{PlatformRow, RowFilter},
    webhooks::DeliveryAttempt,
};

/// A running stand-in. Dropping it stops it; [`StandIn::stop`] also waits until everything has ended.
pub struct StandIn<P: StandInPlatform> {
    pub(crate) platform: Arc<P>,
}

impl<P: StandInPlatform> StandIn<P> {
    /// Binds the address and starts to answer. `build` makes the platform.
    pub(crate) async fn run(
        settings: HarnessSettings,
        build: impl FnOnce(Arc<Harness>) -> P,
    ) -> io::Result<StandIn<P>> {
        if !settings.listen.ip().is_loopback() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a stand-in listens on loopback only"));
        }
        let listener = TcpListener::bind(settings.listen).await?;
        let harness = Arc::new(Harness::new(settings, listener.local_addr()?)?);
        let platform = Arc::new(build(harness.clone()));
        harness.tasks.spawn(server::accept(listener, platform.clone()));
        Ok(StandIn { platform })
    }

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.platform.harness().address
    }

    /// `http://127.0.0.1:<port>`, without a trailing slash.
    #[must_use]
    pub fn base_url(&self) -> String {
        self.platform.harness().base_url()
    }

    /// Makes a person do something, and returns the ids of the messages and events that this creates.
    ///
    /// # Errors
    /// The reason why it is impossible.
    pub fn inject(&self, injection: P::Injection) -> Result<Value, String> {
        self.platform.inject(injection)
    }

    /// What took effect, oldest first.
    #[must_use]
    pub fn transcript(&self, filter: &RowFilter) -> Vec<PlatformRow> {
        self.platform.harness().transcript(filter)
    }

    /// Calls that were refused, oldest first.
    #[must_use]
    pub fn refusals(&self, filter: &RowFilter) -> Vec<PlatformRow> {
        self.platform.harness().refusals(filter)
    }

    /// Every attempt to deliver an event to a webhook, in the order in which they ended.
    #[must_use]
    pub fn deliveries(&self) -> Vec<DeliveryAttempt> {
        self.platform.harness().attempts.lock().clone()
    }

    /// Adds a fault and returns its id.
    pub fn fault(&self, fault: CallFault) -> u64 {
        self.platform.harness().add_fault(fault)
    }

    /// All faults since they were last cleared, and how often each was applied.
    #[must_use]
    pub fn faults(&self) -> Vec<CallFaultState> {
        self.platform.harness().faults()
    }

    /// Number of times this fault was applied.
    #[must_use]
    pub fn struck(&self, fault: u64) -> u64 {
        self.faults().iter().find(|state| state.id == fault).map_or(0, |state| state.struck)
    }

    /// Removes all faults. Hanging calls continue, held deliveries are sent.
    pub fn clear_faults(&self) {
        self.platform.harness().clear_faults();
    }

    /// Lets hanging calls continue.
    pub fn release(&self) {
        self.platform.harness().release();
    }

    /// Number of hanging calls.
    #[must_use]
    pub fn hanging(&self) -> usize {
        self.platform.harness().hanging()
    }

    /// Moves the platform's clock forward: tokens expire, rate limits pass.
    pub fn advance(&self, by: Duration) {
        self.platform.harness().advance(by);
    }

    /// Deletes messages, events and records. Accounts and their settings stay.
    pub fn reset(&self) {
        self.platform.reset();
        self.platform.harness().reset();
    }

    /// Waits until `count` rows match.
    ///
    /// # Errors
    /// The rows found so far, when the time is up.
    pub async fn wait(
        &self,
        filter: &RowFilter,
        count: usize,
        within: Duration,
    ) -> Result<Vec<PlatformRow>, Vec<PlatformRow>> {
        self.platform.harness().wait(filter, count, within).await
    }

    /// Waits until `check` holds, and checks again after every change. False when the time is up.
    pub async fn until(&self, within: Duration, check: impl Fn(&StandIn<P>) -> bool) -> bool {
        let mut end = std::pin::pin!(tokio::time::sleep(within));
        loop {
            let mut news = std::pin::pin!(self.platform.harness().changed.notified());
            news.as_mut().enable();
            if check(self) {
                return true;
            }
            tokio::select! {
                () = &mut news => {}
                () = &mut end => return check(self),
            }
        }
    }

    /// Ends every connection and waits until all tasks have ended. The address is free afterwards.
    pub async fn stop(self) {
        let harness = self.platform.harness();
        harness.stop.cancel();
        harness.tasks.close();
        harness.tasks.wait().await;
    }
}

impl<P: StandInPlatform> Drop for StandIn<P> {
    fn drop(&mut self) {
        self.platform.harness().stop.cancel();
    }
}
