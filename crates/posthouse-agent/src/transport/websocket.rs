//! WebSocket transport: the relay transport over a real connection.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::{Mutex, RwLock};
use posthouse_time::Timepiece;
use posthouse_wire::frame::Outbound;
use posthouse_wire::{Action, ChatId, ChatInfo, Descriptor, FromGateway, Outcome, Platform, SessionKey};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::connection::{PendingFrames, RelayConnection};
use super::connection_loop::keep_connected;
use super::delivery_queue::DeliveryQueue;
use super::dial::ServerAddress;
use super::requests::Requests;
use super::{ConnectionState, Descriptors, Fault, InboundHandler, RelayTransport, Tag};
use crate::Settings;

/// Time limits of the contract's client (section 20).
const HANDSHAKE: Duration = Duration::from_secs(30);
const ANSWER: Duration = Duration::from_secs(30);
const IDLE: Duration = Duration::from_secs(10);

/// Keeps one WebSocket connection to a server. It connects with a fresh token each time, reconnects with
/// back-off, repeats unanswered requests under their own ids, and acknowledges what the handler accepted.
/// Clones share the connection; it closes when the last one is dropped.
#[derive(Clone)]
pub struct WebSocketTransport(Arc<Handle>);

struct Handle {
    connection: Arc<RelayConnection>,
    address: Arc<ServerAddress>,
    connection_task: Mutex<Option<ConnectionTask>>,
}

struct ConnectionTask {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl WebSocketTransport {
    /// Checks the address; does not connect yet.
    pub fn new(settings: Settings) -> Result<Self, Fault> {
        Self::with_timepiece(settings, Timepiece::wall())
    }

    /// Like [`new`](Self::new), with a clock other than the wall clock.
    pub fn with_timepiece(settings: Settings, timepiece: Timepiece) -> Result<Self, Fault> {
        let address = Arc::new(ServerAddress::of(&settings)?);
        let frames = Arc::new(PendingFrames::default());
        let connection = RelayConnection {
            requests: Requests::new(timepiece.now().millis()),
            settings,
            timepiece,
            state: watch::Sender::new(ConnectionState::Closed),
            last_fault: Mutex::new(Fault::Closed),
            descriptors: RwLock::default(),
            deliveries: DeliveryQueue::new(frames.clone()),
            frames,
            hurry: Notify::new(),
            idle_confirmed: watch::Sender::new(false),
        };
        Ok(Self(Arc::new(Handle {
            connection: Arc::new(connection),
            address,
            connection_task: Mutex::new(None),
        })))
    }

    pub fn state(&self) -> ConnectionState {
        self.0.connection.state()
    }

    /// Returns when the state satisfies `wanted`.
    pub async fn until(&self, wanted: impl Fn(ConnectionState) -> bool) -> ConnectionState {
        let mut state = self.0.connection.state.subscribe();
        let seen = state.wait_for(|state| wanted(*state)).await;
        *seen.expect("this handle holds the sender")
    }

    /// Goes idle: asks the server to keep new messages, waits up to 10 s for its confirmation, and closes
    /// the connection. It stays closed until [`wake`](Self::wake) or [`connect`](RelayTransport::connect).
    pub async fn go_idle(&self) {
        self.pause().await;
        self.close(ConnectionState::Dormant).await;
    }

    /// Connects again after [`go_idle`](Self::go_idle).
    pub async fn wake(&self) -> Result<(), Fault> {
        self.connect().await
    }

    async fn close(&self, state: ConnectionState) {
        let connection_task = self.0.connection_task.lock().take();
        if let Some(ConnectionTask { stop, task }) = connection_task {
            stop.cancel();
            // The task ends by itself. A panic in it has already been reported.
            let _ = task.await;
        }
        self.0.connection.state.send_replace(state);
    }

    async fn ask(&self, action: Action, tag: &Tag) -> Outcome {
        let connection = &self.0.connection;
        match connection.state() {
            ConnectionState::Closed | ConnectionState::Revoked => {
                return Outcome::failed("network: the connection is closed");
            }
            ConnectionState::Dormant => {
                return Outcome::failed("network: the agent is idle and not connected");
            }
            ConnectionState::Dialing | ConnectionState::Live | ConnectionState::Waiting => {}
        }
        let platform = tag.platform.clone();
        // The bot is named even if it is the only one, as the contract's client does (section 22, item 12).
        let fronted = || platform.as_ref().and_then(|platform| self.fronted(platform.as_str()).bot_id);
        let bot_id = tag.bot_id.clone().or_else(fronted);
        let outbound =
            |request_id| FromGateway::Outbound(Outbound { request_id, action, platform, bot_id }).line();
        connection.requests.ask(&connection.frames.ready, connection.timepiece.after(ANSWER), outbound).await
    }

