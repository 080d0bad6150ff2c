//! SQL of gateways that provision themselves.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{GatewayId, InstanceId, Platform, TenantId};
use rusqlite::{Connection, OptionalExtension, params};

use super::{Sqlite, gateway_settings, roster, shared_bots, vault};
use crate::provisioning::{
    AGENTS_BY_PROVISIONING, DraftedSecret, GATEWAYS_BY_PROVISIONING, ProvisionDraft, ProvisionPlan,
    ProvisionRequest, ProvisionResult, Provisioning, WantedAgent, WantedBot,
};
use crate::roster::{AgentCreated, AgentToCreate};
use crate::{BotRef, Fault, Instance, Sealed};

#[async_trait]
impl Provisioning for Sqlite {
    async fn provision_plan(&self, request: ProvisionRequest) -> Result<Option<ProvisionPlan>, Fault> {
        self.read(move |db| plan(db, &request)).await
    }

    async fn may_create_agents(&self, tenant: &TenantId) -> Result<bool, Fault> {
        let tenant = tenant.clone();
        self.read(move |db| may_create_agents(db, &tenant)).await
    }

    async fn set_may_create_agents(&self, tenant: &TenantId, may: bool) -> Result<(), Fault> {
        let tenant = tenant.clone();
        self.write(move |db| {
            db.execute("UPDATE tenants SET creates_agents = ?2 WHERE id = ?1", params![tenant.as_str(), may])
                .map(drop)
        })
        .await
    }

    async fn provision(
        &self,
        request: ProvisionRequest,
        draft: ProvisionDraft,
    ) -> Result<ProvisionResult, Fault> {
        let now = self.timepiece.now();
        self.write(move |db| {
            // Everything that can refuse is in the plan, so that a refusal stores nothing.
            let Some(plan) = plan(db, &request)? else { return Ok(ProvisionResult::Refused) };
            if !is_current(db, &plan, &draft)? {
                return Ok(ProvisionResult::Changed);
            }
            store(db, &request, plan, &draft, now)
        })
        .await
    }
}

/// Whether a draft is for this plan.
fn is_current(db: &Connection, plan: &ProvisionPlan, draft: &ProvisionDraft) -> rusqlite::Result<bool> {
    let secret_fits = match (&plan.kept, &draft.secret) {
        (Some(current), DraftedSecret::Kept(kept)) => current == kept,
        (None, DraftedSecret::New(_)) => true,
        _ => false,
    };
    let gateway_fits = match &plan.gateway {
        Some(gateway) => *gateway == draft.gateway,
        None => !db.query_row(
            "SELECT EXISTS (SELECT 1 FROM gateways WHERE id = ?1)",
            [draft.gateway.as_str()],
            |row| row.get::<_, bool>(0),
        )?,
    };
    Ok(secret_fits && gateway_fits)
}

fn store(
    db: &Connection,
    request: &ProvisionRequest,
    plan: ProvisionPlan,
    draft: &ProvisionDraft,
    now: Moment,
) -> rusqlite::Result<ProvisionResult> {
    let is_new_agent = plan.instance.is_none();
    let instance = match (plan.instance, &draft.secret) {
        (Some(instance), DraftedSecret::Kept(_)) => instance,
        (Some(instance), DraftedSecret::New(secret)) => {
            vault::issue(db, &draft.gateway, &instance, secret, now, draft.overlap_until)?;
            instance
        }
        (None, DraftedSecret::New(secret)) => match create(db, request, draft, secret)? {
            Some(instance) => instance,
            None => return Ok(ProvisionResult::Refused),
        },
        (None, DraftedSecret::Kept(_)) => return Ok(ProvisionResult::Changed),
    };
    if request.name != draft.gateway.as_str() {
        db.execute(
            "INSERT INTO gateway_names (instance, name, gateway) VALUES (?1, ?2, ?3)
             ON CONFLICT (instance, name) DO UPDATE SET gateway = excluded.gateway",
            [instance.as_str(), &request.name, draft.gateway.as_str()],
        )?;
    }
    if let Some(on) = plan.bot.as_ref().filter(|on| on.bot.as_str() != instance.as_str())
        && !roster::uses_bot(db, &instance, on)?
    {
        shared_bots::use_bot(db, &instance, on, now)?;
    }
    if let Some(url) = &draft.wake_url {
        gateway_settings::set_wake_url(db, &draft.gateway, Some(url))?;
    }
    if let Some(name) = &draft.display_name {
        db.execute("UPDATE instances SET display_name = ?2 WHERE id = ?1", params![instance.as_str(), name])?;
    }
    Ok(ProvisionResult::Stored { instance, is_new_agent, bot: plan.bot })
}

