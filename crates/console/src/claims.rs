//! Admin API: claims of agents on chats and scopes of shared bots.

use axum::Json;
use axum::extract::State;
use http_kit::{Page, decode_cursor, encode_cursor};
use ledger::{BotRef, ClaimFilter, ClaimPosition, Created, ScopeClaim};
use posthouse_wire::{BotId, GatewayId, InstanceId, Platform};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::account_names::AccountNames;
use crate::audit::{CreatedResponse, made};
use crate::extract::{JsonBody, PAGE, QueryParams, no_position};
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
    after: Option<String>,
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
    let limit = PAGE.clamp(which.limit);
    let after = which.after.as_deref().map(|text| read_position(text).ok_or_else(no_position)).transpose()?;
    let filter = ClaimFilter { on, instance };
    let found = console.identity.gate.claims().list(filter, after, limit as u32 + 1).await?;
    let names = AccountNames::read(&console, None).await?;
    let page = Page::one_less(limit, found, cursor);
    Ok(Json(page.map(|claim| ShownClaim {
        agent: names.agent(&claim.instance),
        place: format!("{}:{}", claim.kind, claim.value),
        platform: claim.on.platform,
        bot: claim.on.bot,
        instance_id: claim.instance,
        gateway_id: claim.gateway,
        live: claim.live,
        created_at: claim.created.to_string(),
    })))
}

fn cursor(claim: &ScopeClaim) -> String {
    let ScopeClaim { on, kind, value, instance, .. } = claim;
    encode_cursor(json!([on.platform, on.bot, kind, value, instance]).to_string())
}

fn read_position(cursor: &str) -> Option<ClaimPosition> {
    let (platform, bot, kind, value, instance) = serde_json::from_str(&decode_cursor(cursor)?).ok()?;
    Some(ClaimPosition { on: BotRef { platform, bot }, kind, value, instance })
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
    let found = claims.list(filter, None, ledger::CLAIMS_OF_AN_AGENT).await?;
    if !found.iter().any(|claim| claim.kind == kind && claim.value == value) {
        return Err(absent());
    }
    let releasing = claims.release(&instance.id, &platform, value);
    console.relay.route_removals().take_away(releasing, |_| vec![instance.id.clone()]).await?;
    Ok(Json(NamedClaim { platform, bot, place, instance_id: instance.id }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_names_its_claim_and_anything_else_is_none() {
        let claim = ScopeClaim {
            on: BotRef { platform: "telegram".into(), bot: "help/desk".into() },
            kind: "chat".to_owned(),
            value: "-1001/7".to_owned(),
            instance: "inst_1".into(),
            gateway: None,
            live: true,
            created: posthouse_time::Moment::from_millis(1),
        };
        let ScopeClaim { on, kind, value, instance, .. } = claim.clone();
        assert_eq!(read_position(&cursor(&claim)), Some(ClaimPosition { on, kind, value, instance }));
        for other in ["", "20", "W10", "%"] {
            assert_eq!(read_position(other), None, "{other}");
        }
    }
}
