//! SQL of the directory: tenants, agents, bots and routes.

mod agent_settings;
mod chats;
mod create;
mod deprovision;
mod removal;
mod rows;
mod unrouting;

use async_trait::async_trait;
use posthouse_wire::{BotId, ChatId, GatewayId, InstanceId, LoginId, Platform, SessionKey, TenantId};
use rusqlite::{OptionalExtension, params};

use agent_settings::AgentSetting;
use chats::{chat_of_session, knows_chat, last_identity, may_reach, move_chat};
pub(super) use chats::{owner_of, uses_bot};
pub(super) use create::{agent as create_agent, why_no_route};
pub(super) use deprovision::deprovision;
use rows::{bot, bot_ref, instance, made, place_owner, route, route_to, tenant};
pub(super) use unrouting::{end_of_author, end_unrouted, remove_route};

use super::{Sqlite, access, staleness, vault};
use crate::roster::{
    AgentCreated, AgentToCreate, Bot, BotRef, Created, Discriminator, Generation, HoldBack, Instance,
    PlaceOwner, Removed, Roster, Route, RouteTo, Tenant,
};
use crate::{Fault, Sealed, StalePolicy};

const TENANT: &str = "SELECT id, name, created FROM tenants";
/// The wake URL is that of a gateway, if one has its own: of several, the one that was set last.
const INSTANCE: &str = "SELECT id, tenant, name,
        coalesce((SELECT gateways.wake_url FROM gateways
                  WHERE gateways.instance = instances.id AND gateways.wake_url IS NOT NULL AND revoked IS NULL
                  ORDER BY wake_url_set DESC, gateways.id DESC LIMIT 1), wake_url),
        callback_url, generation, idle, created FROM instances";
const BOT: &str = "SELECT platform, id, shared, settings, created, principals FROM bots";

#[async_trait]
impl Roster for Sqlite {
    async fn create_tenant(&self, new: Tenant) -> Result<Created, Fault> {
        self.write(move |db| {
            db.execute(
                "INSERT INTO tenants (id, name, created) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
                params![new.id.as_str(), new.name, new.created.millis()],
            )
            .map(made)
        })
        .await
    }

    async fn tenants(&self) -> Result<Vec<Tenant>, Fault> {
        self.read(|db| {
            db.prepare_cached(&format!("{TENANT} ORDER BY name"))?.query_map([], tenant)?.collect()
        })
        .await
    }

    async fn tenant(&self, name_or_id: &str) -> Result<Option<Tenant>, Fault> {
        let wanted = name_or_id.to_owned();
        self.read(move |db| {
            db.prepare_cached(&format!("{TENANT} WHERE name = ?1 OR id = ?1"))?
                .query_row([&wanted], tenant)
                .optional()
        })
        .await
    }

    async fn remove_tenant(&self, id: &TenantId) -> Result<Removed, Fault> {
        let (id, now) = (id.clone(), self.timepiece.now());
        self.write(move |db| removal::remove_tenant(db, &id, now)).await
    }

    async fn create_agent(&self, agent: AgentToCreate) -> Result<AgentCreated, Fault> {
        self.write(move |db| create::agent(db, &agent)).await
    }

    async fn create_instance(&self, new: Instance) -> Result<Created, Fault> {
        self.write(move |db| match create::is_tenant(db, &new.tenant)? {
            true => create::instance(db, &new),
            false => Ok(Created::Unfit("no such tenant")),
        })
        .await
    }

    async fn instances(&self, of: Option<&TenantId>) -> Result<Vec<Instance>, Fault> {
        let of = of.cloned();
        self.read(move |db| match &of {
            Some(of) => db
                .prepare_cached(&format!("{INSTANCE} WHERE tenant = ?1 ORDER BY name"))?
                .query_map([of.as_str()], instance)?
                .collect(),
            None => db
                .prepare_cached(&format!("{INSTANCE} ORDER BY tenant, name"))?
                .query_map([], instance)?
                .collect(),
        })
        .await
    }

    async fn instance(&self, id: &InstanceId) -> Result<Option<Instance>, Fault> {
        let id = id.clone();
        self.read(move |db| {
            db.prepare_cached(&format!("{INSTANCE} WHERE id = ?1"))?
                .query_row([id.as_str()], instance)
                .optional()
        })
        .await
    }

    async fn instance_named(&self, tenant: &TenantId, name: &str) -> Result<Option<Instance>, Fault> {
        let (tenant, name) = (tenant.clone(), name.to_owned());
        self.read(move |db| {
            db.prepare_cached(&format!("{INSTANCE} WHERE tenant = ?1 AND name = ?2"))?
                .query_row([tenant.as_str(), &name], instance)
                .optional()
        })
        .await
    }

    async fn instance_of_login(&self, tenant: &TenantId, login: &LoginId) -> Result<Option<Instance>, Fault> {
        let (tenant, login) = (tenant.clone(), login.clone());
        self.read(move |db| {
            db.prepare_cached(&format!("{INSTANCE} WHERE bootstrap = ?1 AND tenant = ?2"))?
                .query_row([login.as_str(), tenant.as_str()], instance)
                .optional()
        })
        .await
    }

