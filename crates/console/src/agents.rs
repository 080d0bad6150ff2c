//! Agents: made, shown, changed, removed.

pub(crate) mod credentials;
mod papers;

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Path, State};
use ledger::{Identity, Instance, Tenant, Unread};
use posthouse_wire::{BotId, InstanceId, Platform, TenantId};
use relay::{Enrolment, NotEnrolled};
use serde::{Deserialize, Deserializer, Serialize};

use crate::agents::credentials::Credential;
use crate::audit::{Made, made};
use crate::listing::Items;
use crate::problem::Problem;
use crate::routes::{Console, Parts};
use crate::told::{Asked, Told};

/// Which tenant a name is meant in. Not needed with an id, nor while only one agent has the name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Inside {
    pub tenant: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Which {
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
    /// Where alone it may ask to be called back.
    #[serde(default)]
    callback_url: Option<String>,
    /// `PLATFORM:ID` of owned bots.
    #[serde(default)]
    bots: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    /// Null takes it away; absent leaves it.
    #[serde(default, deserialize_with = "said")]
    wake_url: Option<Option<String>>,
    /// Likewise.
    #[serde(default, deserialize_with = "said")]
    callback_url: Option<Option<String>>,
}

fn said<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(from).map(Some)
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
    unread: i64,
    unread_bytes: i64,
    bots: Vec<ShownIdentity>,
    gateways: Vec<String>,
    wake_url: Option<String>,
    callback_url: Option<String>,
    generation: &'static str,
    created_at: String,
}

#[derive(Serialize)]
struct ShownIdentity {
    platform: Platform,
    id: BotId,
}

impl Parts {
    /// By id, or by name inside a tenant. Without a tenant a name must be the only one of its kind.
    pub(crate) async fn agent(
        &self,
        name_or_id: &str,
        tenant: Option<&str>,
    ) -> Result<(Tenant, Instance), Problem> {
        let roster = self.relay.roster();
        let absent = || Problem::absent("no_such_agent", format!("there is no agent `{name_or_id}`"));
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
                let detail = format!("several tenants have an agent `{name_or_id}`: say which tenant");
                return Err(Problem::conflict("ambiguous", detail));
            }
            named.pop()
        };
        let instance = found.ok_or_else(absent)?;
        match tenant {
            // A refusal looks the same as absence.
            Some(tenant) if tenant.id != instance.tenant => Err(absent()),
            Some(tenant) => Ok((tenant, instance)),
            None => Ok((self.tenant(instance.tenant.as_str()).await?, instance)),
        }
    }

    /// The bots that routes lead from to this agent, without the house's own.
    pub(crate) async fn real_bots(&self, of: &InstanceId) -> Result<Vec<Identity>, Problem> {
        let mut bots = self.relay.roster().identities(of).await?;
        bots.retain(|identity| !self.is_built_in(&identity.platform));
        Ok(bots)
    }

    async fn shown_agent(
        &self,
        tenant: String,
        instance: Instance,
        unread: Unread,
    ) -> Result<ShownAgent, Problem> {
        let presence = self.relay.presence(&instance.id);
        let bots = self.real_bots(&instance.id).await?;
        let gateways = self.good_gateways(&instance.id).await?;
        Ok(ShownAgent {
            tenant,
            tenant_id: instance.tenant,
            name: instance.name,
            connected: presence.connected,
            // What the ledger remembers outlives a restart; what the seat says is newer.
            idle: if presence.connected { presence.idle } else { presence.idle || instance.idle },
            since: presence.since.map(|since| since.to_string()),
            sockets: presence.sockets,
            unread: unread.entries,
            unread_bytes: unread.bytes,
            bots: bots
                .into_iter()
                .map(|Identity { platform, bot }| ShownIdentity { platform, id: bot })
                .collect(),
            gateways: gateways.iter().map(ToString::to_string).collect(),
            wake_url: instance.wake_url,
            callback_url: instance.callback_url,
            generation: instance.generation.as_str(),
            created_at: instance.created.to_string(),
            instance_id: instance.id,
        })
    }
}

/// `PLATFORM:ID`.
pub(crate) fn identity(text: &str) -> Result<Identity, Problem> {
    match text.split_once(':') {
        Some((platform, bot)) if !platform.is_empty() && !bot.is_empty() => {
            Ok(Identity { platform: platform.into(), bot: bot.into() })
        }
        _ => Err(Problem::unfit("bad_bot", format!("`{text}` is no bot: write PLATFORM:ID"))),
    }
}

