//! Collection of answers: polls connectors whose answers do not come by themselves, such as files.

use std::sync::Arc;
use std::time::Duration;

use ledger::{Exchange, Exchanges};
use parking_lot::Mutex;
use posthouse_time::{Instant, Moment};
use tokio::sync::Notify;

use crate::Fault;
use crate::answers::Answers;
use crate::background::{Background, LONGEST_PAUSE};
use crate::directory::Directory;
use crate::tenant_rounds::TenantRounds;

/// Interval of polling for answers.
const INTERVAL: Duration = Duration::from_millis(250);
/// Page size when questions are read to poll for their answers.
const PAGE: u32 = 1000;
/// Time after the deadline during which answers are still polled for, less often, to be stored as late replies.
const LATE: Duration = Duration::from_secs(24 * 3600);
/// Concurrent polls of one tenant, and the time limit of one poll.
const CONCURRENT: usize = 4;
const POLLED_WITHIN: Duration = Duration::from_secs(5);

/// Polls for answers. After a restart the open questions are read from the ledger.
pub struct AnswerCollector {
    exchanges: Arc<dyn Exchanges>,
    directory: Arc<Directory>,
    answers: Arc<Answers>,
    background: Background,
    /// Polling rounds for answers to open questions, and to questions past their deadline.
    rounds: TenantRounds,
    late_rounds: TenantRounds,
    /// When late answers are polled for again.
    next_late: Mutex<Instant>,
    /// Wakes the loop: a new question may need its answer collected.
    opened: Notify,
}

impl AnswerCollector {
    pub(crate) fn new(
        exchanges: Arc<dyn Exchanges>,
        directory: Arc<Directory>,
        answers: Arc<Answers>,
        background: Background,
    ) -> Arc<Self> {
        let next_late = Mutex::new(background.timepiece.instant());
        let (rounds, late_rounds) = (TenantRounds::default(), TenantRounds::default());
        let opened = Notify::new();
        Arc::new(Self { exchanges, directory, answers, background, rounds, late_rounds, next_late, opened })
    }

    /// A new question needs its answer collected.
    pub(crate) fn question_opened(&self) {
        self.opened.notify_one();
    }

    /// Polls for answers until shutdown.
    pub(crate) async fn run(self: &Arc<Self>) {
        self.background.repeat("could not look for answers", &self.opened, || self.poll()).await;
    }

    /// Starts polling for all answers that are due, and returns the time until the next round.
    async fn poll(self: &Arc<Self>) -> Result<Option<Duration>, Fault> {
        let late = if self.is_late_round() { self.poll_late().await } else { Ok(()) };
        let open = self.poll_open().await?;
        late?;
        Ok((open > 0).then_some(INTERVAL))
    }

    fn is_late_round(&self) -> bool {
        let (now, mut next) = (self.background.timepiece.instant(), self.next_late.lock());
        let due = now >= *next;
        if due {
            *next = now + LONGEST_PAUSE;
        }
        due
    }

    /// Polls for answers to open questions, and returns their number.
    async fn poll_open(self: &Arc<Self>) -> Result<usize, Fault> {
        let (mut after, mut open) = (None, Vec::new());
        // All pages, so that many questions of one tenant do not hide those of another.
        while !self.background.is_closing() {
            let page = self.exchanges.uncollected(after, PAGE).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            open.extend(page.into_iter().map(|(_, exchange)| exchange));
        }
        let count = open.len();
        self.start(&self.rounds, open);
        Ok(count)
    }

    /// Polls for late answers, which are stored with the receipt.
    async fn poll_late(self: &Arc<Self>) -> Result<(), Fault> {
        let since: Moment = self.background.timepiece.now() - LATE;
        let (mut after, mut late) = (None, Vec::new());
        while !self.background.is_closing() {
            let page = self.exchanges.overdue(since, after, PAGE).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            late.extend(page.into_iter().map(|(_, exchange)| exchange));
        }
        self.start(&self.late_rounds, late);
        Ok(())
    }

    /// Starts one polling round per tenant. The rounds run concurrently, so slow folders delay only their own tenant.
    fn start(self: &Arc<Self>, rounds: &TenantRounds, questions: Vec<Exchange>) {
        let questions = questions.into_iter().map(|exchange| (exchange.tenant.clone(), exchange)).collect();
        let collector = Arc::clone(self);
        rounds.start(&self.background.tasks, questions, CONCURRENT, move |exchange| {
            let collector = Arc::clone(&collector);
            async move {
                if collector.background.is_closing() {
                    return;
                }
                if let Err(fault) = collector.collect(&exchange).await {
                    tracing::error!(%fault, "could not look for an answer");
                }
            }
        });
    }

    async fn collect(&self, exchange: &Exchange) -> Result<(), Fault> {
        let Some(connector) = self.directory.connector_of(exchange).await? else { return Ok(()) };
        let poll = connector.collect(&exchange.agent, &exchange.dispatch, &exchange.correlation);
        // A poll of a hanging folder is given up and repeated later. An answer that was found is always stored.
        let Ok(found) = self.background.timepiece.within(POLLED_WITHIN, poll).await else { return Ok(()) };
        match found {
            Ok(Some(reply)) => {
                self.answers.take(exchange, reply).await?;
                // Last, so that a crash before this repeats the answer instead of losing it.
                Ok(self.exchanges.stop_looking(&exchange.tenant, &exchange.correlation).await?)
            }
            Ok(None) => Ok(()),
            Err(failed) => {
                tracing::debug!(%failed, "could not look for an answer");
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ledger::ExchangeState;
    use serde_json::json;

    use super::*;
    use crate::tests::fixtures::Fixture;

    #[tokio::test]
    async fn the_answer_file_of_a_question_is_collected() {
        let folder = tempfile::tempdir().unwrap();
        let fixture = Fixture::with_drop_dir(folder.path()).await;
        fixture.create_connector("hook", "file-drop", &json!({ "dirs": { "desk": folder.path() } })).await;
        let collector = fixture.collector();
        let question = fixture.question("q-1", Duration::from_secs(30)).await;
        let file = folder.path().join(format!("{}.reply.json", question.dispatch));
        std::fs::write(file, r#"{"content":"42"}"#).unwrap();
        assert_eq!(collector.poll().await.unwrap(), Some(INTERVAL));
        fixture.background.tasks.close();
        fixture.background.tasks.wait().await;
        let stored = fixture.ledger.exchanges().exchange(&question.tenant, &question.correlation).await;
        let stored = stored.unwrap().unwrap();
        assert_eq!((stored.state, stored.answer.unwrap().0.as_str()), (ExchangeState::Answered, "42"));
        assert_eq!(collector.poll().await.unwrap(), None);
    }
}
