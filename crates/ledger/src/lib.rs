//! The house's durable memory: the only SQL.
//!
//! Verbs, one transaction each; every verb says what repeating it does. A write resolves only after
//! the commit that carries it survives power loss; many callers share one commit. Reads see every
//! write that has resolved. Nothing here is process-wide: two ledgers stand side by side in one test.

mod arms;
mod audit;
mod connectors;
mod exchanges;
mod fault;
mod house;
mod inbox;
mod outbox;
mod receipts;
mod rooms;
mod roster;
mod sqlite;
mod tokens;
mod trace;
mod vault;

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
    Acknowledgement, Append, Appended, DeadLetter, Entry, Inbox, Seq, Setback, Sighting, Unread,
};
pub use outbox::{Begun, Outbox, Request};
pub use receipts::{
    Attempted, Digest, NewReceipt, NewReply, Opened, Opening, Outgoing, REPLIES, REPLY_BYTES, Receipt,
    ReceiptFilter, ReceiptKey, ReceiptState, Receipts, Reply, ReplyKind, Verb,
};
pub use rooms::{Invite, Line, Room, Rooms};
pub use roster::{
    Bot, Created, Discriminator, Generation, Identity, Instance, Removed, Roster, Route, RouteTo, Tenant,
};
pub use sqlite::{Ledger, Place};
pub use tokens::{
    AccessRecord, ClientRecord, LoginRecord, Owner, Pair, Renewal, TokenHash, Tokens, operator_client,
};
pub use trace::{Step, Story, Traces};
pub use vault::{
    CapabilityRecord, GatewayRecord, HouseKey, HouseKeyKind, HouseKeys, Sealed, SealedSecret, Uses,
    VaultRecords,
};
