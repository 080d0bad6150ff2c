//! Waiting for a condition on the transcript.

use std::time::Duration;

use super::{
    Shared,
    transcript::{Filter, TranscriptRow},
};

/// Condition to wait for. All fields that are set must hold.
#[derive(Clone, Debug, Default)]
pub struct WaitCondition {
    /// Rows that count.
    pub filter: Filter,
    /// Minimum number of such rows. Default 1, or 0 if only confirmations are waited for.
    pub count: Option<u64>,
    /// Minimum number of confirmed updates, over all bots, since the start or the last reset.
    pub confirmed: Option<u64>,
}

impl WaitCondition {
    /// Waits for `count` rows that match the filter.
    #[must_use]
    pub fn rows(filter: Filter, count: u64) -> WaitCondition {
        WaitCondition { filter, count: Some(count), confirmed: None }
    }
}

impl Shared {
    /// The matching rows, or after `patience` those found so far.
    pub async fn wait(
        &self,
        wait: &WaitCondition,
        patience: Duration,
    ) -> Result<Vec<TranscriptRow>, Vec<TranscriptRow>> {
        let count = wait.count.unwrap_or(u64::from(wait.confirmed.is_none()));
        let mut found: Vec<TranscriptRow> = Vec::new();
        let mut seen = 0;
        let mut end = std::pin::pin!(tokio::time::sleep(patience));
        loop {
            let mut news = std::pin::pin!(self.changed.notified());
            news.as_mut().enable();
            let confirmed = {
                let world = self.world.lock();
                // From the newest back to the last row of the previous check, so that a long wait stays
                // cheap.
                let fresh = world.transcript.iter().rev().take_while(|row| row.seq > seen);
                let mut fresh: Vec<TranscriptRow> =
                    fresh.filter(|row| wait.filter.wants(row)).cloned().collect();
                seen = world.transcript.iter().next_back().map_or(seen, |row| row.seq);
                fresh.reverse();
                found.append(&mut fresh);
                world.confirmed_ever()
            };
            if found.len() as u64 >= count && wait.confirmed.is_none_or(|wanted| confirmed >= wanted) {
                return Ok(found);
            }
            tokio::select! {
                () = &mut news => {}
                () = &mut end => return Err(found),
                () = self.stop.cancelled() => return Err(found),
            }
        }
    }
}
