//! The database of the server, and the only code with SQL.
//!
//! Storage offers verbs with one transaction each, and every verb documents what repeating it does. A write
//! resolves only after its commit survives a power loss; many callers share one commit. Reads see every write
//! that has resolved. Nothing is process-wide: several ledgers can be open in one process.

mod access;
mod arms;
mod audit;
mod connectors;
mod exchanges;
mod fault;
mod house;
mod inbox;
mod invitations;
mod outbox;
mod receipts;
mod rooms;
mod roster;
mod sqlite;
mod tokens;
mod trace;
mod usage;
mod vault;

pub use access::{
    Access, AccessRule, Consulted, Decision, Paired, Pairing, PairingLimits, PrincipalPolicy, Subject,
};
pub use arms::{
    Arm, ArmFilter, ArmKey, ArmState, Armed, Arms, Attempt, Due, Fate, FireLine, NewAlarm, NewArm, Settled,
    Successor,
};
pub use audit::{Audit, Deed};
pub use connectors::{Alias, ConnectorRecord, Connectors};
pub use exchanges::{Answered, Asked, Exchange, ExchangeState, Exchanges, NewExchange};
pub use fault::Fault;
pub use house::House;
pub use inbox::{
    Acknowledgement, Append, Appended, DeadLetter, Entry, Full, Inbox, InboxLimits, Sender, Seq, Setback,
    Sighting, Unread,
};
pub use invitations::{ExpiringHash, Invitation, Invitations};
pub use outbox::{Begun, Outbox, Request};
pub use receipts::{
    Attempted, Digest, NewReceipt, NewReply, Opened, Opening, Outgoing, REPLIES, REPLY_BYTES, Receipt,
    ReceiptFilter, ReceiptKey, ReceiptState, Receipts, Reply, ReplyKind, Verb,
};
pub use rooms::{Line, ROOM_BYTES, Room, Rooms};
pub use roster::{
    AgentCreated, Bot, BotRef, Created, Discriminator, Generation, HoldBack, HttpCredentials, Instance,
    NewAgent, Removed, Roster, Route, RouteTo, Tenant,
};
pub use sqlite::{Ledger, Location};
pub use tokens::{
    AccessRecord, ClientRecord, EndedCredentials, LoginRecord, Owner, Pair, REFRESH_LINES, RefreshRequest,
    Renewal, RenewedCredentials, TokenHash, Tokens, WhichCredentials, operator_client,
};
pub use trace::{Step, Story, Traces};
pub use usage::{TENANT_BYTES, TenantStorage, Usage};
pub use vault::{
    CapabilityRecord, GatewayRecord, HouseKey, HouseKeyKind, HouseKeys, Sealed, SealedSecret, Uses,
    VaultRecords,
};
