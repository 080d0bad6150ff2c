//! The database of the server, and the only code with SQL.
//!
//! Storage offers verbs with one transaction each, and every verb documents what repeating it does. A write
//! resolves only after its commit survives a power loss; many callers share one commit. Reads see every write
//! that has resolved. Nothing is process-wide: several ledgers can be open in one process.

mod access;
mod arms;
mod audit;
mod bindings;
mod claims;
mod connectors;
mod data;
mod data_database;
mod dead_bots;
mod enroll_tokens;
mod entry_turn;
mod event_feeds;
mod exchanges;
mod fault;
mod file_threads;
mod full_text;
mod gateway_settings;
mod inbox;
mod interactions;
mod invitations;
mod media;
mod outbox;
mod person_chats;
mod principals;
mod prompts;
mod provisioning;
mod receipts;
mod relevance;
mod rooms;
mod roster;
mod server_facts;
mod shared_bots;
mod skill_approval;
mod skill_database;
mod skill_runs;
mod skill_triggers;
mod skills;
mod sleep;
mod sqlite;
mod staleness;
mod tenant_limits;
mod threads;
mod tokens;
mod trace;
mod usage;
mod vault;

pub use access::{
    Access, AccessRule, Decision, Pairing, PairingLimits, PairingResult, PrincipalPolicy, SenderRecords,
    Subject,
};
pub use arms::{
    Arm, ArmFate, ArmFilter, ArmKey, ArmResult, ArmState, Armed, Arms, Due, FireAttempt, FireLine, NewAlarm,
    NewArm, Successor,
};
pub use audit::{Audit, AuditEntry};
pub use bindings::{
    AGENTS_OF_AN_AUTHOR, AUTHORS_OF_AN_AGENT, AuthorSighting, Binding, BindingPosition, Bindings, BoundAgent,
    ChangedPlace, Deprovisioned, LINK_CODES_OF_AN_AGENT, LinkingAuthor,
};
pub use claims::{CLAIMS_OF_AN_AGENT, ClaimFilter, ClaimPosition, ReplacedClaims, ScopeClaim, ScopeClaims};
pub use connectors::{Alias, ConnectorRecord, Connectors};
pub use data::{
    DATA_BYTES, DataEntries, DataFound, DataRecord, DataSearch, DataSeq, DataWritten, FOUND_BYTES, FoundData,
    summary_of,
};
pub use data_database::{DataDatabase, DataDatabaseFound, DataDatabaseRow, OpenedDataDatabase};
pub use dead_bots::{DeadBot, DeadBots};
pub use enroll_tokens::{
    CredentialToEnroll, EnrollResult, EnrollSetup, EnrollToken, EnrollTokens, Redeemable, Redeemer,
};
pub use entry_turn::{EntryTurn, session_of};
pub use event_feeds::{AgentManifest, EventFeeds};
pub use exchanges::{Answered, AskResult, Exchange, ExchangeState, Exchanges, NewExchange};
pub use fault::Fault;
pub use file_threads::{
    FILE_THREADS, FileThreadSlot, FileThreads, NoFileResult, TenantFileThreads, WAITING_FILE_WORK,
};
pub use full_text::{TextQuery, WORDS_OF_A_SEARCH};
pub use gateway_settings::{BOTS_OF_A_GATEWAY, GatewaySettings, GatewaySetup};
pub use inbox::{
    Acknowledgement, Append, Appended, DeadLetter, DeadLetterFilter, DeadLetterPosition, Entry,
    FailedDelivery, Inbox, InboxLimits, LimitReached, Sender, Seq, Sighting, Unread,
};
pub use interactions::{InteractionMode, Interactions, MANIFESTS_OF_AN_AGENT};
pub use invitations::{ExpiringHash, Invitation, Invitations};
pub use media::{KEYS_OF_A_FILE, MediaKey, MediaRecord, MediaRecords};
pub use outbox::{BeginOutcome, Outbox, Request};
pub use person_chats::{KnownPerson, PersonChats, PersonIds};
pub use principals::{AgentPrincipals, AuthorPolicy, Principals};
pub use prompts::{PROMPTS_OF_AN_AGENT, Prompts, ShownPrompt};
pub use provisioning::{
    AGENTS_BY_PROVISIONING, DraftedSecret, GATEWAYS_BY_PROVISIONING, ProvisionDraft, ProvisionPlan,
    ProvisionRequest, ProvisionResult, Provisioning, WantedAgent, WantedBot,
};
pub use receipts::{
    AttemptOutcome, Digest, DispatchVerb, NewReceipt, NewReply, Opened, Opening, Outgoing, REPLIES,
    REPLY_BYTES, Receipt, ReceiptFilter, ReceiptKey, ReceiptState, Receipts, ReplyKind, StoredReply,
};
pub use relevance::{PLATFORMS_OF_AN_AGENT, RelevancePolicies, RelevancePolicy};
pub use rooms::{ROOM_BYTES, ROOM_REACTIONS, Room, RoomFile, RoomMarks, RoomMessage, Rooms, UNSENT_FILES};
pub use roster::{
    AgentCreated, AgentToCreate, Bot, BotRef, Created, Discriminator, Generation, HoldBack, HttpCredentials,
    Instance, PlaceOwner, Removed, Roster, Route, RouteOrigin, RouteTo, Tenant,
};
pub use server_facts::ServerFacts;
pub use shared_bots::{AdmittedTenant, SharedBots, UseBotResult};
pub use skill_approval::{
    APPROVAL_KEYS, AddedApprovalKey, ApprovalKeyRecord, SKILL_AUDIT_ROWS, SkillApproval, SkillAuditEvent,
    SkillAuditRow, SkillSettings, SkillSettingsChange, StoreKind,
};
pub use skill_database::{
    OpenedSkillDatabase, SkillDatabase, SkillDatabaseRow, SkillFingerprint, SkillVersionRow,
};
pub use skill_runs::{
    BusyRuns, EndedRun, NewRun, QUEUED_RUNS, RUN_ATTEMPTS, RUNS_OF_A_TENANT, RunFilter, RunState, SkillRuns,
    StoredRun,
};
pub use skill_triggers::{NewTrigger, SkillTriggers, TRIGGERS_OF_A_TENANT, TriggerRecord};
pub use skills::{
    DeletedSkill, ReplacedSkill, RestoredSkill, SKILLS_OF_A_TENANT, SkillBody, SkillHistoryLine, SkillRecord,
    SkillReplacement, SkillRevision, SkillSeq, SkillText, SkillWithBody, Skills, StoredSkill, is_full_page,
};
pub use sleep::{SLEEP_TOKENS, SleepAsker, SleepRecords};
pub use sqlite::{Ledger, Location};
pub use staleness::{
    EntryStaleness, ExpiredEntry, LONGEST_STALE_AFTER, StaleAction, StaleEntries, StalePolicy, Staleness,
};
pub use tenant_limits::{LimitName, OwnLimits, TenantLimits};
pub use threads::{MadeThread, THREADS_OF_AN_AGENT, Threads};
pub use tokens::{
    AccessRecord, ClientRecord, EndedCredentials, LoginRecord, Owner, REFRESH_LINES, RefreshRequest, Renewal,
    RenewedCredentials, TokenHash, TokenPair, Tokens, WhichCredentials, operator_client,
};
pub use trace::{MessageTimeline, TenantDispatch, TraceStep, Traces};
pub use usage::{MEDIA_BYTES, TENANT_BYTES, TenantStorage, Usage};
pub use vault::{
    CapabilityRecord, CapabilityUses, CredentialUse, GatewayRecord, RedeemedCapability, SECRETS_OF_A_TENANT,
    Sealed, SealedSecret, SecretStored, ServerKey, ServerKeyKind, ServerKeys, TenantSecrets, Uses,
    VaultRecords,
};
