//! Acknowledgements of delivered entries: from the agent's frame to the commit.

use std::sync::Arc;
use std::time::Duration;

use ledger::Acknowledgement;
use posthouse_wire::EntryId;

use super::lease::Lease;
use super::{Delivery, Outstanding};
use crate::socket::Socket;

/// Maximum number of acknowledgements waiting for the ledger. Entries of further ones are delivered again.
const MOST_UNCOMMITTED: usize = 4096;
/// Time for which a closing socket waits until its acknowledgements are stored.
const KEPT_WITHIN: Duration = Duration::from_secs(3);

impl Socket {
    /// Handles an acknowledgement of the agent.
    pub(in crate::socket) fn acknowledged(&mut self, entry: EntryId) {
        let now = self.now();
        let Some(seated) = &mut self.seated else { return };
        let delivery = &mut seated.delivery;
        if delivery.uncommitted.len() >= MOST_UNCOMMITTED || entry.bytes().is_none() {
            return;
        }
        delivery.suspect.take_if(|(suspect, _)| *suspect == entry);
        let at = delivery.outstanding.iter().position(|outstanding| outstanding.id == entry);
        let outstanding = match at {
            Some(at) => delivery.outstanding.remove(at),
            // The socket was superseded meanwhile. The acknowledgement is valid all the same, for all parts of an album.
            None => {
                let mut albums = std::mem::take(&mut delivery.superseded_albums).into_vec();
                let album = albums.iter().position(|album| album.id == entry);
                let album = album.map(|album| albums.swap_remove(album));
                delivery.superseded_albums = albums.into();
                album
            }
        };
        let (handed, place, parts) = match outstanding {
            Some(Outstanding { handed, place, parts, .. }) => (handed, Some(place), parts),
            None => (self.components.timepiece.now(), None, Vec::new()),
        };
        if at.is_none() {
            // The live socket may hold these entries already, while it waits for their attachments.
            let mut state = self.connections.state.lock();
            state.needs_no_delivery(&entry);
            parts.iter().for_each(|(part, _)| state.needs_no_delivery(part));
        }
        if at == Some(0) {
            delivery.lease = Lease::starting(now);
        }
        delivery.uncommitted.push(Acknowledgement { entry, handed, place });
        let parts = parts.into_iter();
        delivery.uncommitted.extend(parts.map(|(entry, place)| Acknowledgement {
            entry,
            handed,
            place: Some(place),
        }));
    }

    /// Starts a commit of acknowledgements, if there are any and none is running.
    pub(in crate::socket) fn start_committing(&mut self) {
        let Some(seated) = &mut self.seated else { return };
        let delivery = &mut seated.delivery;
        if delivery.committing.is_none() && !delivery.uncommitted.is_empty() {
            let uncommitted = std::mem::take(&mut delivery.uncommitted);
            let acknowledgements = Arc::clone(&self.components.acknowledgements);
            let instance = self.holder.instance.clone();
            delivery.committing = Some(Box::pin(acknowledgements.store(instance, uncommitted)));
        }
    }

    pub(in crate::socket) async fn finish_acknowledging(&mut self, mut delivery: Delivery) {
        let uncommitted = std::mem::take(&mut delivery.uncommitted);
        let keeping = async {
            if let Some(committing) = delivery.committing.take() {
                committing.await;
            }
            if !uncommitted.is_empty() {
                let acknowledgements = Arc::clone(&self.components.acknowledgements);
                acknowledgements.store(self.holder.instance.clone(), uncommitted).await;
            }
        };
        // A failing ledger must block neither the seat nor the shutdown.
        if self.components.timepiece.within(KEPT_WITHIN, keeping).await.is_err() {
            tracing::error!(instance.id = %self.holder.instance, "acknowledgements could not be stored: entries will be delivered again");
        }
    }
}