pub(crate) async fn list(
    State(console): State<Console>,
    Asked(which): Asked<Which>,
) -> Result<Json<Items<ShownAgent>>, Problem> {
    let roster = console.relay.roster();
    let (names, only) = console.tenant_names(which.tenant.as_deref()).await?;
    let name_of = |tenant: &TenantId| names.get(tenant).cloned().unwrap_or_default();
    let instances = roster.instances(only.as_ref()).await?;
    // A slash stands in no name, so no two agents share a key.
    let key = |instance: &Instance| format!("{}/{}", name_of(&instance.tenant), instance.name);
    let page = Items::page(instances, key, which.after.as_deref(), which.limit);
    let unread: HashMap<InstanceId, Unread> = console.relay.inbox().backlogs().await?.into_iter().collect();
    let mut items = Vec::with_capacity(page.items.len());
    for instance in page.items {
        let unread = unread.get(&instance.id).copied().unwrap_or_default();
        items.push(console.shown_agent(name_of(&instance.tenant), instance, unread).await?);
    }
    Ok(Json(Items { items, next: page.next }))
}

pub(crate) async fn create(
    State(console): State<Console>,
    Told(new): Told<NewAgent>,
) -> Result<Made<Credential>, Problem> {
    let bots = new.bots.iter().map(|bot| identity(bot)).collect::<Result<Vec<_>, _>>()?;
    if let Some(own) = bots.iter().find(|bot| console.is_built_in(&bot.platform)) {
        let detail = format!("every agent has its own place on `{}` from the start", own.platform);
        return Err(Problem::unfit("bad_bot", detail));
    }
    let wanted = Enrolment {
        tenant: new.tenant,
        name: new.name,
        wake_url: new.wake_url,
        callback_url: new.callback_url,
        bots,
        built_in: console.built_in.clone(),
    };
    let enrolled = console.relay.enrol(wanted).await?.map_err(not_enrolled)?;
    let credential = Credential::new(
        &console,
        &enrolled.tenant,
        &enrolled.instance,
        &enrolled.gateway,
        &enrolled.secret,
        &enrolled.bots,
    );
    match console.papers(&enrolled.instance).await {
        Ok(Some(papers)) => {
            let about = format!("{}/{}", enrolled.tenant.name, enrolled.instance.name);
            Ok(made(about, credential.with_papers(&console, papers)))
        }
        Ok(None) => Err(Problem::absent("no_such_agent", "it was removed as soon as it was made".to_owned())),
        Err(problem) => {
            // Half an agent whose secrets nobody saw would only stand in the way of the next try.
            console.relay.remove_agent(&enrolled.instance.id).await?;
            Err(problem)
        }
    }
}

fn not_enrolled(refusal: NotEnrolled) -> Problem {
    let detail = refusal.to_string();
    match refusal {
        NotEnrolled::BadName(_) => Problem::unfit("bad_name", detail),
        NotEnrolled::NoTenant(_) => Problem::absent("no_such_tenant", detail),
        NotEnrolled::Taken { .. } => Problem::conflict("taken", detail),
        NotEnrolled::BadWakeUrl(_) => Problem::unfit("bad_wake_url", detail),
        NotEnrolled::BadCallbackUrl(_) => Problem::unfit("bad_callback_url", detail),
        NotEnrolled::BadBot(..) => Problem::unfit("bad_bot", detail),
    }
}

pub(crate) async fn show(
    State(console): State<Console>,
    Path(agent): Path<String>,
    Asked(inside): Asked<Inside>,
) -> Result<Json<ShownAgent>, Problem> {
    let (tenant, instance) = console.agent(&agent, inside.tenant.as_deref()).await?;
    let unread = console.relay.inbox().size(&instance.id).await?;
    Ok(Json(console.shown_agent(tenant.name, instance, unread).await?))
}

pub(crate) async fn change(
    State(console): State<Console>,
    Path(agent): Path<String>,
    Asked(inside): Asked<Inside>,
    Told(change): Told<Change>,
) -> Result<Json<ShownAgent>, Problem> {
    let (tenant, mut instance) = console.agent(&agent, inside.tenant.as_deref()).await?;
    if let Some(Some(url)) = &change.wake_url {
        (console.wake_url)(url).map_err(|why| Problem::unfit("bad_wake_url", why))?;
    }
    if let Some(Some(url)) = &change.callback_url {
        console.relay.check_callback(url).map_err(|why| Problem::unfit("bad_callback_url", why))?;
    }
    if let Some(wake_url) = change.wake_url {
        console.relay.roster().set_wake_url(&instance.id, wake_url.as_deref()).await?;
        console.relay.roster_changed();
        instance.wake_url = wake_url;
    }
    if let Some(callback_url) = change.callback_url {
        console.relay.roster().set_callback_url(&instance.id, callback_url.as_deref()).await?;
        console.relay.roster_changed();
        instance.callback_url = callback_url;
    }
    let unread = console.relay.inbox().size(&instance.id).await?;
    Ok(Json(console.shown_agent(tenant.name, instance, unread).await?))
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
    Asked(inside): Asked<Inside>,
) -> Result<Json<RemovedAgent>, Problem> {
    let (tenant, instance) = console.agent(&agent, inside.tenant.as_deref()).await?;
    console.relay.remove_agent(&instance.id).await?;
    Ok(Json(RemovedAgent { tenant: tenant.name, name: instance.name, instance_id: instance.id }))
}
