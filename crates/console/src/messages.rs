//! Admin API: traces of messages, by any of their ids. A trace never contains a person's text.

use axum::Json;
use axum::extract::{Path, State};
use ledger::{MessageTimeline, TenantDispatch};
use posthouse_wire::delivery::is_dispatch_id;
use posthouse_wire::{ActionId, DispatchId, EntryId};
use serde::Serialize;

use crate::message_chain::{MOST_RUNS, MessageChain};
use crate::problem::AdminProblem;
use crate::routes::{Console, Parts};

#[derive(Serialize)]
pub(crate) struct Trace {
    /// The id as requested.
    id: String,
    /// The requested message first, then those of its chain and linked ones.
    items: Vec<ShownTimeline>,
}

#[derive(Serialize)]
struct ShownTimeline {
    id: String,
    what: String,
    /// None if it was not for an agent that connects to this server, but for one behind a connector.
    instance_id: Option<String>,
    platform: String,
    bot: String,
    chat: Option<String>,
    message: Option<String>,
    linked: Vec<String>,
    /// The dispatch id of a program's message.
    dispatch_id: Option<String>,
    /// Runs of skills that sent it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    runs: Vec<String>,
    /// Runs of skills that it led to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    led_to: Vec<String>,
    steps: Vec<ShownStep>,
}

#[derive(Serialize)]
struct ShownStep {
    what: &'static str,
    at: String,
    note: Option<String>,
}

fn shown(story: MessageTimeline) -> ShownTimeline {
    let step =
        |step: ledger::TraceStep| ShownStep { what: step.what, at: step.at.to_string(), note: step.note };
    ShownTimeline {
        id: story.id,
        what: story.what,
        instance_id: Some(story.instance.to_string()).filter(|id| !id.is_empty()),
        platform: story.platform.to_string(),
        bot: story.bot,
        chat: story.chat.map(|chat| chat.to_string()),
        message: story.message.map(|message| message.to_string()),
        linked: story.linked,
        dispatch_id: story.dispatch.map(|dispatch| dispatch.id.to_string()),
        runs: Vec::new(),
        led_to: Vec::new(),
        steps: story.steps.into_iter().map(step).collect(),
    }
}

/// How many colons are tried as the separator between chat and message.
const BORDERS: usize = 8;

impl Parts {
    async fn by_id(&self, id: &str) -> Result<Option<MessageTimeline>, AdminProblem> {
        let traces = &self.traces;
        match id.get(..4) {
            Some("ent_") => Ok(traces.entry(&EntryId::from(id)).await?),
            Some("act_") => Ok(traces.action(&ActionId::from(id)).await?),
            _ => Ok(None),
        }
    }

    /// `PLATFORM:CHAT:MESSAGE`. Both ids may contain colons, so every colon is tried as the separator, the
    /// last one first.
    async fn by_message(&self, text: &str) -> Result<Vec<MessageTimeline>, AdminProblem> {
        let Some((platform, rest)) = text.split_once(':') else { return Ok(Vec::new()) };
        for (at, _) in rest.rmatch_indices(':').take(BORDERS) {
            let (chat, message) = (rest[..at].into(), rest[at + 1..].into());
            let stories = self.traces.message(&platform.into(), &chat, &message).await?;
            if !stories.is_empty() {
                return Ok(stories);
            }
        }
        Ok(Vec::new())
    }

    /// Adds the messages that these name as linked.
    async fn add_linked(&self, stories: &mut Vec<MessageTimeline>) -> Result<(), AdminProblem> {
        let linked: Vec<String> = stories.iter().flat_map(|story| story.linked.clone()).collect();
        for link in linked {
            if stories.iter().all(|story| story.id != link)
                && let Some(story) = self.by_id(&link).await?
            {
                stories.push(story);
            }
        }
        Ok(())
    }
}

pub(crate) async fn trace(
    State(console): State<Console>,
    Path(id): Path<String>,
) -> Result<Json<Trace>, AdminProblem> {
    let mut stories: Vec<MessageTimeline> = console.by_id(&id).await?.into_iter().collect();
    if stories.is_empty() {
        stories = console.by_message(&id).await?;
        // Programs choose dispatch ids, and one may look like the id of a message: then both are shown.
        if is_dispatch_id(&id) {
            stories.extend(console.traces.dispatch(&DispatchId::from(id.as_str())).await?);
        }
    }
    console.add_linked(&mut stories).await?;
    let records = console.runner.runs().records();
    let own: Vec<TenantDispatch> = stories.iter().filter_map(|story| story.dispatch.clone()).collect();
    for dispatch in MessageChain::new(&**records).follow(&id, &own).await? {
        let found = console.traces.dispatch(&dispatch.id).await?;
        stories.extend(found.into_iter().filter(|story| story.dispatch.as_ref() == Some(&dispatch)));
    }
    if stories.is_empty() {
        return Err(AdminProblem::absent("no_such_message", format!("there is no message `{id}`")));
    }
    console.add_linked(&mut stories).await?;
    let mut items = Vec::new();
    for story in stories {
        let dispatch = story.dispatch.clone();
        let mut item = shown(story);
        if let Some(dispatch) = dispatch {
            let runs = records.runs_of_dispatch(&dispatch).await?;
            item.runs = runs.into_iter().map(|run| run.run.id.to_string()).collect();
            let led_to = records.runs_caused_by(&dispatch, MOST_RUNS).await?;
            item.led_to = led_to.into_iter().map(|run| run.run.id.to_string()).collect();
        }
        items.push(item);
    }
    Ok(Json(Trace { id, items }))
}
