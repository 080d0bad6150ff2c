//! Admin API: creating, showing, changing and removing agents.

mod change;
mod connections;
pub(crate) mod credentials;
mod gateway_settings;
mod issued_credentials;
pub(crate) mod policies;
mod sleep_url;

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Path, State};
use http_kit::Page;
use identity::{AgentSettings, Enrolment, NotEnrolled};
use ledger::{BotRef, Instance, Tenant, Unread};
use posthouse_wire::{BotId, InstanceId, Platform, TenantId};
use serde::{Deserialize, Serialize};

use crate::agents::change::AgentChange;
use crate::agents::connections::ShownConnection;
use crate::agents::credentials::Credential;
use crate::agents::gateway_settings::{ShownGateway, no_such_gateway};
use crate::agents::policies::{ShownPrincipals, ShownRelevance};
use crate::audit::{CreatedResponse, made};
use crate::extract::{JsonBody, PAGE, QueryParams};
use crate::problem::AdminProblem;
use crate::routes::{Console, Parts};
use crate::staleness::StaleSetting;

/// The tenant of a name. Not needed with an id, nor if only one agent has the name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TenantQuery {
    pub tenant: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentsQuery {
    tenant: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewAgent {
    tenant: String,
    name: String,
    #[serde(default)]
    wake_url: Option<String>,
    /// The only URL its cron jobs may call back.
    #[serde(default)]
    callback_url: Option<String>,
    /// `PLATFORM:ID` of owned bots.
    #[serde(default)]
    bots: Vec<String>,
}

#[derive(Serialize)]
pub(crate) struct ShownAgent {
    tenant: String,
    tenant_id: TenantId,
    name: String,
    instance_id: InstanceId,
    connected: bool,
    idle: bool,
    since: Option<String>,
    sockets: usize,
    connections: Vec<ShownConnection>,
    unread: i64,
    unread_bytes: i64,
    bots: Vec<ShownIdentity>,
    gateways: Vec<String>,
    gateway_settings: Vec<ShownGateway>,
    display_name: Option<String>,
    /// The URL that is called: of a gateway that has its own, else of the agent.
    wake_url: Option<String>,
    /// Why a wake URL does not work, if that is known since the start of the server.
    wake_failures: Vec<ShownWakeFailure>,
    stop_url: Option<String>,
    /// Where the agent asks to be stopped. It contains a secret, so only the response that makes it has it.
    sleep_url: Option<String>,
    callback_url: Option<String>,
    generation: &'static str,
    hold_back: &'static str,
    interactions: &'static str,
    relevance: Vec<ShownRelevance>,
    principals: Vec<ShownPrincipals>,
    profile: Option<String>,
    staleness: Option<StaleSetting>,
    /// Settings with which a stock agent hands its cron jobs to this server, by their dotted names.
    cron: serde_json::Value,
    stream_cursor: String,
    created_at: String,
}

#[derive(Serialize)]
pub(crate) struct ShownIdentity {
    platform: Platform,
    id: BotId,
}

/// A wake URL that does not work.
#[derive(Serialize)]
pub(crate) struct ShownWakeFailure {
    /// `refused`: a gateway named a URL that is not called. `not_reached`: the latest call failed.
    what: &'static str,
    reason: String,
    at: String,
}

impl Parts {
    fn wake_failures(&self, of: &InstanceId, wake_url: Option<&str>) -> Vec<ShownWakeFailure> {
        let relay::WakeFailures { refused, not_reached } = self.relay.wake_calls().failures(of, wake_url);
        let shown = |what, failure: Option<relay::WakeFailure>| {
            failure.map(|failure| ShownWakeFailure {
                what,
                reason: failure.reason,
                at: failure.at.to_string(),
            })
        };
        [shown("refused", refused), shown("not_reached", not_reached)].into_iter().flatten().collect()
    }

    /// Finds an agent by id, or by name in a tenant. Without a tenant the name must be unique on the
    /// server.
    pub(crate) async fn agent(
        &self,
        name_or_id: &str,
        tenant: Option<&str>,
    ) -> Result<(Tenant, Instance), AdminProblem> {
        let roster = self.identity.roster.records();
        let absent = || AdminProblem::absent("no_such_agent", format!("there is no agent `{name_or_id}`"));
        let tenant = match tenant {
            Some(tenant) => Some(self.tenant(tenant).await?),
            None => None,
        };
        let found = if name_or_id.starts_with("inst_") {
            roster.instance(&InstanceId::from(name_or_id)).await?
        } else if let Some(tenant) = &tenant {
            roster.instance_named(&tenant.id, name_or_id).await?
        } else {
            let mut named = roster.instances(None).await?;
            named.retain(|instance| instance.name == name_or_id);
            if named.len() > 1 {
                let detail = format!("several tenants have an agent `{name_or_id}`: name the tenant");
                return Err(AdminProblem::conflict("ambiguous", detail));
            }
            named.pop()
        };
        let instance = found.ok_or_else(absent)?;
        match tenant {
            // Another tenant's agent gets the same answer as an absent one.
            Some(tenant) if tenant.id != instance.tenant => Err(absent()),
            Some(tenant) => Ok((tenant, instance)),
            None => Ok((self.tenant(instance.tenant.as_str()).await?, instance)),
        }
    }

    /// The bots whose routes lead to this agent, without the built-in ones.
    pub(crate) async fn real_bots(&self, of: &InstanceId) -> Result<Vec<BotRef>, AdminProblem> {
        let mut bots = self.identity.roster.records().bots_used_by(of).await?;
        bots.retain(|bot| !self.is_built_in(&bot.platform));
        Ok(bots)
    }

    async fn shown_agent(
        &self,
        tenant: String,
        instance: Instance,
        unread: Unread,
    ) -> Result<ShownAgent, AdminProblem> {
        let presence = self.relay.connections().presence(&instance.id);
        let bots = self.real_bots(&instance.id).await?;
        let gateways = self.good_gateways(&instance.id).await?;
        let cron = self.cron(&instance);
        let cursor = self.identity.roster.records().stream_cursor(&instance.id).await?;
        Ok(ShownAgent {
            cron,
            stream_cursor: cursor.unwrap_or_else(|| relay::STOCK_CURSOR.to_owned()),
            tenant,
            tenant_id: instance.tenant,
            name: instance.name,
            connected: presence.connected,
            // A stored value outlives a restart; the value of a connected seat is newer.
            idle: if presence.connected { presence.idle } else { presence.idle || instance.idle },
            since: presence.since.map(|since| since.to_string()),
            sockets: presence.sockets,
            connections: presence.connections.into_iter().map(ShownConnection::from).collect(),
            unread: unread.entries,
            unread_bytes: unread.bytes,
            bots: bots.into_iter().map(ShownIdentity::from).collect(),
            gateway_settings: self.gateway_settings(&instance.id).await?,
            display_name: self.identity.gateways.display_name(&instance.id).await?,
            gateways: gateways.iter().map(ToString::to_string).collect(),
            wake_failures: self.wake_failures(&instance.id, instance.wake_url.as_deref()),
            wake_url: instance.wake_url,
            stop_url: self.identity.sleep_urls.stop_url(&instance.id).await?,
            sleep_url: None,
            callback_url: instance.callback_url,
            generation: instance.generation.as_str(),
            hold_back: self.identity.roster.records().hold_back(&instance.id).await?.as_str(),
            interactions: self.identity.roster.records().interaction_mode(&instance.id).await?.as_str(),
            relevance: self.relevance(&instance.id).await?,
            principals: self.principals(&instance.id).await?,
            profile: self.profile(&instance.id).await?,
            staleness: self
                .identity
                .stale_policies
                .records()
                .agent_staleness(&instance.id)
                .await?
                .map(Into::into),
            created_at: instance.created.to_string(),
            instance_id: instance.id,
        })
    }
}

/// `PLATFORM:ID`.
pub(crate) fn parse_bot_ref(text: &str) -> Result<BotRef, AdminProblem> {
    match text.split_once(':') {
        Some((platform, bot)) if !platform.is_empty() && !bot.is_empty() => {
            Ok(BotRef { platform: platform.into(), bot: bot.into() })
        }
        _ => Err(AdminProblem::unfit("bad_bot", format!("`{text}` is not a bot: use PLATFORM:ID"))),
    }
}

pub(crate) async fn list(
    State(console): State<Console>,
    QueryParams(which): QueryParams<AgentsQuery>,
) -> Result<Json<Page<ShownAgent>>, AdminProblem> {
    let roster = console.identity.roster.records();
    let (names, only) = console.tenant_names(which.tenant.as_deref()).await?;
    let name_of = |tenant: &TenantId| names.get(tenant).cloned().unwrap_or_default();
    let instances = roster.instances(only.as_ref()).await?;
    // Names contain no slash, so keys are unique.
    let key = |instance: &Instance| format!("{}/{}", name_of(&instance.tenant), instance.name);
    let page = Page::of_sorted(instances, key, which.after.as_deref(), PAGE.clamp(which.limit));
    let unread: HashMap<InstanceId, Unread> = console.inbox.backlogs().await?.into_iter().collect();
    let mut items = Vec::with_capacity(page.items.len());
    for instance in page.items {
        let unread = unread.get(&instance.id).copied().unwrap_or_default();
        items.push(console.shown_agent(name_of(&instance.tenant), instance, unread).await?);
    }
    Ok(Json(Page { items, next: page.next }))
}

pub(crate) async fn create(
    State(console): State<Console>,
    JsonBody(new): JsonBody<NewAgent>,
) -> Result<CreatedResponse<Credential>, AdminProblem> {
    let bots = new.bots.iter().map(|bot| parse_bot_ref(bot)).collect::<Result<Vec<_>, _>>()?;
    if let Some(own) = bots.iter().find(|bot| console.is_built_in(&bot.platform)) {
        let detail = format!("every agent already has its own bot on platform `{}`", own.platform);
        return Err(AdminProblem::unfit("bad_bot", detail));
    }
    let wanted = Enrolment {
        tenant: new.tenant,
        name: new.name,
        wake_url: new.wake_url,
        callback_url: new.callback_url,
        bots,
        built_in: console.built_in.clone(),
        with_http_credentials: true,
    };
    let enrolled = console.identity.accounts.enrol(wanted).await?.map_err(not_enrolled)?;
    let credential = Credential::new(
        &console,
        &enrolled.tenant,
        &enrolled.instance,
        &enrolled.gateway,
        &enrolled.secret,
        &enrolled.bots,
    );
    let credential = match &enrolled.http {
        Some(http) => {
            credential.with_issued_credentials(&console, console.issued_credentials(&enrolled.instance, http))
        }
        None => credential,
    };
    Ok(made(format!("{}/{}", enrolled.tenant.name, enrolled.instance.name), credential))
}

fn not_enrolled(refusal: NotEnrolled) -> AdminProblem {
    let detail = refusal.to_string();
    match refusal {
        NotEnrolled::BadName(_) => AdminProblem::unfit("bad_name", detail),
        NotEnrolled::NoTenant(_) => AdminProblem::absent("no_such_tenant", detail),
        NotEnrolled::Taken { .. } => AdminProblem::conflict("taken", detail),
        NotEnrolled::BadWakeUrl(_) => AdminProblem::unfit("bad_wake_url", detail),
        NotEnrolled::BadCallbackUrl(_) => AdminProblem::unfit("bad_callback_url", detail),
        NotEnrolled::BadBot(..) => AdminProblem::unfit("bad_bot", detail),
    }
}

pub(crate) async fn show(
    State(console): State<Console>,
    Path(agent): Path<String>,
    QueryParams(query): QueryParams<TenantQuery>,
) -> Result<Json<ShownAgent>, AdminProblem> {
    let (tenant, instance) = console.agent(&agent, query.tenant.as_deref()).await?;
    let unread = console.inbox.size(&instance.id).await?;
    Ok(Json(console.shown_agent(tenant.name, instance, unread).await?))
}

pub(crate) async fn change(
    State(console): State<Console>,
    Path(agent): Path<String>,
    QueryParams(query): QueryParams<TenantQuery>,
    JsonBody(mut change): JsonBody<AgentChange>,
) -> Result<Json<ShownAgent>, AdminProblem> {
    let (tenant, instance) = console.agent(&agent, query.tenant.as_deref()).await?;
    if let Some(Some(url)) = &change.wake_url {
        console
            .identity
            .accounts
            .check_wake_url(url)
            .map_err(|why| AdminProblem::unfit("bad_wake_url", why))?;
    }
    if let Some(Some(url)) = &change.stop_url {
        console
            .identity
            .accounts
            .check_wake_url(url)
            .map_err(|why| AdminProblem::unfit("bad_stop_url", why))?;
    }
    if let Some(Some(url)) = &change.callback_url {
        console
            .identity
            .accounts
            .check_callback(url)
            .map_err(|why| AdminProblem::unfit("bad_callback_url", why))?;
    }
    let (generation, hold_back) = (change.generation()?, change.hold_back()?);
    console.change_policies(&instance.id, &change).await?;
    if let Some((gateway, change)) = change.take_for_gateway()? {
        console.change_gateway(&instance, &gateway, change).await?;
    }
    if let Some(mode) = change.interactions()? {
        console.relay.seats().set_interactions(&instance.id, mode).await?;
    }
    if let Some(staleness) = &change.staleness {
        let policy = staleness.as_ref().map(StaleSetting::policy).transpose()?;
        console.identity.stale_policies.set_for_agent(&instance.id, policy).await?;
    }
    if let Some(hold_back) = hold_back {
        console.relay.seats().set_hold_back(&instance.id, hold_back).await?;
    }
    if let Some(generation) = generation {
        let gateway = change.gateway_id.as_ref();
        if !console.identity.roster.records().pin_generation(&instance.id, gateway, generation).await? {
            return Err(no_such_gateway(&instance));
        }
    }
    let settings = AgentSettings {
        wake_url: change.wake_url,
        callback_url: change.callback_url,
        stream_cursor: change.stream_cursor,
    };
    let sleep_url = match &change.stop_url {
        Some(url) => console.change_stop_url(&instance.id, url.as_deref()).await?,
        None => None,
    };
    console.identity.accounts.change_agent(&instance.id, settings).await?;
    // Read again, because which wake URL counts depends on the gateways, too.
    let changed = console.identity.roster.records().instance(&instance.id).await?;
    let instance = changed.unwrap_or(instance);
    let unread = console.inbox.size(&instance.id).await?;
    let shown = console.shown_agent(tenant.name, instance, unread).await?;
    Ok(Json(ShownAgent { sleep_url, ..shown }))
}

#[derive(Serialize)]
pub(crate) struct RemovedAgent {
    tenant: String,
    name: String,
    instance_id: InstanceId,
}

pub(crate) async fn remove(
    State(console): State<Console>,
    Path(agent): Path<String>,
    QueryParams(query): QueryParams<TenantQuery>,
) -> Result<Json<RemovedAgent>, AdminProblem> {
    let (tenant, instance) = console.agent(&agent, query.tenant.as_deref()).await?;
    console.identity.accounts.remove_agent(&instance.id).await?;
    Ok(Json(RemovedAgent { tenant: tenant.name, name: instance.name, instance_id: instance.id }))
}