    async fn remove_instance(&self, id: &InstanceId) -> Result<Removed, Fault> {
        // In turn with the tenant's other writes: whatever was to be appended before the removal ends with it.
        let owner = self.tenant_of(id);
        let (id, now) = (id.clone(), self.timepiece.now());
        self.write_for(owner, move |db| removal::remove_instance(db, &id, now)).await
    }

    async fn set_wake_url(&self, id: &InstanceId, url: Option<&str>) -> Result<(), Fault> {
        let (id, url) = (id.clone(), url.map(str::to_owned));
        self.write(move |db| agent_settings::set(db, &id, AgentSetting::WakeUrl, url.as_deref())).await
    }

    async fn set_callback_url(&self, id: &InstanceId, url: Option<&str>) -> Result<(), Fault> {
        let (id, url) = (id.clone(), url.map(str::to_owned));
        self.write(move |db| agent_settings::set(db, &id, AgentSetting::CallbackUrl, url.as_deref())).await
    }

    async fn set_idle(&self, id: &InstanceId, idle: bool) -> Result<(), Fault> {
        let id = id.clone();
        self.write(move |db| agent_settings::set_idle(db, &id, idle)).await
    }

    async fn pin_generation(
        &self,
        id: &InstanceId,
        gateway: Option<&GatewayId>,
        generation: Generation,
    ) -> Result<bool, Fault> {
        let (id, gateway) = (id.clone(), gateway.cloned());
        self.write(move |db| agent_settings::pin_generation(db, &id, gateway.as_ref(), generation)).await
    }

    async fn pinned_generation(&self, id: &InstanceId, gateway: &GatewayId) -> Result<Generation, Fault> {
        let (id, gateway) = (id.clone(), gateway.clone());
        self.read(move |db| agent_settings::pinned_generation(db, &id, &gateway)).await
    }

    async fn set_hold_back(&self, id: &InstanceId, hold_back: HoldBack) -> Result<(), Fault> {
        let id = id.clone();
        self.write(move |db| agent_settings::set(db, &id, AgentSetting::HoldBack, Some(hold_back.as_str())))
            .await
    }

    async fn hold_back(&self, id: &InstanceId) -> Result<HoldBack, Fault> {
        let id = id.clone();
        let set = self.read(move |db| agent_settings::get(db, &id, AgentSetting::HoldBack)).await?;
        Ok(set.and_then(|set| set.parse().ok()).unwrap_or_default())
    }

    async fn stream_cursor(&self, id: &InstanceId) -> Result<Option<String>, Fault> {
        let id = id.clone();
        self.read(move |db| agent_settings::get(db, &id, AgentSetting::StreamCursor)).await
    }

    async fn set_stream_cursor(&self, id: &InstanceId, cursor: Option<&str>) -> Result<(), Fault> {
        let (id, cursor) = (id.clone(), cursor.map(str::to_owned));
        self.write(move |db| agent_settings::set(db, &id, AgentSetting::StreamCursor, cursor.as_deref()))
            .await
    }

    async fn change_bot_settings(&self, on: &BotRef, changed: &str) -> Result<bool, Fault> {
        let (on, changed) = (on.clone(), changed.to_owned());
        self.write(move |db| {
            db.execute(
                "UPDATE bots SET settings = json_patch(settings, ?3) WHERE platform = ?1 AND id = ?2",
                [on.platform.as_str(), on.bot.as_str(), &changed],
            )
            .map(|rows| rows > 0)
        })
        .await
    }

    async fn create_bot_with_secrets(
        &self,
        new: Bot,
        secrets: Vec<(String, Sealed)>,
    ) -> Result<Created, Fault> {
        self.write(move |db| {
            let created = create::bot(db, &new)?;
            if created == Created::Made {
                for (name, sealed) in &secrets {
                    vault::put_credential(db, &new.platform, &new.id, name, sealed)?;
                }
            }
            Ok(created)
        })
        .await
    }

    async fn create_bot(&self, new: Bot) -> Result<Created, Fault> {
        self.write(move |db| create::bot(db, &new)).await
    }

    async fn bots(&self) -> Result<Vec<Bot>, Fault> {
        self.read(|db| {
            db.prepare_cached(&format!("{BOT} ORDER BY platform, id"))?.query_map([], bot)?.collect()
        })
        .await
    }

    async fn bot(&self, platform: &Platform, id: &BotId) -> Result<Option<Bot>, Fault> {
        let (platform, id) = (platform.clone(), id.clone());
        self.read(move |db| {
            db.prepare_cached(&format!("{BOT} WHERE platform = ?1 AND id = ?2"))?
                .query_row([platform.as_str(), id.as_str()], bot)
                .optional()
        })
        .await
    }

