//! Streamed edits: an agent that edits a message many times a second makes no more calls than the platform allows, and its
//! last text always arrives.
//!
//! Edits of one message may come in while an earlier one waits for its time. Then only the newest is sent. The ones before
//! it get its result, because the message shows their text or a newer one.

use std::sync::Arc;
use std::time::Duration;

use ledger::BotRef;
use moka::sync::Cache;
use parking_lot::Mutex;
use posthouse_time::{Instant, Timepiece};
use posthouse_wire::{Action, ChatId, InstanceId, MessageId, Outcome};
use relay::{EgressResult, PermittedAction};
use tokio::sync::Notify;

/// Most messages whose edits are remembered. The count of a forgotten message starts again at zero.
const MESSAGES: u64 = 50_000;
const FORGET_AFTER: Duration = Duration::from_secs(3600);
/// Subtracted from the deadline of an edit that waits, so that its result is ready before it.
const MARGIN: Duration = Duration::from_millis(500);
/// How long the last edit of a message waits for a newer text, if the agent does not say which text is final.
const LAST_EDIT_WAITS: Duration = Duration::from_secs(3);

/// How often a message may be edited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EditLimits {
    /// Shortest time between two edits of one message.
    pub pause: Duration,
    /// Number of edits that one message takes. The last is kept for the final text.
    pub most: Option<u32>,
}

/// The edits of all messages. Clones share one state.
#[derive(Clone)]
pub(crate) struct EditStreams {
    streams: Cache<StreamKey, Arc<EditStream>>,
    timepiece: Timepiece,
}

/// Agents that share a bot edit apart from each other.
type StreamKey = (InstanceId, BotRef, ChatId, MessageId);

/// The edits of one message.
#[derive(Default)]
struct EditStream {
    state: Mutex<StreamState>,
    changed: Notify,
}

#[derive(Default)]
struct StreamState {
    entered: u64,
    newest: Option<EditOrder>,
    /// A call is being made.
    is_busy: bool,
    last_call: Option<Instant>,
    calls: u32,
    /// The last edit that was sent, with its result.
    ended: Option<(EditOrder, Outcome)>,
}

/// The order of edits: by their deadlines, which are as far from their arrival at the server. The number tells apart those
/// that arrived at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EditOrder {
    deadline: Instant,
    number: u64,
}

/// What an edit does next.
enum EditStep {
    Call,
    /// A newer edit, or this one, was sent.
    Ended(Outcome),
    /// Until something changes, or this time.
    Wait(Option<Instant>),
}

impl EditStreams {
    pub fn new(timepiece: Timepiece) -> Self {
        let streams = Cache::builder().max_capacity(MESSAGES).time_to_idle(FORGET_AFTER).build();
        Self { streams, timepiece }
    }

    /// Carries out an action by `perform`. An edit may wait, and may be left to a newer one.
    pub async fn perform<F: Future<Output = EgressResult>>(
        &self,
        limits: EditLimits,
        permitted: PermittedAction,
        perform: impl FnOnce(PermittedAction) -> F,
    ) -> EgressResult {
        let Action::Edit { chat_id, message_id, .. } = &permitted.action else {
            return perform(permitted).await;
        };
        if limits == EditLimits::default() {
            return perform(permitted).await;
        }
        let key = (permitted.instance.clone(), permitted.on.clone(), chat_id.clone(), message_id.clone());
        let stream = self.streams.get_with(key, Arc::default);
        let mut waiting = WaitingEdit::enter(&stream, permitted.deadline);
        let finality = Finality::of(&permitted);
        let left = (permitted.deadline - MARGIN).since(self.timepiece.instant());
        let turn = self.timepiece.within(left, waiting.turn(limits, finality, &self.timepiece)).await;
        match turn {
            Ok(None) => {
                let result = perform(permitted).await;
                waiting.end(&result.outcome);
                result
            }
            Ok(Some(outcome)) => outcome.into(),
            Err(_) => match limits.most {
                Some(most) => Outcome::failed(format!(
                    "rate limit: a message can be edited {most} times, and the last edit is kept for the final text"
                )),
                None => Outcome::failed("rate limit: this edit waited too long behind others of the message"),
            }
            .into(),
        }
    }
}