/// Creates the agent with its first gateway. `None` when there is no such tenant.
fn create(
    db: &Connection,
    request: &ProvisionRequest,
    draft: &ProvisionDraft,
    secret: &Sealed,
) -> rusqlite::Result<Option<InstanceId>> {
    let name = match &request.agent {
        WantedAgent::Named(name) => Some(name.clone()),
        WantedAgent::OfGateway(name) => free_name(db, request, name)?,
        WantedAgent::ById(_) => None,
    };
    let Some(name) = name else { return Ok(None) };
    let instance = Instance { name, tenant: request.tenant.clone(), ..draft.new_agent.clone() };
    let id = instance.id.clone();
    let created = roster::create_agent(
        db,
        &AgentToCreate {
            instance,
            bots: Vec::new(),
            built_in: draft.built_in.clone(),
            gateway: draft.gateway.clone(),
            secret: secret.clone(),
            http: None,
        },
    )?;
    if created != AgentCreated::Made {
        return Ok(None);
    }
    if let WantedAgent::OfGateway(_) = request.agent {
        db.execute(
            "INSERT INTO provisioned_names (tenant, name, instance) VALUES (?1, ?2, ?3)",
            [request.tenant.as_str(), &request.name, id.as_str()],
        )?;
    }
    Ok(Some(id))
}

/// The name, or the name with the first number that makes it free.
fn free_name(db: &Connection, request: &ProvisionRequest, name: &str) -> rusqlite::Result<Option<String>> {
    let mut is_taken =
        db.prepare_cached("SELECT EXISTS (SELECT 1 FROM instances WHERE tenant = ?1 AND name = ?2)")?;
    for number in 1..=AGENTS_BY_PROVISIONING + 1 {
        let candidate = if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
        if !is_taken.query_row([request.tenant.as_str(), &candidate], |row| row.get::<_, bool>(0))? {
            return Ok(Some(candidate));
        }
    }
    Ok(None)
}

fn plan(db: &Connection, request: &ProvisionRequest) -> rusqlite::Result<Option<ProvisionPlan>> {
    let AgentMatch::Agent(instance) = agent(db, request)? else { return Ok(None) };
    let mut plan = ProvisionPlan { instance, gateway: None, kept: None, bot: None };
    match &plan.instance {
        Some(instance) => match gateway(db, instance, &request.name)? {
            // A revoked gateway does not come back by asking again.
            Some((_, true)) => return Ok(None),
            Some((gateway, false)) => {
                plan.kept = young_secret(db, &gateway, request)?;
                plan.gateway = Some(gateway);
            }
            None if has_too_many_gateways(db, instance)? => return Ok(None),
            None => {}
        },
        None if !may_create_agents(db, &request.tenant)? || has_too_many_agents(db, request)? => {
            return Ok(None);
        }
        None => {}
    }
    let Some(bot) = bot(db, request, &plan)? else { return Ok(None) };
    plan.bot = bot;
    Ok(Some(plan))
}

/// The agent of a request.
enum AgentMatch {
    /// `None`: it is to be created.
    Agent(Option<InstanceId>),
    Refused,
}

fn agent(db: &Connection, request: &ProvisionRequest) -> rusqlite::Result<AgentMatch> {
    let tenant = request.tenant.as_str();
    let one = |sql: &str, key: &str| {
        db.prepare_cached(sql)?
            .query_row([tenant, key], |row| row.get::<_, String>(0).map(InstanceId::from))
            .optional()
    };
    match &request.agent {
        WantedAgent::ById(id) => {
            let found = one("SELECT id FROM instances WHERE tenant = ?1 AND id = ?2", id.as_str())?;
            Ok(found.map_or(AgentMatch::Refused, |id| AgentMatch::Agent(Some(id))))
        }
        WantedAgent::Named(name) => {
            one("SELECT id FROM instances WHERE tenant = ?1 AND name = ?2", name).map(AgentMatch::Agent)
        }
        WantedAgent::OfGateway(_) => {
            // A gateway may also propose the id that it got before.
            let by_id = one(
                "SELECT instances.id FROM gateways JOIN instances ON instances.id = gateways.instance
                 WHERE instances.tenant = ?1 AND gateways.id = ?2",
                &request.name,
            )?;
            match by_id {
                Some(id) => Ok(AgentMatch::Agent(Some(id))),
                None => one(
                    "SELECT instance FROM provisioned_names WHERE tenant = ?1 AND name = ?2",
                    &request.name,
                )
                .map(AgentMatch::Agent),
            }
        }
    }
}