    /// The agent's identity on `platform`, if it has one, with its bot if there is only one.
    fn fronted(&self, platform: &str) -> Tag {
        let identities = self.0.connection.settings.identities.iter();
        let mut fronted = identities.filter(|identity| identity.platform == *platform);
        match (fronted.next(), fronted.next()) {
            (Some(identity), another) => Tag {
                platform: Some(identity.platform.clone()),
                bot_id: Some(identity.bot_id.clone()).filter(|bot| another.is_none() && !bot.is_empty()),
            },
            (None, _) => {
                let platform = Platform::new(platform);
                let described = self.descriptors().of(&platform).is_some();
                Tag { platform: described.then_some(platform), bot_id: None }
            }
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(connection_task) = self.connection_task.lock().take() {
            connection_task.stop.cancel();
        }
    }
}

#[async_trait]
impl RelayTransport for WebSocketTransport {
    async fn connect(&self) -> Result<(), Fault> {
        let connection = &self.0.connection;
        let mut state = connection.state.subscribe();
        {
            let mut connection_task = self.0.connection_task.lock();
            if connection_task.as_ref().is_none_or(|connection_task| connection_task.task.is_finished()) {
                connection.deliveries.open();
                connection.state.send_replace(ConnectionState::Dialing);
                let stop = CancellationToken::new();
                let task =
                    tokio::spawn(keep_connected(connection.clone(), self.0.address.clone(), stop.clone()));
                *connection_task = Some(ConnectionTask { stop, task });
            } else if connection.state.send_if_modified(|state| {
                let waiting = *state == ConnectionState::Waiting;
                if waiting {
                    *state = ConnectionState::Dialing;
                }
                waiting
            }) {
                connection.hurry.notify_one();
            }
        }
        let decided = state.wait_for(|state| *state != ConnectionState::Dialing).await;
        match decided.map(|state| *state) {
            Ok(ConnectionState::Live) => Ok(()),
            _ => Err(connection.last_fault.lock().clone()),
        }
    }

    async fn disconnect(&self) {
        self.close(ConnectionState::Closed).await;
        self.0.connection.requests.give_up();
    }

    async fn handshake(&self) -> Result<Descriptor, Fault> {
        let connection = &self.0.connection;
        let live =
            connection.timepiece.within(HANDSHAKE, self.until(|state| state == ConnectionState::Live)).await;
        let first = connection.descriptors.read().first().cloned();
        match (live, first) {
            (Ok(_), Some(descriptor)) => Ok(Descriptor::clone(&descriptor)),
            _ => Err(Fault::NoIdentity),
        }
    }

    fn set_inbound_handler(&self, handler: Arc<dyn InboundHandler>) {
        self.0.connection.deliveries.serve(handler);
    }

    async fn send_outbound(&self, action: Action, tag: &Tag) -> Outcome {
        self.ask(action, tag).await
    }

    async fn get_chat_info(&self, chat_id: &ChatId, tag: &Tag) -> Result<ChatInfo, Fault> {
        let outcome = self.ask(Action::GetChatInfo { chat_id: chat_id.clone() }, tag).await;
        match outcome {
            Outcome { chat_info: Some(info), success: true, .. } => Ok(info),
            // The contract's client reads a success without chat information as a direct message.
            Outcome { success: true, .. } => {
                Ok(ChatInfo { name: chat_id.as_str().to_owned(), kind: "dm".to_owned() })
            }
            Outcome { error, .. } => Err(Fault::Untold(error.unwrap_or_default())),
        }
    }

    async fn send_interrupt(&self, session_key: &SessionKey, reason: Option<&str>) -> bool {
        let live = self.state() == ConnectionState::Live;
        if live {
            let (session_key, reason) = (session_key.clone(), reason.map(str::to_owned));
            self.0.connection.frames.aside(&FromGateway::Interrupt { session_key, reason });
        }
        live
    }

    async fn send_follow_up(&self, action: Action) -> Outcome {
        let Action::FollowUp { kind, .. } = &action else {
            return Outcome::failed("the action is not a follow-up");
        };
        // Kinds begin with their platform. One of a platform that is not the agent's is sent without a tag.
        let tag = self.fronted(kind.as_str().split('.').next().unwrap_or_default());
        self.ask(action, &tag).await
    }

    fn descriptors(&self) -> Arc<Descriptors> {
        self.0.connection.descriptors.read().clone()
    }

    async fn pause(&self) {
        let connection = &self.0.connection;
        if connection.state() != ConnectionState::Live {
            return;
        }
        connection.idle_confirmed.send_replace(false);
        let mut confirmed = connection.idle_confirmed.subscribe();
        connection.frames.going_idle();
        let settled = connection.timepiece.within(IDLE, async {
            let kept = async { confirmed.wait_for(|confirmed| *confirmed).await.is_ok() };
            let fallen = async {
                self.until(|state| state != ConnectionState::Live).await;
                false
            };
            let kept = tokio::select! { kept = kept => kept, kept = fallen => kept };
            if kept {
                // Entries that arrived before the confirmation belong to the agent: acknowledge them while
                // connected.
                connection.deliveries.empty().await;
            }
        });
        if settled.await.is_err() {
            tracing::warn!(
                "the server did not confirm in time that it keeps new messages; it keeps them anyway"
            );
        }
    }

    async fn ended(&self) -> Fault {
        match self.until(|state| matches!(state, ConnectionState::Closed | ConnectionState::Revoked)).await {
            ConnectionState::Revoked => Fault::Revoked,
            _ => Fault::Closed,
        }
    }
}