/// Whether a text is the last of its message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Finality {
    Final,
    Unfinished,
    /// The agent marks neither.
    Unknown,
}

impl Finality {
    fn of(permitted: &PermittedAction) -> Self {
        match permitted {
            PermittedAction { ends_turn: true, .. } => Finality::Final,
            permitted if permitted.unfinished().is_some() => Finality::Unfinished,
            PermittedAction { stream_cursor, .. } if !stream_cursor.is_empty() => Finality::Final,
            _ => Finality::Unknown,
        }
    }
}

/// An edit in its stream. Dropping it withdraws it.
struct WaitingEdit<'a> {
    stream: &'a EditStream,
    order: EditOrder,
    is_calling: bool,
}

impl<'a> WaitingEdit<'a> {
    fn enter(stream: &'a EditStream, deadline: Instant) -> Self {
        let mut state = stream.state.lock();
        state.entered += 1;
        let order = EditOrder { deadline, number: state.entered };
        state.newest = state.newest.max(Some(order));
        drop(state);
        stream.changed.notify_waiters();
        Self { stream, order, is_calling: false }
    }

    /// Waits until this edit is to be sent, or has its result.
    async fn turn(
        &mut self,
        limits: EditLimits,
        finality: Finality,
        timepiece: &Timepiece,
    ) -> Option<Outcome> {
        let entered = timepiece.instant();
        loop {
            let mut changed = std::pin::pin!(self.stream.changed.notified());
            changed.as_mut().enable();
            match self.next_step(limits, finality, entered, timepiece.instant()) {
                EditStep::Call => return None,
                EditStep::Ended(outcome) => return Some(outcome),
                EditStep::Wait(None) => changed.await,
                EditStep::Wait(Some(until)) => {
                    let wait = timepiece.after(until.since(timepiece.instant()));
                    tokio::select! { () = wait => {}, () = changed => {} }
                }
            }
        }
    }

    fn next_step(
        &mut self,
        limits: EditLimits,
        finality: Finality,
        entered: Instant,
        now: Instant,
    ) -> EditStep {
        let mut state = self.stream.state.lock();
        match &state.ended {
            Some((order, outcome)) if *order >= self.order => return EditStep::Ended(outcome.clone()),
            _ => {}
        }
        if state.is_busy || state.newest.is_some_and(|newest| newest > self.order) {
            return EditStep::Wait(None);
        }
        let mut due = state.last_call.map_or(now, |last| last + limits.pause);
        if limits.most.is_some_and(|most| state.calls + 1 == most) {
            match finality {
                Finality::Final => {}
                Finality::Unfinished => return EditStep::Wait(None),
                Finality::Unknown => due = due.max(entered + LAST_EDIT_WAITS),
            }
        }
        if due > now {
            return EditStep::Wait(Some(due));
        }
        (state.is_busy, state.last_call) = (true, Some(now));
        state.calls += 1;
        self.is_calling = true;
        EditStep::Call
    }

    fn end(mut self, outcome: &Outcome) {
        self.is_calling = false;
        let mut state = self.stream.state.lock();
        state.is_busy = false;
        state.ended = Some((self.order, outcome.clone()));
    }
}