    async fn remove_bot(&self, platform: &Platform, id: &BotId) -> Result<Removed, Fault> {
        let on = BotRef { platform: platform.clone(), bot: id.clone() };
        let now = self.timepiece.now();
        self.write(move |db| removal::remove_bot(db, &on, now)).await
    }

    async fn create_route(&self, new: Route) -> Result<Created, Fault> {
        self.write(move |db| create::route(db, &new)).await
    }

    async fn create_route_with_policy(&self, new: Route, policy: StalePolicy) -> Result<Created, Fault> {
        self.write(move |db| {
            let created = create::route(db, &new)?;
            if created == Created::Made {
                let on = BotRef { platform: new.platform.clone(), bot: new.bot.clone() };
                staleness::set_for_route(db, &on, &new.discriminator, Some(policy))?;
            }
            Ok(created)
        })
        .await
    }

    async fn routes(&self) -> Result<Vec<Route>, Fault> {
        self.read(|db| {
            db.prepare_cached(
                "SELECT platform, bot, kind, value, instance, created, profile FROM routes
                 WHERE origin = 'operator' ORDER BY platform, bot, kind, value",
            )?
            .query_map([], route)?
            .collect()
        })
        .await
    }

    async fn remove_route(
        &self,
        platform: &Platform,
        bot: &BotId,
        which: &Discriminator,
    ) -> Result<Removed, Fault> {
        let on = BotRef { platform: platform.clone(), bot: bot.clone() };
        let (which, now) = (which.clone(), self.timepiece.now());
        self.write(move |db| unrouting::remove_route(db, &on, &which, now)).await
    }

    async fn end_unrouted(&self, on: &BotRef, instance: &InstanceId) -> Result<bool, Fault> {
        let (on, instance, now) = (on.clone(), instance.clone(), self.timepiece.now());
        self.write(move |db| unrouting::end_unrouted(db, &on, &instance, now)).await
    }

    async fn move_chat(&self, on: &BotRef, from: &ChatId, to: &ChatId) -> Result<bool, Fault> {
        let (on, from, to) = (on.clone(), from.clone(), to.clone());
        self.write(move |db| {
            if from == to {
                return Ok(false);
            }
            let decided = access::move_chat(db, &on, &from, &to)?;
            Ok(move_chat(db, &on, &from, &to)? || decided)
        })
        .await
    }

    async fn route(&self, on: &BotRef, candidates: &[Discriminator]) -> Result<Option<RouteTo>, Fault> {
        let (on, candidates) = (on.clone(), candidates.to_vec());
        self.read(move |db| {
            for candidate in &candidates {
                if let Some(found) = route_to(db, &on, candidate)? {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        })
        .await
    }

    async fn place_owner(
        &self,
        on: &BotRef,
        candidates: &[Discriminator],
    ) -> Result<Option<PlaceOwner>, Fault> {
        let (on, candidates) = (on.clone(), candidates.to_vec());
        self.read(move |db| {
            for candidate in &candidates {
                if let Some(found) = place_owner(db, &on, candidate)? {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        })
        .await
    }

    async fn bots_used_by(&self, of: &InstanceId) -> Result<Vec<BotRef>, Fault> {
        let of = of.clone();
        self.read(move |db| {
            db.prepare_cached(
                "SELECT platform, bot FROM
                   (SELECT platform, bot, created FROM routes WHERE instance = ?1
                    UNION ALL SELECT platform, bot, created FROM fronts WHERE instance = ?1)
                 GROUP BY platform, bot ORDER BY min(created), platform, bot",
            )?
            .query_map([of.as_str()], |row| bot_ref(row, 0))?
            .collect()
        })
        .await
    }

    async fn may_reach(&self, from: &InstanceId, on: &BotRef, chat: &ChatId) -> Result<bool, Fault> {
        let (from, on, chat) = (from.clone(), on.clone(), chat.clone());
        self.read(move |db| may_reach(db, &from, &on, &chat)).await
    }

    async fn has_route(&self, to: &InstanceId, on: &BotRef) -> Result<bool, Fault> {
        let (to, on) = (to.clone(), on.clone());
        self.read(move |db| uses_bot(db, &to, &on)).await
    }

    async fn knows_chat(&self, of: &InstanceId, on: &BotRef, chat: &ChatId) -> Result<bool, Fault> {
        let (of, on, chat) = (of.clone(), on.clone(), chat.clone());
        self.read(move |db| knows_chat(db, &of, &on, &chat)).await
    }

    async fn last_identity(&self, of: &InstanceId, chat: &ChatId) -> Result<Option<BotRef>, Fault> {
        let (of, chat) = (of.clone(), chat.clone());
        self.read(move |db| last_identity(db, &of, &chat)).await
    }

    async fn chat_of_session(
        &self,
        of: &InstanceId,
        key: &SessionKey,
    ) -> Result<Option<(BotRef, ChatId)>, Fault> {
        let (of, key) = (of.clone(), key.clone());
        self.read(move |db| chat_of_session(db, &of, &key)).await
    }
}