/// The gateway of an agent with this name or id, and whether it is revoked.
fn gateway(db: &Connection, of: &InstanceId, name: &str) -> rusqlite::Result<Option<(GatewayId, bool)>> {
    db.prepare_cached(
        "SELECT id, revoked IS NOT NULL FROM gateways WHERE instance = ?1 AND id IN
           (SELECT ?2 UNION ALL SELECT gateway FROM gateway_names WHERE instance = ?1 AND name = ?2)
         ORDER BY id = ?2 DESC LIMIT 1",
    )?
    .query_row([of.as_str(), name], |row| Ok((row.get::<_, String>(0)?.into(), row.get(1)?)))
    .optional()
}

/// The current secret of a gateway, if it was made a short time ago.
fn young_secret(
    db: &Connection,
    of: &GatewayId,
    request: &ProvisionRequest,
) -> rusqlite::Result<Option<Sealed>> {
    let reuse = i64::try_from(request.reuse.as_millis()).unwrap_or(i64::MAX);
    db.prepare_cached(
        "SELECT key_id, blob FROM gateway_secrets
         WHERE gateway = ?1 AND expires IS NULL AND ledger_time() - made < ?2 ORDER BY id DESC LIMIT 1",
    )?
    .query_row(params![of.as_str(), reuse], |row| Ok(Sealed { key_id: row.get(0)?, blob: row.get(1)? }))
    .optional()
}

fn has_too_many_gateways(db: &Connection, of: &InstanceId) -> rusqlite::Result<bool> {
    db.query_row(
        "SELECT count(*) >= ?2 FROM gateways WHERE instance = ?1 AND revoked IS NULL",
        params![of.as_str(), GATEWAYS_BY_PROVISIONING],
        |row| row.get(0),
    )
}

fn may_create_agents(db: &Connection, tenant: &TenantId) -> rusqlite::Result<bool> {
    let may = db
        .prepare_cached("SELECT creates_agents FROM tenants WHERE id = ?1")?
        .query_row([tenant.as_str()], |row| row.get(0))
        .optional()?;
    Ok(may.unwrap_or(false))
}

fn has_too_many_agents(db: &Connection, request: &ProvisionRequest) -> rusqlite::Result<bool> {
    db.query_row(
        "SELECT count(*) >= ?2 FROM instances WHERE tenant = ?1",
        params![request.tenant.as_str(), AGENTS_BY_PROVISIONING],
        |row| row.get(0),
    )
}

/// The bot that the gateway gets, if it may have it. The outer `None` refuses the request.
fn bot(
    db: &Connection,
    request: &ProvisionRequest,
    plan: &ProvisionPlan,
) -> rusqlite::Result<Option<Option<BotRef>>> {
    let (platform, wanted) = match &request.bot {
        WantedBot::None => return Ok(Some(None)),
        WantedBot::Named(on) => (&on.platform, Some(on)),
        WantedBot::Only(platform) => (platform, None),
    };
    let mut own = match &plan.instance {
        Some(instance) => bots_of(db, instance, platform)?,
        None => Vec::new(),
    };
    let mut possible = shared_bots::bots_for(db, &request.tenant, platform)?;
    // The operator may have limited the gateway.
    let limit = match &plan.gateway {
        Some(gateway) => gateway_settings::bots(db, gateway)?,
        None => Vec::new(),
    };
    if !limit.is_empty() {
        own.retain(|on| limit.contains(on));
        possible.retain(|on| limit.contains(on));
    }
    Ok(match wanted {
        Some(on) => (own.contains(on) || possible.contains(on)).then(|| Some(on.clone())),
        None => match (&own[..], &possible[..]) {
            ([on], _) | ([], [on]) => Some(Some(on.clone())),
            _ => None,
        },
    })
}

/// The bots of a platform that an agent uses.
fn bots_of(db: &Connection, of: &InstanceId, platform: &Platform) -> rusqlite::Result<Vec<BotRef>> {
    db.prepare_cached(
        "SELECT bot FROM routes INDEXED BY routes_instance WHERE instance = ?1 AND platform = ?2
         UNION SELECT bot FROM fronts WHERE instance = ?1 AND platform = ?2",
    )?
    .query_map([of.as_str(), platform.as_str()], |row| {
        Ok(BotRef { platform: platform.clone(), bot: row.get::<_, String>(0)?.into() })
    })?
    .collect()
}
