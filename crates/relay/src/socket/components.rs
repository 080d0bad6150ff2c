//! The components that the tasks of sockets use. A socket sees nothing else of the relay.

use std::sync::Arc;

use ledger::Inbox;
use posthouse_time::Timepiece;

use crate::acknowledgements::Acknowledgements;
use crate::actions::Actions;
use crate::background::RelayTasks;
use crate::expirations::Expirations;
use crate::fires::Fires;
use crate::gateway_records::GatewayRecords;
use crate::interrupt::Interrupts;
use crate::long_lines::LongLines;
use crate::socket_roles::SocketRoles;
use crate::{Config, MediaStore, Metrics};

/// What one socket needs, shared by all sockets.
pub(crate) struct SocketComponents {
    pub config: Config,
    pub seats: Arc<SocketRoles>,
    pub gateway_records: GatewayRecords,
    /// Reads entries, and records failed deliveries.
    pub inbox: Arc<dyn Inbox>,
    pub acknowledgements: Arc<Acknowledgements>,
    pub expirations: Arc<Expirations>,
    pub actions: Arc<Actions>,
    pub interrupts: Interrupts,
    pub fires: Arc<Fires>,
    pub media: MediaStore,
    pub long_lines: LongLines,
    pub metrics: Arc<Metrics>,
    pub background: RelayTasks,
    pub timepiece: Timepiece,
}
