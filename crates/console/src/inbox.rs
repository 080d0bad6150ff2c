//! Admin API: inbox sizes and dead letters.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Path, State};
use http_kit::{Page, decode_cursor, encode_cursor};
use ledger::{DeadLetterFilter, DeadLetterPosition, Instance, Unread};
use posthouse_wire::{EntryId, InstanceId};
use serde::{Deserialize, Serialize};

use crate::extract::{PAGE, QueryParams, no_position};
use crate::problem::AdminProblem;
use crate::routes::{Console, Parts};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InboxQuery {
    agent: Option<String>,
    tenant: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct InboxSize {
    tenant: String,
    agent: String,
    instance_id: InstanceId,
    entries: i64,
    bytes: i64,
}

#[derive(Serialize)]
pub(crate) struct ShownDeadLetter {
    entry: EntryId,
    tenant: String,
    agent: String,
    instance_id: InstanceId,
    platform: String,
    chat: String,
    accepted_at: String,
    died_at: String,
}

/// Tenant name and agent name of each agent in an answer.
type InboxNames = HashMap<InstanceId, (String, String)>;

impl Parts {
    /// The requested agents: one, those of a tenant, or all.
    async fn asked_for(&self, which: &InboxQuery) -> Result<InboxNames, AdminProblem> {
        if let Some(agent) = &which.agent {
            let (tenant, instance) = self.agent(agent, which.tenant.as_deref()).await?;
            return Ok(HashMap::from([(instance.id, (tenant.name, instance.name))]));
        }
        let roster = self.identity.roster.records();
        let only = match &which.tenant {
            Some(tenant) => Some(self.tenant(tenant).await?.id),
            None => None,
        };
        let tenants: HashMap<_, _> =
            roster.tenants().await?.into_iter().map(|tenant| (tenant.id, tenant.name)).collect();
        let named = |instance: Instance| {
            let tenant = tenants.get(&instance.tenant).cloned().unwrap_or_default();
            (instance.id, (tenant, instance.name))
        };
        Ok(roster.instances(only.as_ref()).await?.into_iter().map(named).collect())
    }
}

/// For one agent, its size even if it is zero; otherwise all agents that have unread entries.
pub(crate) async fn sizes(
    State(console): State<Console>,
    QueryParams(which): QueryParams<InboxQuery>,
) -> Result<Json<Page<InboxSize>>, AdminProblem> {
    let names = console.asked_for(&which).await?;
    let held: Vec<(InstanceId, Unread)> = match (&which.agent, names.keys().next()) {
        (Some(_), Some(id)) => vec![(id.clone(), console.inbox.size(id).await?)],
        _ => console.inbox.backlogs().await?,
    };
    let sized = |(instance_id, unread): (InstanceId, Unread)| {
        let (tenant, agent) = names.get(&instance_id)?.clone();
        Some(InboxSize { tenant, agent, instance_id, entries: unread.entries, bytes: unread.bytes })
    };
    let mut items: Vec<InboxSize> = held.into_iter().filter_map(sized).collect();
    items.sort_by(|one, other| (&one.tenant, &one.agent).cmp(&(&other.tenant, &other.agent)));
    Ok(Json(Page::all(items)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeadLettersQuery {
    agent: Option<String>,
    tenant: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

/// A page of dead letters, the latest first.
pub(crate) async fn dead_letters(
    State(console): State<Console>,
    QueryParams(DeadLettersQuery { agent, tenant, after, limit }): QueryParams<DeadLettersQuery>,
) -> Result<Json<Page<ShownDeadLetter>>, AdminProblem> {
    let after = after.map(|text| read_position(&text).ok_or_else(no_position)).transpose()?;
    let mut filter = DeadLetterFilter { after, ..DeadLetterFilter::default() };
    let which = InboxQuery { agent, tenant };
    let names = console.asked_for(&which).await?;
    match (&which.agent, &which.tenant) {
        (Some(_), _) => filter.instance = names.keys().next().cloned(),
        (None, Some(tenant)) => filter.tenant = Some(console.tenant(tenant).await?.id),
        (None, None) => {}
    }
    let limit = PAGE.clamp(limit);
    let letters = console.inbox.dead_letters(filter, u32::try_from(limit).unwrap_or(u32::MAX)).await?;
    let page = Page::up_to(limit, letters, |letter| position(letter.position));
    // The letters of an agent that was removed meanwhile are left out.
    let shown = page.items.into_iter().filter_map(|letter| {
        let (tenant, agent) = names.get(&letter.instance)?.clone();
        Some(ShownDeadLetter {
            entry: letter.entry,
            tenant,
            agent,
            instance_id: letter.instance,
            platform: letter.platform.to_string(),
            chat: letter.chat.to_string(),
            accepted_at: letter.accepted.to_string(),
            died_at: letter.died.to_string(),
        })
    });
    Ok(Json(Page { items: shown.collect(), next: page.next }))
}

fn position(DeadLetterPosition { counted, seq }: DeadLetterPosition) -> String {
    encode_cursor(format!("{counted}/{seq}"))
}

fn read_position(cursor: &str) -> Option<DeadLetterPosition> {
    let text = decode_cursor(cursor)?;
    let (counted, seq) = text.split_once('/')?;
    Some(DeadLetterPosition { counted: counted.parse().ok()?, seq: seq.parse().ok()? })
}

#[derive(Serialize)]
pub(crate) struct Redriven {
    entry: EntryId,
    instance_id: InstanceId,
}

/// Puts a dead letter back into its inbox. Repeating is harmless.
pub(crate) async fn redrive(
    State(console): State<Console>,
    Path(entry): Path<String>,
) -> Result<Json<Redriven>, AdminProblem> {
    let entry = EntryId::from(entry);
    match console.relay.inboxes().redrive(&entry).await? {
        Some(instance_id) => Ok(Json(Redriven { entry, instance_id })),
        None => Err(AdminProblem::absent("no_such_letter", format!("there is no dead letter `{entry}`"))),
    }
}
