//! The database of the server, and the only code with SQL.
//!
//! Storage offers verbs with one transaction each, and every verb documents what repeating it does. A write
//! resolves only after its commit survives a power loss; many callers share one commit. Reads see every write
//! that has resolved. Nothing is process-wide: several ledgers can be open in one process.

mod access;
mod arms;
mod audit;
mod connectors;
mod enroll_tokens;
mod exchanges;
mod fault;
mod inbox;
mod invitations;
mod media;
mod outbox;
mod receipts;
mod relevance;
mod rooms;
mod roster;
mod server_facts;
mod sqlite;
mod tokens;
mod trace;
mod usage;
mod vault;

pub use access::{
    Access, AccessRule, Consulted, Decision, Paired, Pairing, PairingLimits, PrincipalPolicy, Subject,
};
pub use arms::{
    Arm, ArmFate, ArmFilter, ArmKey, ArmState, Armed, Arms, Due, FireAttempt, FireLine, NewAlarm, NewArm,
    Settled, Successor,
};
pub use audit::{Audit, Deed};
pub use connectors::{Alias, ConnectorRecord, Connectors};
pub use enroll_tokens::{CredentialToEnroll, EnrollResult, EnrollToken, EnrollTokens, Redeemable, Redeemer};
pub use exchanges::{Answered, AskResult, Exchange, ExchangeState, Exchanges, NewExchange};
pub use fault::Fault;
pub use inbox::{
    Acknowledgement, Append, Appended, DeadLetter, DeadLetterFilter, DeadLetterPosition, Entry, Inbox,
    InboxLimits, LimitReached, Sender, Seq, Setback, Sighting, Unread,
};
pub use invitations::{ExpiringHash, Invitation, Invitations};
pub use media::{KEYS_OF_A_FILE, MediaKey, MediaRecord, MediaRecords};
pub use outbox::{BeginOutcome, Outbox, Request};
pub use receipts::{
    Attempted, Digest, DispatchVerb, NewReceipt, NewReply, Opened, Opening, Outgoing, REPLIES, REPLY_BYTES,
    Receipt, ReceiptFilter, ReceiptKey, ReceiptState, Receipts, ReplyKind, StoredReply,
};
pub use relevance::{PLATFORMS_OF_AN_AGENT, RelevancePolicies, RelevancePolicy};
pub use rooms::{ROOM_BYTES, Room, RoomFile, RoomMessage, Rooms, UNSENT_FILES};
pub use roster::{
    AgentCreated, AgentToCreate, Bot, BotRef, Created, Discriminator, Generation, HoldBack, HttpCredentials,
    Instance, Removed, Roster, Route, RouteTo, Tenant,
};
pub use server_facts::ServerFacts;
pub use sqlite::{Ledger, Location};
pub use tokens::{
    AccessRecord, ClientRecord, EndedCredentials, LoginRecord, Owner, REFRESH_LINES, RefreshRequest, Renewal,
    RenewedCredentials, TokenHash, TokenPair, Tokens, WhichCredentials, operator_client,
};
pub use trace::{Story, TraceStep, Traces};
pub use usage::{MEDIA_BYTES, TENANT_BYTES, TenantStorage, Usage};
pub use vault::{
    CapabilityRecord, GatewayRecord, Sealed, SealedSecret, ServerKey, ServerKeyKind, ServerKeys, Uses,
    VaultRecords,
};