impl Drop for WaitingEdit<'_> {
    fn drop(&mut self) {
        let mut state = self.stream.state.lock();
        if self.is_calling {
            state.is_busy = false;
        }
        if state.newest == Some(self.order) {
            state.newest = None;
        }
        drop(state);
        self.stream.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;
    use posthouse_time::Moment;

    use super::*;

    struct TestStream {
        streams: EditStreams,
        clock: Timepiece,
        /// The texts that reached the platform.
        shown: Arc<Mutex<Vec<String>>>,
        limits: EditLimits,
    }

    impl TestStream {
        fn new(limits: EditLimits) -> Self {
            let clock = Timepiece::wound(Moment::from_seconds(1_800_000_000));
            Self { streams: EditStreams::new(clock.clone()), clock, shown: Arc::default(), limits }
        }

        fn edit(&self, text: &str) -> BoxFuture<'static, EgressResult> {
            self.edit_of("inst_1", text)
        }

        fn permitted(&self, instance: &str, text: &str) -> PermittedAction {
            PermittedAction {
                id: "act_1".into(),
                tenant: "ten_1".into(),
                instance: instance.into(),
                on: BotRef { platform: "pigeon".into(), bot: "7".into() },
                action: Action::Edit {
                    chat_id: "c".into(),
                    message_id: "m".into(),
                    content: text.to_owned(),
                    metadata: Default::default(),
                },
                may_redeem: true,
                ends_turn: false,
                stream_cursor: "▌".to_owned(),
                deadline: self.clock.instant() + Duration::from_secs(25),
            }
        }

        fn edit_of(&self, instance: &str, text: &str) -> BoxFuture<'static, EgressResult> {
            let permitted = self.permitted(instance, text);
            let (streams, shown, limits) = (self.streams.clone(), Arc::clone(&self.shown), self.limits);
            let perform = move |permitted: PermittedAction| async move {
                shown.lock().push(permitted.action.content().unwrap_or_default().to_owned());
                EgressResult::from(Outcome::sent("m".into()))
            };
            let mut edit = async move { streams.perform(limits, permitted, perform).await }.boxed();
            // It enters its stream now.
            match edit.as_mut().now_or_never() {
                Some(result) => std::future::ready(result).boxed(),
                None => edit,
            }
        }

        fn shown(&self) -> Vec<String> {
            self.shown.lock().clone()
        }
    }

    fn each_second() -> EditLimits {
        EditLimits { pause: Duration::from_secs(1), most: None }
    }

    #[tokio::test]
    async fn of_many_edits_the_first_and_the_last_reach_the_platform_and_each_has_a_result() {
        let stage = TestStream::new(each_second());
        let edits: Vec<_> = (0..20).map(|number| stage.edit(&format!("text {number}"))).collect();
        assert_eq!(stage.shown(), ["text 0"]);
        let results = futures_util::future::join_all(edits);
        let results = stage.clock.wind_until(Duration::from_secs(1), results).await;
        assert_eq!(stage.shown(), ["text 0", "text 19"]);
        assert!(results.iter().all(|result| result.outcome == Outcome::sent("m".into())));
    }

    #[tokio::test]
    async fn edits_of_another_agent_are_not_mixed_in() {
        let stage = TestStream::new(each_second());
        assert!(stage.edit("a").now_or_never().is_some());
        assert!(stage.edit_of("inst_2", "b").now_or_never().is_some());
        assert_eq!(stage.shown(), ["a", "b"]);
    }

    #[tokio::test]
    async fn the_last_edit_that_a_platform_allows_is_kept_for_the_final_text() {
        let stage = TestStream::new(EditLimits { most: Some(3), ..each_second() });
        for number in 0..2 {
            stage.clock.wind(Duration::from_secs(1));
            assert!(stage.edit(&format!("text {number}▌")).now_or_never().is_some());
        }
        stage.clock.wind(Duration::from_secs(1));
        let mut unfinished = stage.edit("text 2▌");
        assert!(unfinished.as_mut().now_or_never().is_none(), "it waits for a newer text");
        let last = stage.edit("text 3");
        assert!(last.await.outcome.success && unfinished.await.outcome.success);
        assert_eq!(stage.shown(), ["text 0▌", "text 1▌", "text 3"]);
    }

    #[tokio::test]
    async fn an_unfinished_text_without_a_successor_is_told_that_no_edit_is_left_for_it() {
        let stage = TestStream::new(EditLimits { most: Some(1), ..each_second() });
        let edit = stage.edit("text▌");
        let refused = stage.clock.wind_until(Duration::from_secs(5), edit).await.outcome;
        assert!(refused.error.is_some_and(|error| error.starts_with("rate limit: ")));
        assert_eq!(stage.shown(), Vec::<String>::new());
        assert!(stage.edit("final").await.outcome.success);
    }

    #[tokio::test]
    async fn an_edit_that_ends_in_the_middle_of_its_call_leaves_the_message_to_the_next() {
        let stage = TestStream::new(each_second());
        let permitted = stage.permitted("inst_1", "hangs");
        let mut hanging = stage.streams.perform(each_second(), permitted, |_| std::future::pending()).boxed();
        assert!(hanging.as_mut().now_or_never().is_none());
        let next = stage.edit("next");
        drop(hanging);
        assert!(stage.clock.wind_until(Duration::from_secs(1), next).await.outcome.success);
        assert_eq!(stage.shown(), ["next"]);
    }
}
