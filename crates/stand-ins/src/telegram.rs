//! Stand-in for the Telegram Bot API.
//!
//! [`TelegramStandIn::start`] runs it in the process; [`serve`] runs it for a command line. [`TelegramStandIn::inject`]
//! scripts what people do, [`TelegramStandIn::fault`] scripts misbehaviour, and [`TelegramStandIn::transcript`] shows
//! what bots did. The same controls are available over HTTP under `/_stand-in/`.

mod answer;
mod control;
mod entities;
mod faults;
mod files;
mod inject;
mod limits;
mod markdown;
mod methods;
mod moment;
mod params;
mod server;
mod settings;
mod shared;
mod transcript;
mod wait;
mod webhook;
mod world;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::net::TcpListener;

pub use self::{
    faults::{Fault, FaultKind, FaultState},
    inject::{BotName, Injected, Injection, Person},
    settings::{Settings, StandInBot, TelegramLimits},
    transcript::{Confirmed, Deliveries, Filter, RowKind, TranscriptRow, WebhookAttempt},
    wait::WaitCondition,
};
use shared::Shared;

/// A running stand-in. Dropping it stops it; [`TelegramStandIn::stop`] also waits until everything has ended.
pub struct TelegramStandIn {
    shared: Arc<Shared>,
    address: SocketAddr,
}

/// Starts on this address, for a command line that prints [`TelegramStandIn::base_url`] and waits.
///
/// # Errors
/// When the address cannot be bound.
pub async fn serve(listen: SocketAddr, settings: Settings) -> io::Result<TelegramStandIn> {
    TelegramStandIn::start(Settings { listen, ..settings }).await
}

impl TelegramStandIn {
    /// Binds `settings.listen` and starts to answer.
    ///
    /// # Errors
    /// When the address cannot be bound, or is not on loopback.
    pub async fn start(settings: Settings) -> io::Result<TelegramStandIn> {
        if !settings.listen.ip().is_loopback() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a stand-in listens on loopback only"));
        }
        let listener = TcpListener::bind(settings.listen).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(settings)?);
        shared.tasks.spawn(server::accept(listener, shared.clone()));
        Ok(TelegramStandIn { shared, address })
    }

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:<port>`, without a trailing slash: the API base URL for the server under test.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The secret that the webhook of a bot was registered with, which every delivery carries.
    #[must_use]
    pub fn webhook_secret(&self, bot: i64) -> Option<String> {
        let world = self.shared.world.lock();
        let state = world.bots.iter().find(|state| state.bot.id == bot)?;
        state.webhook.as_ref()?.secret.clone()
    }

    /// Makes a person do something. See [`Injection`].
    ///
    /// # Errors
    /// The reason why it is impossible: unknown bot, unknown message, or no content.
    pub fn inject(&self, injection: Injection) -> Result<Injected, String> {
        self.shared.inject(injection)
    }

    /// What took effect, oldest first.
    #[must_use]
    pub fn transcript(&self, filter: &Filter) -> Vec<TranscriptRow> {
        self.shared.transcript(filter)
    }

    /// Calls that were refused, by checks, limits or faults, oldest first.
    #[must_use]
    pub fn refusals(&self, filter: &Filter) -> Vec<TranscriptRow> {
        self.shared.refusals(filter)
    }

    /// Adds a fault and returns its id.
    pub fn fault(&self, fault: Fault) -> u64 {
        self.shared.world.lock().faults.add(fault)
    }

    /// All faults since they were last cleared, and how often each was applied.
    #[must_use]
    pub fn faults(&self) -> Vec<FaultState> {
        self.shared.world.lock().faults.list()
    }

    /// Number of times this fault was applied.
    #[must_use]
    pub fn struck(&self, fault: u64) -> u64 {
        self.shared.world.lock().faults.struck(fault)
    }

    /// Removes all faults. Hanging calls continue, held deliveries are sent.
    pub fn clear_faults(&self) {
        self.shared.clear_faults();
    }

    /// Lets hanging calls continue.
    pub fn release(&self) {
        self.shared.release();
    }

    /// Number of hanging calls.
    #[must_use]
    pub fn hanging(&self) -> usize {
        self.shared.hanging()
    }

    /// State of the updates of one bot or of all.
    #[must_use]
    pub fn deliveries(&self, bot: Option<i64>) -> Deliveries {
        self.shared.world.lock().deliveries(bot)
    }

    /// Stores a file for `getFile` and returns its id, for use in a raw update.
    pub fn add_file(&self, name: &str, content: impl Into<Bytes>) -> String {
        self.shared.world.lock().files.add(name, content.into())
    }

    /// Deletes chats, messages, rows, faults and pending updates. Bots, webhooks and the update counter
    /// stay.
    pub fn reset(&self) {
        self.shared.reset();
    }

    /// Waits for rows. See [`WaitCondition`].
    ///
    /// # Errors
    /// The rows found so far, when the time is up.
    pub async fn wait(
        &self,
        wait: &WaitCondition,
        within: Duration,
    ) -> Result<Vec<TranscriptRow>, Vec<TranscriptRow>> {
        self.shared.wait(wait, within).await
    }

    /// Waits until `check` holds, and checks again after every change. False when the time is up.
    pub async fn until(&self, within: Duration, check: impl Fn(&TelegramStandIn) -> bool) -> bool {
        let mut end = std::pin::pin!(tokio::time::sleep(within));
        loop {
            let mut news = std::pin::pin!(self.shared.changed.notified());
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
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

impl Drop for TelegramStandIn {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}
