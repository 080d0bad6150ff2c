//! Load generators: closed loop (as fast as answers come) and open loop (at a fixed rate).

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::task::JoinSet;

use super::fixtures::ServerFixture;
use super::pacer::{self, PostSchedule};
use super::poster::Poster;
use super::server::ServerProcess;
use super::stopwatch::Stopwatch;
use super::tally::MessageTally;

/// Connections, each with the request that is posted on it.
pub struct Posters(Vec<Poster>);

impl Posters {
    pub fn of(posters: Vec<Poster>) -> Self {
        Self(posters)
    }

    pub async fn connect(
        server: &ServerProcess,
        fixture: &ServerFixture,
        count: u32,
    ) -> anyhow::Result<Self> {
        let mut posters = Vec::with_capacity(count as usize);
        for at in 0..count {
            posters.push(Poster::connect(server, fixture, at).await?);
        }
        Ok(Self(posters))
    }

    /// Replaces the connections of the posters.
    pub async fn redial(&mut self, server: &ServerProcess) -> anyhow::Result<()> {
        for poster in &mut self.0 {
            poster.redial(server.address()?).await?;
        }
        Ok(())
    }

    /// Every connection posts as soon as it has its answer, for `span` or until the tally is full. Returns
    /// the latency of each answer, in nanoseconds.
    pub async fn closed_loop(
        &mut self,
        span: Duration,
        tally: &Arc<MessageTally>,
    ) -> anyhow::Result<Vec<u64>> {
        let watch = Stopwatch::start();
        self.each(
            |mut poster, _, tally| async move {
                let mut took = Vec::new();
                while watch.elapsed() < span
                    && let Some(number) = tally.draw()
                {
                    let begun = watch.nanos();
                    post(&mut poster, number, &tally).await?;
                    took.push(watch.nanos() - begun);
                }
                Ok((poster, took))
            },
            tally,
        )
        .await
    }

    /// Posts at a fixed rate, whether answers come or not. If an answer delays the next message of its
    /// connection, the latency of that message still counts from its due time.
    pub async fn open_loop(
        &mut self,
        rate: u32,
        span: Duration,
        tally: &Arc<MessageTally>,
    ) -> anyhow::Result<Vec<u64>> {
        let (watch, count) = (Stopwatch::start(), self.0.len() as u32);
        let gap = Duration::from_secs(1) / rate;
        let releases = pacer::start(PostSchedule { watch, gap, span }, self.0.len())?;
        self.each(
            |mut poster, at, tally| {
                let releases = Arc::clone(&releases[at as usize]);
                async move {
                    let (mut took, mut due) = (Vec::new(), gap * at);
                    while due < span
                        && let Some(number) = tally.draw()
                    {
                        let is_late = watch.elapsed() > due;
                        releases.acquire().await?.forget();
                        let begun = match is_late {
                            true => u64::try_from(due.as_nanos()).unwrap_or(u64::MAX),
                            false => watch.nanos(),
                        };
                        tally.posted(number, watch.elapsed().saturating_sub(Duration::from_nanos(begun)));
                        post(&mut poster, number, &tally).await?;
                        took.push(watch.nanos().saturating_sub(begun));
                        due += gap * count;
                    }
                    Ok((poster, took))
                }
            },
            tally,
        )
        .await
    }

    async fn each<W, F>(&mut self, work: W, tally: &Arc<MessageTally>) -> anyhow::Result<Vec<u64>>
    where
        W: Fn(Poster, u32, Arc<MessageTally>) -> F,
        F: Future<Output = anyhow::Result<(Poster, Vec<u64>)>> + Send + 'static,
    {
        let mut working = JoinSet::new();
        for (at, poster) in (0..).zip(self.0.drain(..)) {
            working.spawn({
                let work = work(poster, at, Arc::clone(tally));
                async move { work.await.map(|done| (at, done)) }
            });
        }
        let (mut posters, mut took) = (Vec::new(), Vec::new());
        while let Some(done) = working.join_next().await {
            let (at, (poster, times)) = done??;
            posters.push((at, poster));
            took.extend(times);
        }
        // Sorted, so that each poster keeps its chat in the next load.
        posters.sort_by_key(|(at, _)| *at);
        self.0.extend(posters.into_iter().map(|(_, poster)| poster));
        Ok(took)
    }
}

async fn post(poster: &mut Poster, number: u64, tally: &MessageTally) -> anyhow::Result<()> {
    let status = poster.post(number).await.context("a post was cut off")?;
    ensure!(status == 200, "the server answered a valid message with {status}");
    tally.answered(number);
    Ok(())
}
