//! Places for transfers of files: a limited number at a time, shared fairly between tenants.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use posthouse_time::Timepiece;
use posthouse_wire::TenantId;
use tokio::sync::oneshot;

use crate::fair_queue::FairQueue;

/// Maximum number of transfers of one tenant that wait for a place.
const WAITING: usize = 256;

/// The places for one kind of transfer. A tenant that holds its share, however slow its transfers are, waits for its own
/// places only.
#[derive(Clone)]
pub(super) struct TransferPlaces(Arc<Mutex<FairQueue<oneshot::Sender<TransferPlace>>>>, Timepiece);

/// A taken place. Dropping it gives it back.
pub(super) struct TransferPlace {
    places: TransferPlaces,
    tenant: TenantId,
}

impl TransferPlaces {
    pub fn new(places: usize, of_a_tenant: usize, timepiece: Timepiece) -> Self {
        Self(Arc::new(Mutex::new(FairQueue::new(places, of_a_tenant))), timepiece)
    }

    /// Waits for a place, at most for `within`.
    pub async fn take(&self, tenant: &TenantId, within: Duration) -> Option<TransferPlace> {
        let (sender, place) = oneshot::channel();
        {
            let mut queue = self.0.lock();
            if queue.waiting(tenant) >= WAITING {
                return None;
            }
            queue.push(tenant.clone(), sender);
        }
        self.hand_out();
        self.1.within(within, place).await.ok()?.ok()
    }

    /// Gives free places to those who wait. One that nobody takes any more comes back when it is dropped.
    fn hand_out(&self) {
        loop {
            let Some((tenant, waiting)) = self.0.lock().take() else { return };
            let place = TransferPlace { places: self.clone(), tenant };
            drop(waiting.send(place));
        }
    }
}

impl Drop for TransferPlace {
    fn drop(&mut self) {
        self.places.0.lock().done(&self.tenant);
        self.places.hand_out();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthouse_time::Moment;

    #[tokio::test]
    async fn slow_transfers_of_one_tenant_leave_places_for_another() {
        let places = TransferPlaces::new(4, 3, Timepiece::wound(Moment::from_seconds(1)));
        let (loud, quiet) = (TenantId::new("ten_loud"), TenantId::new("ten_quiet"));
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(places.take(&loud, Duration::from_secs(1)).await.unwrap());
        }
        let waiting = tokio::spawn({
            let (places, loud) = (places.clone(), loud.clone());
            async move { places.take(&loud, Duration::from_secs(1)).await.is_some() }
        });
        assert!(places.take(&quiet, Duration::from_secs(1)).await.is_some());
        held.pop();
        assert!(waiting.await.unwrap(), "its own place became free");
    }
}
