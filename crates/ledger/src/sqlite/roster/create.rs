//! Creation of agents, bots and routes. Everything that can refuse a creation is checked before anything is
//! written, so a refusal changes nothing. A fault rolls back the whole transaction.

use posthouse_wire::{InstanceId, TenantId};
use rusqlite::{Connection, OptionalExtension, params};

use super::rows::made;
use super::vault;
use crate::roster::{
    AgentCreated, AgentToCreate, Bot, BotRef, Created, Discriminator, HttpCredentials, Instance, Route,
};
use crate::sqlite::tokens;
use crate::{Owner, PrincipalPolicy};

/// Creates an agent with its gateway, bots, routes, client and login.
pub(in crate::sqlite) fn agent(db: &Connection, new: &AgentToCreate) -> rusqlite::Result<AgentCreated> {
    if !is_tenant(db, &new.instance.tenant)? {
        return Ok(AgentCreated::NoTenant);
    }
    for bot_ref in &new.bots {
        if let Some(why) = why_not_owned(db, bot_ref)? {
            return Ok(AgentCreated::UnfitBot(bot_ref.clone(), why));
        }
    }
    if instance(db, &new.instance)? != Created::Made {
        return Ok(AgentCreated::Taken);
    }
    let (id, created) = (&new.instance.id, new.instance.created);
    let own_bots =
        new.built_in.iter().map(|platform| BotRef { platform: platform.clone(), bot: id.as_str().into() });
    for bot_ref in own_bots.clone() {
        bot(
            db,
            &Bot {
                platform: bot_ref.platform,
                id: bot_ref.bot,
                shared: false,
                principals: PrincipalPolicy::default(),
                settings: "{}".to_owned(),
                created,
            },
        )?;
    }
    for bot_ref in new.bots.iter().cloned().chain(own_bots) {
        route(
            db,
            &Route {
                platform: bot_ref.platform,
                bot: bot_ref.bot,
                discriminator: Discriminator::Any,
                instance: id.clone(),
                created,
                profile: None,
            },
        )?;
    }
    vault::issue(db, &new.gateway, id, &new.secret, created, created)?;
    if let Some(HttpCredentials { client_secret, overlap_until, login, login_client, login_tokens }) =
        &new.http
    {
        let owner = Owner::Instance(id.clone());
        tokens::create_client(db, &owner, *client_secret, created, *overlap_until)?;
        tokens::log_in(db, login, login_client, id, *login_tokens, created)?;
    }
    Ok(AgentCreated::Made)
}

/// The reason why this bot cannot belong to a new agent, if there is one.
fn why_not_owned(db: &Connection, bot_ref: &BotRef) -> rusqlite::Result<Option<&'static str>> {
    let key = [bot_ref.platform.as_str(), bot_ref.bot.as_str()];
    let shared: Option<bool> = db
        .query_row("SELECT shared FROM bots WHERE platform = ?1 AND id = ?2", key, |row| row.get(0))
        .optional()?;
    let owned: bool =
        db.query_row("SELECT EXISTS (SELECT 1 FROM routes WHERE platform = ?1 AND bot = ?2)", key, |row| {
            row.get(0)
        })?;
    Ok(match (shared, owned) {
        (None, _) => Some("there is no such bot"),
        (Some(true), _) => Some("it is shared: create routes instead"),
        (Some(false), true) => Some("it belongs to another agent"),
        (Some(false), false) => None,
    })
}

pub(super) fn is_tenant(db: &Connection, id: &TenantId) -> rusqlite::Result<bool> {
    db.query_row("SELECT EXISTS (SELECT 1 FROM tenants WHERE id = ?1)", [id.as_str()], |row| row.get(0))
}

pub(super) fn instance(db: &Connection, new: &Instance) -> rusqlite::Result<Created> {
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
}

pub(super) fn bot(db: &Connection, new: &Bot) -> rusqlite::Result<Created> {
    db.execute(
        "INSERT INTO bots (platform, id, shared, settings, created, principals)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
        params![
            new.platform.as_str(),
            new.id.as_str(),
            new.shared,
            new.settings,
            new.created.millis(),
            new.principals.as_str(),
        ],
    )
    .map(made)
}

pub(super) fn route(db: &Connection, new: &Route) -> rusqlite::Result<Created> {
    let on = BotRef { platform: new.platform.clone(), bot: new.bot.clone() };
    if let Some(why) = why_no_route(db, &on, &new.discriminator, &new.instance)? {
        return Ok(Created::Unfit(why));
    }
    db.execute(
        "INSERT INTO routes (platform, bot, kind, value, instance, created, made, profile)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ledger_time(), ?7) ON CONFLICT DO NOTHING",
        params![
            new.platform.as_str(),
            new.bot.as_str(),
            new.discriminator.kind(),
            new.discriminator.value(),
            new.instance.as_str(),
            new.created.millis(),
            new.profile
        ],
    )
    .map(made)
}

/// The reason why a bot cannot have this route, if there is one.
pub(in crate::sqlite) fn why_no_route(
    db: &Connection,
    on: &BotRef,
    which: &Discriminator,
    to: &InstanceId,
) -> rusqlite::Result<Option<&'static str>> {
    let shared: Option<bool> = db
        .query_row(
            "SELECT shared FROM bots WHERE platform = ?1 AND id = ?2",
            [on.platform.as_str(), on.bot.as_str()],
            |row| row.get(0),
        )
        .optional()?;
    match (shared, which) {
        (None, _) => return Ok(Some("no such bot")),
        (Some(true), Discriminator::Any) => {
            return Ok(Some("a shared bot cannot have the route `*`"));
        }
        (Some(false), Discriminator::Any) | (Some(true), _) => {}
        (Some(false), _) => return Ok(Some("an owned bot has only the route `*`")),
    }
    let exists: bool =
        db.query_row("SELECT EXISTS (SELECT 1 FROM instances WHERE id = ?1)", [to.as_str()], |row| {
            row.get(0)
        })?;
    Ok((!exists).then_some("no such agent"))
}
