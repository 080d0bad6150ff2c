//! The contracts as data: messages between agents, the server and programs.
//!
//! No IO, no clock, no `async`. Reading is tolerant: unknown fields and types are ignored, and broken encodings
//! are repaired. Writing is strict: no value is ever written with a type that crashes a stock peer.

pub mod action;
pub mod address;
pub mod cron;
pub mod delivery;
pub mod descriptor;
pub mod enrolment;
pub mod event;
pub mod frame;
pub mod id;
pub mod jwt;
mod lenient;
pub mod passthrough;
pub mod prompt;
pub mod relevance;
pub mod secret;
pub mod session_key;
pub mod token;

pub use action::{Action, ChatInfo, Outcome};
pub use descriptor::Descriptor;
pub use event::{DeliverableEvent, Event, MessageType, Source};
pub use frame::{FromGateway, ToGateway};
pub use id::{
    ActionId, BotId, CapabilityKind, ChatId, ClientId, ConnectorId, CorrelationId, DataId, DedupKey,
    DispatchId, EnrollTokenId, EntryId, GatewayId, InstanceId, InvitationId, JobId, LoginId, MediaFile,
    MediaId, MessageId, Platform, PromptId, PromptOptionId, RequestId, RunId, ScheduleId, ScopeId,
    SessionKey, TenantId, ThreadId, UserId,
};
pub use prompt::{PromptResponse, PromptToken};
pub use secret::Secret;
