//! Admin API: links between authors on chat platforms and agents.

use axum::Json;
use axum::extract::State;
use http_kit::Page;
use ledger::{Binding, BindingPosition, BotRef};
use posthouse_wire::{BotId, InstanceId, Platform, UserId};
use serde::{Deserialize, Serialize};

use crate::account_names::AccountNames;
use crate::extract::{PAGE, QueryParams};
use crate::problem::AdminProblem;
use crate::routes::Console;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BindingsQuery {
    agent: Option<String>,
    tenant: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneBinding {
    platform: Platform,
    user: UserId,
    agent: String,
    tenant: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct ShownBinding {
    platform: Platform,
    user: UserId,
    tenant: String,
    agent: String,
    instance_id: InstanceId,
    /// The bot to which the author sent the link code. The link counts there.
    bot: BotId,
    /// The author's direct messages are for this agent.
    dm_default: bool,
    linked_at: String,
}

#[derive(Serialize)]
pub(crate) struct RemovedBinding {
    platform: Platform,
    user: UserId,
    instance_id: InstanceId,
}

pub(crate) async fn list(
    State(console): State<Console>,
    QueryParams(which): QueryParams<BindingsQuery>,
) -> Result<Json<Page<ShownBinding>>, AdminProblem> {
    let agent = match &which.agent {
        Some(agent) => Some(console.agent(agent, which.tenant.as_deref()).await?.1.id),
        None => None,
    };
    let limit = PAGE.clamp(which.limit);
    let after = which.after.as_deref().and_then(position);
    let links = console.identity.gate.links();
    let mut found = links.list(agent.as_ref(), after, limit as u32 + 1).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(name);
    let names = AccountNames::read(&console, None).await?;
    let items = found.into_iter().map(|link| ShownBinding {
        tenant: names.tenant(&link.to.tenant),
        agent: names.agent(&link.to.instance),
        platform: link.on.platform,
        user: link.user,
        instance_id: link.to.instance,
        bot: link.on.bot,
        dm_default: link.dm_default,
        linked_at: link.linked.to_string(),
    });
    Ok(Json(Page { items: items.collect(), next }))
}

/// `PLATFORM/BOT/USER/AGENT`. Only the user may contain a slash.
fn name(link: &Binding) -> String {
    format!("{}/{}/{}/{}", link.on.platform, link.on.bot, link.user, link.to.instance)
}

fn position(after: &str) -> Option<BindingPosition> {
    let (platform, rest) = after.split_once('/')?;
    let (bot, rest) = rest.split_once('/')?;
    let (user, instance) = rest.rsplit_once('/')?;
    let on = BotRef { platform: platform.into(), bot: bot.into() };
    Some(BindingPosition { on, user: user.into(), instance: instance.into() })
}

pub(crate) async fn remove(
    State(console): State<Console>,
    QueryParams(one): QueryParams<OneBinding>,
) -> Result<Json<RemovedBinding>, AdminProblem> {
    let OneBinding { platform, user, agent, tenant } = one;
    let (_, instance) = console.agent(&agent, tenant.as_deref()).await?;
    let unlinking = console.identity.gate.links().unlink(&instance.id, &platform, &user);
    let removals = console.relay.route_removals();
    match removals.take_away(unlinking, |_| vec![instance.id.clone()]).await? {
        true => Ok(Json(RemovedBinding { platform, user, instance_id: instance.id })),
        false => Err(AdminProblem::absent(
            "no_such_binding",
            format!("{platform}:{user} is not linked to agent `{agent}`"),
        )),
    }
}
