//! Admin API: routes, which send a platform's events to an agent.

use std::collections::HashMap;

use axum::extract::State;
use axum::{Extension, Json};
use http_kit::Page;
use ledger::{BotRef, Created, Discriminator, Instance, Removed, Route, RouteOrigin};
use posthouse_wire::{BotId, InstanceId, Platform};
use serde::{Deserialize, Serialize};

use crate::agents::policies::check_profile;
use crate::audit::{AuditSubject, CreatedResponse, made};
use crate::extract::{JsonBody, PAGE, QueryParams};
use crate::problem::AdminProblem;
use crate::routes::Console;
use crate::staleness::StaleSetting;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewRoute {
    platform: Platform,
    bot: BotId,
    discriminator: String,
    agent: String,
    #[serde(default)]
    tenant: Option<String>,
    /// Profile of the agent for events that come by this route.
    #[serde(default)]
    profile: Option<String>,
    /// What happens to messages that waited too long; absent: as the agent's setting says.
    #[serde(default)]
    staleness: Option<StaleSetting>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RouteChange {
    /// Null removes it, so that the agent's setting counts.
    #[serde(deserialize_with = "Option::deserialize")]
    staleness: Option<StaleSetting>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RoutesQuery {
    /// Can also name a built-in platform, whose routes are not listed otherwise.
    platform: Option<Platform>,
    after: Option<String>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneRoute {
    platform: Platform,
    bot: BotId,
    discriminator: String,
}

#[derive(Serialize)]
pub(crate) struct ShownRoute {
    platform: Platform,
    bot: BotId,
    discriminator: String,
    agent: Option<String>,
    tenant: Option<String>,
    instance_id: InstanceId,
    profile: Option<String>,
    /// Null: as the agent's setting says.
    staleness: Option<StaleSetting>,
    created_at: String,
}

fn shown(
    route: Route,
    agent: Option<String>,
    tenant: Option<String>,
    staleness: Option<StaleSetting>,
) -> ShownRoute {
    ShownRoute {
        discriminator: route.discriminator.to_string(),
        platform: route.platform,
        bot: route.bot,
        agent,
        tenant,
        instance_id: route.instance,
        profile: route.profile,
        staleness,
        created_at: route.created.to_string(),
    }
}

pub(crate) fn discriminator(text: &str) -> Result<Discriminator, AdminProblem> {
    text.parse().map_err(|()| {
        let detail =
            format!("`{text}` does not select events of a bot: use *, chat:ID, scope:ID or path:PATH");
        AdminProblem::unfit("bad_discriminator", detail)
    })
}

pub(crate) async fn list(
    State(console): State<Console>,
    QueryParams(which): QueryParams<RoutesQuery>,
) -> Result<Json<Page<ShownRoute>>, AdminProblem> {
    let roster = console.identity.roster.records();
    let mut routes = roster.routes().await?;
    routes.retain(|route| match &which.platform {
        Some(platform) => route.platform == *platform,
        None => !console.is_built_in(&route.platform),
    });
    let key = |route: &Route| format!("{}:{} {}", route.platform, route.bot, route.discriminator);
    let page = Page::of_sorted(routes, key, which.after.as_deref(), PAGE.clamp(which.limit));
    let tenants: HashMap<_, _> =
        roster.tenants().await?.into_iter().map(|tenant| (tenant.id, tenant.name)).collect();
    let policies = console.identity.stale_policies.records().route_policies().await?;
    let mut policies: HashMap<_, _> =
        policies.into_iter().map(|(on, which, policy)| ((on, which), StaleSetting::from(policy))).collect();
    let mut items = Vec::with_capacity(page.items.len());
    for route in page.items {
        let on = BotRef { platform: route.platform.clone(), bot: route.bot.clone() };
        let staleness = policies.remove(&(on, route.discriminator.clone()));
        let instance: Option<Instance> = roster.instance(&route.instance).await?;
        let tenant = instance.as_ref().and_then(|instance| tenants.get(&instance.tenant).cloned());
        items.push(shown(route, instance.map(|instance| instance.name), tenant, staleness));
    }
    Ok(Json(Page { items, next: page.next }))
}

pub(crate) async fn create(
    State(console): State<Console>,
    JsonBody(new): JsonBody<NewRoute>,
) -> Result<CreatedResponse<ShownRoute>, AdminProblem> {
    let discriminator = discriminator(&new.discriminator)?;
    new.profile.as_deref().map_or(Ok(()), check_profile)?;
    let staleness = new.staleness.as_ref().map(StaleSetting::policy).transpose()?;
    let (tenant, instance) = console.agent(&new.agent, new.tenant.as_deref()).await?;
    let route = Route {
        platform: new.platform,
        bot: new.bot,
        discriminator,
        instance: instance.id,
        created: console.timepiece.now(),
        profile: new.profile,
    };
    // The operator's word outranks a claim. The agent that has the place by a claim loses it.
    let on = BotRef { platform: route.platform.clone(), bot: route.bot.clone() };
    let places = std::slice::from_ref(&route.discriminator);
    let owner = console.identity.roster.records().place_owner(&on, places).await?;
    if owner.is_some_and(|owner| owner.origin == RouteOrigin::Claim) {
        console.relay.route_removals().remove_route(&on, &route.discriminator).await?;
    }
    match console.identity.accounts.create_route(route.clone(), staleness).await? {
        Created::Made => {
            let about = format!("{}:{} to {}/{}", route.platform, route.bot, tenant.name, instance.name);
            Ok(made(about, shown(route, Some(instance.name), Some(tenant.name), new.staleness)))
        }
        Created::Taken => Err(AdminProblem::conflict(
            "taken",
            format!("{}:{} already has a route for {}", route.platform, route.bot, route.discriminator),
        )),
        Created::Unfit(why) => {
            Err(AdminProblem::unfit("unfit_route", format!("{}:{}: {why}", route.platform, route.bot)))
        }
    }
}

/// Changes what happens to messages of a route that waited too long. Those that wait already keep their policy.
pub(crate) async fn change(
    State(console): State<Console>,
    QueryParams(one): QueryParams<OneRoute>,
    JsonBody(change): JsonBody<RouteChange>,
) -> Result<(Extension<AuditSubject>, Json<ShownRoute>), AdminProblem> {
    let discriminator = discriminator(&one.discriminator)?;
    let policy = change.staleness.as_ref().map(StaleSetting::policy).transpose()?;
    let on = BotRef { platform: one.platform, bot: one.bot };
    let name = format!("{}:{} {discriminator}", on.platform, on.bot);
    let changed = console.identity.stale_policies.set_for_route(&on, &discriminator, policy).await?;
    let roster = console.identity.roster.records();
    let is_it = |route: &Route| {
        route.platform == on.platform && route.bot == on.bot && route.discriminator == discriminator
    };
    let Some(route) = roster.routes().await?.into_iter().find(is_it).filter(|_| changed) else {
        return Err(no_such_route(&on, &discriminator));
    };
    let instance = roster.instance(&route.instance).await?;
    let tenant = match &instance {
        Some(instance) => roster.tenant(instance.tenant.as_str()).await?.map(|tenant| tenant.name),
        None => None,
    };
    let shown = shown(route, instance.map(|instance| instance.name), tenant, change.staleness);
    Ok((Extension(AuditSubject::new(name)), Json(shown)))
}

fn no_such_route(on: &BotRef, which: &Discriminator) -> AdminProblem {
    AdminProblem::absent("no_such_route", format!("{}:{} has no route for {which}", on.platform, on.bot))
}

#[derive(Serialize)]
pub(crate) struct RemovedRoute {
    platform: Platform,
    bot: BotId,
    discriminator: String,
}

pub(crate) async fn remove(
    State(console): State<Console>,
    QueryParams(one): QueryParams<OneRoute>,
) -> Result<Json<RemovedRoute>, AdminProblem> {
    let discriminator = discriminator(&one.discriminator)?;
    let OneRoute { platform, bot, .. } = one;
    if console.is_built_in(&platform) {
        let detail = format!("routes of platform `{platform}` are removed with their agents");
        return Err(AdminProblem::conflict("built_in", detail));
    }
    let on = BotRef { platform: platform.clone(), bot: bot.clone() };
    match console.relay.route_removals().remove_route(&on, &discriminator).await? {
        Removed::Gone => Ok(Json(RemovedRoute { platform, bot, discriminator: discriminator.to_string() })),
        Removed::Absent | Removed::InUse => Err(no_such_route(&on, &discriminator)),
    }
}
