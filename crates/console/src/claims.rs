//! Admin API: claims of agents on chats and scopes of shared bots.

use axum::Json;
use axum::extract::State;
use http_kit::Page;
use ledger::{BotRef, ClaimFilter, Created};
use posthouse_wire::{BotId, GatewayId, InstanceId, Platform};
use serde::{Deserialize, Serialize};

use crate::account_names::AccountNames;
use crate::audit::{CreatedResponse, made};
use crate::extract::{JsonBody, PAGE, QueryParams};
use crate::problem::AdminProblem;
use crate::routes::Console;
use crate::routing::discriminator;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimsQuery {
    platform: Option<Platform>,
    bot: Option<BotId>,
    agent: Option<String>,
    tenant: Option<String>,
    after: Option<u32>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GrantedClaim {
    platform: Platform,
    bot: BotId,
    /// `chat:ID`, `scope:ID` or `path:PATH`.
    place: String,
    agent: String,
    #[serde(default)]
    tenant: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct ShownClaim {
    platform: Platform,
    bot: BotId,
    /// `key:VALUE` while it is not known whether it is a chat or a scope.
    place: String,
    agent: String,
    instance_id: InstanceId,
    /// The credential that declared it.
    gateway_id: Option<GatewayId>,
    /// The place belongs to the agent. Otherwise nobody linked to it was seen there, or another agent has it.
    live: bool,
    created_at: String,
}

#[derive(Serialize)]
pub(crate) struct NamedClaim {
    platform: Platform,
    bot: BotId,
    place: String,
    instance_id: InstanceId,
}

pub(crate) async fn list(
    State(console): State<Console>,
    QueryParams(which): QueryParams<ClaimsQuery>,
) -> Result<Json<Page<ShownClaim>>, AdminProblem> {
    let instance = match &which.agent {
        Some(agent) => Some(console.agent(agent, which.tenant.as_deref()).await?.1.id),
        None => None,
    };
    let on = which.platform.zip(which.bot).map(|(platform, bot)| BotRef { platform, bot });
    let (limit, skip) = (PAGE.clamp(which.limit), which.after.unwrap_or_default());
    let filter = ClaimFilter { on, instance };
    let mut found = console.identity.gate.claims().list(filter, skip, limit as u32 + 1).await?;
    let next = (found.len() > limit).then(|| (skip as usize + limit).to_string());
    found.truncate(limit);
    let names = AccountNames::read(&console, None).await?;
    let items = found.into_iter().map(|claim| ShownClaim {
        agent: names.agent(&claim.instance),
        place: format!("{}:{}", claim.kind, claim.value),
        platform: claim.on.platform,
        bot: claim.on.bot,
        instance_id: claim.instance,
        gateway_id: claim.gateway,
        live: claim.live,
        created_at: claim.created.to_string(),
    });
    Ok(Json(Page { items: items.collect(), next }))
}

pub(crate) async fn grant(
    State(console): State<Console>,
    JsonBody(new): JsonBody<GrantedClaim>,
) -> Result<CreatedResponse<NamedClaim>, AdminProblem> {
    let GrantedClaim { platform, bot, place, agent, tenant } = new;
    let wanted = discriminator(&place)?;
    let (tenant, instance) = console.agent(&agent, tenant.as_deref()).await?;
    let on = BotRef { platform: platform.clone(), bot: bot.clone() };
    match console.identity.gate.claims().grant(&instance.id, &on, &wanted).await? {
        Created::Made => {
            let about = format!("{platform}:{bot} {place} to {}/{}", tenant.name, instance.name);
            Ok(made(about, NamedClaim { platform, bot, place, instance_id: instance.id }))
        }
        Created::Taken => Err(AdminProblem::conflict(
            "taken",
            format!("{place} of {platform}:{bot} belongs to another agent"),
        )),
        Created::Unfit(why) => Err(AdminProblem::unfit("unfit_claim", format!("{platform}:{bot}: {why}"))),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneClaim {
    platform: Platform,
    bot: BotId,
    place: String,
    agent: String,
    tenant: Option<String>,
}

pub(crate) async fn remove(
    State(console): State<Console>,
    QueryParams(one): QueryParams<OneClaim>,
) -> Result<Json<NamedClaim>, AdminProblem> {
    let OneClaim { platform, bot, place, agent, tenant } = one;
    let (_, instance) = console.agent(&agent, tenant.as_deref()).await?;
    let absent = || AdminProblem::absent("no_such_claim", format!("agent `{agent}` has no claim on {place}"));
    let (kind, value) = place.split_once(':').ok_or_else(absent)?;
    let claims = console.identity.gate.claims();
    let on = BotRef { platform: platform.clone(), bot: bot.clone() };
    let filter = ClaimFilter { on: Some(on), instance: Some(instance.id.clone()) };
    let found = claims.list(filter, 0, ledger::CLAIMS_OF_AN_AGENT).await?;
    if !found.iter().any(|claim| claim.kind == kind && claim.value == value) {
        return Err(absent());
    }
    let releasing = claims.release(&instance.id, &platform, value);
    console.relay.route_removals().take_away(releasing, |_| vec![instance.id.clone()]).await?;
    Ok(Json(NamedClaim { platform, bot, place, instance_id: instance.id }))
}
