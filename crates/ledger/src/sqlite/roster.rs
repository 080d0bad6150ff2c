mod chats;
mod rows;

use async_trait::async_trait;
use posthouse_wire::{BotId, ChatId, InstanceId, LoginId, Platform, SessionKey, TenantId};
use rusqlite::{OptionalExtension, params};

use chats::{chat_of_session, last_identity, may_reach, move_chat};
use rows::{bot, identity, instance, made, removed, route, route_to, tenant};

use super::{Sqlite, arms, receipts, tokens};
use crate::roster::{
    Bot, Created, Discriminator, Generation, Identity, Instance, Removed, Roster, Route, RouteTo, Tenant,
};
use crate::{Fault, Owner};

const TENANT: &str = "SELECT id, name, created FROM tenants";
const INSTANCE: &str =
    "SELECT id, tenant, name, wake_url, callback_url, generation, idle, created FROM instances";
const BOT: &str = "SELECT platform, id, shared, settings, created FROM bots";

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
        self.write(move |db| {
            let busy: bool = db.query_row(
                "SELECT EXISTS (SELECT 1 FROM instances WHERE tenant = ?1)",
                [id.as_str()],
                |row| row.get(0),
            )?;
            if busy {
                return Ok(Removed::InUse);
            }
            tokens::end(db, &Owner::Tenant(id.clone()))?;
            receipts::fail_tenant(db, &id, now)?;
            db.execute("DELETE FROM tenants WHERE id = ?1", [id.as_str()]).map(removed)
        })
        .await
    }

    async fn create_instance(&self, new: Instance) -> Result<Created, Fault> {
        self.write(move |db| {
            let tenant: bool = db.query_row(
                "SELECT EXISTS (SELECT 1 FROM tenants WHERE id = ?1)",
                [new.tenant.as_str()],
                |row| row.get(0),
            )?;
            if !tenant {
                return Ok(Created::Unfit("no such tenant"));
            }
            db.execute(
                "INSERT INTO instances (id, tenant, name, wake_url, callback_url, generation, idle, created)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING",
                params![
                    new.id.as_str(),
                    new.tenant.as_str(),
                    new.name,
                    new.wake_url,
                    new.callback_url,
                    new.generation.as_str(),
                    new.idle,
                    new.created.millis()
                ],
            )
            .map(made)
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
        let (id, now) = (id.clone(), self.timepiece.now());
        self.write(move |db| {
            tokens::end(db, &Owner::Instance(id.clone()))?;
            arms::cancel_all(db, &id, now)?;
            receipts::expire_instance(db, &id, now)?;
            for of_it in [
                "DELETE FROM gateway_secrets WHERE gateway IN (SELECT id FROM gateways WHERE instance = ?1)",
                "DELETE FROM gateways WHERE instance = ?1",
                "DELETE FROM routes WHERE instance = ?1",
                "DELETE FROM capabilities WHERE id IN (SELECT capability FROM capability_keys WHERE instance = ?1)",
                "DELETE FROM chats WHERE instance = ?1",
                "DELETE FROM sessions WHERE instance = ?1",
                "DELETE FROM talks WHERE instance = ?1",
                "DELETE FROM room_lines WHERE room IN (SELECT id FROM rooms WHERE instance = ?1)",
                "DELETE FROM rooms WHERE instance = ?1",
            ] {
                db.execute(of_it, [id.as_str()])?;
            }
            // What was said goes at once; that something came and was never taken is told for its week.
            for whose in ["fate IS NULL", "fate = 'dead'"] {
                db.execute(
                    &format!(
                        "UPDATE entries SET fate = 'dropped', event = NULL, refs = NULL, ended = ?2, counted = ?2
                         WHERE instance = ?1 AND {whose}"
                    ),
                    params![id.as_str(), now.millis()],
                )?;
            }
            db.execute("DELETE FROM instances WHERE id = ?1", [id.as_str()]).map(removed)
        })
        .await
    }

    async fn set_wake_url(&self, id: &InstanceId, url: Option<&str>) -> Result<(), Fault> {
        let (id, url) = (id.clone(), url.map(str::to_owned));
        self.write(move |db| {
            db.execute("UPDATE instances SET wake_url = ?2 WHERE id = ?1", params![id.as_str(), url])
                .map(drop)
        })
        .await
    }

    async fn set_callback_url(&self, id: &InstanceId, url: Option<&str>) -> Result<(), Fault> {
        let (id, url) = (id.clone(), url.map(str::to_owned));
        self.write(move |db| {
            db.execute("UPDATE instances SET callback_url = ?2 WHERE id = ?1", params![id.as_str(), url])
                .map(drop)
        })
        .await
    }

    async fn set_idle(&self, id: &InstanceId, idle: bool) -> Result<(), Fault> {
        let id = id.clone();
        self.write(move |db| {
            db.prepare_cached("UPDATE instances SET idle = ?2 WHERE id = ?1 AND idle <> ?2")?
                .execute(params![id.as_str(), idle])
                .map(drop)
        })
        .await
    }

    async fn set_generation(&self, id: &InstanceId, generation: Generation) -> Result<(), Fault> {
        let id = id.clone();
        self.write(move |db| {
            db.execute(
                "UPDATE instances SET generation = ?2 WHERE id = ?1",
                params![id.as_str(), generation.as_str()],
            )
            .map(drop)
        })
        .await
    }

    async fn create_bot(&self, new: Bot) -> Result<Created, Fault> {
        self.write(move |db| {
            db.execute(
                "INSERT INTO bots (platform, id, shared, settings, created) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT DO NOTHING",
                params![
                    new.platform.as_str(),
                    new.id.as_str(),
                    new.shared,
                    new.settings,
                    new.created.millis()
                ],
            )
            .map(made)
        })
        .await
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

    async fn set_bot_settings(&self, platform: &Platform, id: &BotId, settings: &str) -> Result<(), Fault> {
        let (platform, id, settings) = (platform.clone(), id.clone(), settings.to_owned());
        self.write(move |db| {
            db.execute(
                "UPDATE bots SET settings = ?3 WHERE platform = ?1 AND id = ?2",
                params![platform.as_str(), id.as_str(), settings],
            )
            .map(drop)
        })
        .await
    }

    async fn remove_bot(&self, platform: &Platform, id: &BotId) -> Result<Removed, Fault> {
        let (platform, id) = (platform.clone(), id.clone());
        self.write(move |db| {
            let key = [platform.as_str(), id.as_str()];
            db.execute("DELETE FROM routes WHERE platform = ?1 AND bot = ?2", key)?;
            db.execute("DELETE FROM credentials WHERE platform = ?1 AND bot = ?2", key)?;
            db.execute("DELETE FROM bots WHERE platform = ?1 AND id = ?2", key).map(removed)
        })
        .await
    }

    async fn create_route(&self, new: Route) -> Result<Created, Fault> {
        self.write(move |db| {
            let shared: Option<bool> = db
                .query_row(
                    "SELECT shared FROM bots WHERE platform = ?1 AND id = ?2",
                    [new.platform.as_str(), new.bot.as_str()],
                    |row| row.get(0),
                )
                .optional()?;
            match (shared, &new.discriminator) {
                (None, _) => return Ok(Created::Unfit("no such bot")),
                (Some(true), Discriminator::Any) => {
                    return Ok(Created::Unfit("a shared bot has no route for everything"));
                }
                (Some(false), Discriminator::Any) | (Some(true), _) => {}
                (Some(false), _) => return Ok(Created::Unfit("an owned bot has one route, for everything")),
            }
            let instance: bool = db.query_row(
                "SELECT EXISTS (SELECT 1 FROM instances WHERE id = ?1)",
                [new.instance.as_str()],
                |row| row.get(0),
            )?;
            if !instance {
                return Ok(Created::Unfit("no such agent"));
            }
            db.execute(
                "INSERT INTO routes (platform, bot, kind, value, instance, created)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
                params![
                    new.platform.as_str(),
                    new.bot.as_str(),
                    new.discriminator.kind(),
                    new.discriminator.value(),
                    new.instance.as_str(),
                    new.created.millis()
                ],
            )
            .map(made)
        })
        .await
    }

    async fn routes(&self) -> Result<Vec<Route>, Fault> {
        self.read(|db| {
            db.prepare_cached(
                "SELECT platform, bot, kind, value, instance, created FROM routes
                 ORDER BY platform, bot, kind, value",
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
        let (platform, bot, which) = (platform.clone(), bot.clone(), which.clone());
        self.write(move |db| {
            db.execute(
                "DELETE FROM routes WHERE platform = ?1 AND bot = ?2 AND kind = ?3 AND value = ?4",
                [platform.as_str(), bot.as_str(), which.kind(), which.value()],
            )
            .map(removed)
        })
        .await
    }

    async fn move_chat(&self, on: &Identity, from: &ChatId, to: &ChatId) -> Result<bool, Fault> {
        let (on, from, to) = (on.clone(), from.clone(), to.clone());
        self.write(move |db| move_chat(db, &on, &from, &to)).await
    }

    async fn route(&self, on: &Identity, candidates: &[Discriminator]) -> Result<Option<RouteTo>, Fault> {
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

    async fn identities(&self, of: &InstanceId) -> Result<Vec<Identity>, Fault> {
        let of = of.clone();
        self.read(move |db| {
            db.prepare_cached(
                "SELECT platform, bot FROM routes WHERE instance = ?1
                 GROUP BY platform, bot ORDER BY min(created), platform, bot",
            )?
            .query_map([of.as_str()], |row| identity(row, 0))?
            .collect()
        })
        .await
    }

    async fn may_reach(&self, from: &InstanceId, on: &Identity, chat: &ChatId) -> Result<bool, Fault> {
        let (from, on, chat) = (from.clone(), on.clone(), chat.clone());
        self.read(move |db| may_reach(db, &from, &on, &chat)).await
    }

    async fn last_identity(&self, of: &InstanceId, chat: &ChatId) -> Result<Option<Identity>, Fault> {
        let (of, chat) = (of.clone(), chat.clone());
        self.read(move |db| last_identity(db, &of, &chat)).await
    }

    async fn chat_of_session(
        &self,
        of: &InstanceId,
        key: &SessionKey,
    ) -> Result<Option<(Identity, ChatId)>, Fault> {
        let (of, key) = (of.clone(), key.clone());
        self.read(move |db| chat_of_session(db, &of, &key)).await
    }
}
