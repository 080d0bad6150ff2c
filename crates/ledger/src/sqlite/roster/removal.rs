//! Removal of tenants, agents and bots, with everything that belongs to them.

use posthouse_time::Moment;
use posthouse_wire::{InstanceId, TenantId};
use rusqlite::{Connection, params};

use super::rows::removed;
use super::unrouting;
use crate::Owner;
use crate::roster::{BotRef, Removed};
use crate::sqlite::{arms, data, receipts, skill_approval, skill_runs, skills, tokens};

/// Removes a tenant that has no agents.
pub(super) fn remove_tenant(db: &Connection, id: &TenantId, now: Moment) -> rusqlite::Result<Removed> {
    let busy: bool =
        db.query_row("SELECT EXISTS (SELECT 1 FROM instances WHERE tenant = ?1)", [id.as_str()], |row| {
            row.get(0)
        })?;
    if busy {
        return Ok(Removed::InUse);
    }
    tokens::end(db, &Owner::Tenant(id.clone()))?;
    db.execute("DELETE FROM tenant_secrets WHERE tenant = ?1", [id.as_str()])?;
    receipts::fail_tenant(db, id, now)?;
    db.execute("DELETE FROM bot_tenants WHERE tenant = ?1", [id.as_str()])?;
    for of_its_invitations in ["invitation_links", "page_sessions"] {
        db.execute(
            &format!(
                "DELETE FROM {of_its_invitations}
                 WHERE invitation IN (SELECT id FROM invitations WHERE tenant = ?1)"
            ),
            [id.as_str()],
        )?;
    }
    db.execute("DELETE FROM invitations WHERE tenant = ?1", [id.as_str()])?;
    db.execute("DELETE FROM tenant_limits WHERE tenant = ?1", [id.as_str()])?;
    skills::remove_all(db, id)?;
    skill_approval::remove_all(db, id)?;
    skill_runs::remove_all(db, id)?;
    data::remove_all_later(db, id)?;
    db.execute("DELETE FROM tenants WHERE id = ?1", [id.as_str()]).map(removed)
}

/// Removes an agent. Whatever waits for it or was asked of it ends.
pub(super) fn remove_instance(db: &Connection, id: &InstanceId, now: Moment) -> rusqlite::Result<Removed> {
    tokens::end(db, &Owner::Instance(id.clone()))?;
    arms::cancel_all(db, id, now)?;
    receipts::expire_instance(db, id, now)?;
    // Its bots on the server's own platforms have its id and are removed with it.
    let own: Vec<String> = db
        .prepare_cached("SELECT DISTINCT platform FROM routes WHERE instance = ?1 AND bot = ?1")?
        .query_map([id.as_str()], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for of_it in [
        "DELETE FROM enroll_tokens WHERE instance = ?1",
        "DELETE FROM media WHERE instance = ?1",
        "DELETE FROM sleep_tokens WHERE instance = ?1",
        "DELETE FROM relevance_policies WHERE instance = ?1",
        "DELETE FROM principal_allow WHERE instance = ?1",
        "DELETE FROM principal_policies WHERE instance = ?1",
        "DELETE FROM link_codes WHERE instance = ?1",
        "DELETE FROM bindings WHERE instance = ?1",
        "DELETE FROM author_places WHERE instance = ?1",
        "DELETE FROM claims WHERE instance = ?1",
        "DELETE FROM fronts WHERE instance = ?1",
        "DELETE FROM gateway_names WHERE instance = ?1",
        "DELETE FROM provisioned_names WHERE instance = ?1",
        "DELETE FROM gateway_identities WHERE gateway IN (SELECT id FROM gateways WHERE instance = ?1)",
        "DELETE FROM gateway_secrets WHERE gateway IN (SELECT id FROM gateways WHERE instance = ?1)",
        "DELETE FROM gateways WHERE instance = ?1",
        "DELETE FROM routes WHERE instance = ?1",
        "DELETE FROM capabilities WHERE id IN (SELECT capability FROM capability_keys WHERE instance = ?1)",
        "DELETE FROM capability_uses WHERE instance = ?1",
        "DELETE FROM chats WHERE instance = ?1",
        "DELETE FROM sessions WHERE instance = ?1",
        "DELETE FROM talks WHERE instance = ?1",
        "DELETE FROM prompts WHERE instance = ?1",
        "DELETE FROM made_threads WHERE instance = ?1",
        "DELETE FROM command_manifests WHERE instance = ?1",
        "DELETE FROM room_lines WHERE room IN (SELECT id FROM rooms WHERE instance = ?1)",
        "DELETE FROM room_files WHERE room IN (SELECT id FROM rooms WHERE instance = ?1)",
        "DELETE FROM rooms WHERE instance = ?1",
        "DELETE FROM invitation_agents WHERE instance = ?1",
    ] {
        db.execute(of_it, [id.as_str()])?;
    }
    for platform in own {
        let on = BotRef { platform: platform.as_str().into(), bot: id.as_str().into() };
        remove_bot(db, &on, now)?;
    }
    // Message text is deleted at once. The traces of entries that were never acknowledged stay for a
    // week.
    for whose in ["fate IS NULL", "fate = 'dead'"] {
        db.execute(
            &format!(
                "UPDATE entries SET fate = 'dropped', event = NULL, refs = NULL, forward = NULL, ended = ?2,
                   counted = ledger_time()
                 WHERE instance = ?1 AND {whose}"
            ),
            params![id.as_str(), now.millis()],
        )?;
    }
    db.execute(
        "INSERT INTO former_agents (id, tenant, removed)
         SELECT id, tenant, ledger_time() FROM instances WHERE id = ?1",
        [id.as_str()],
    )?;
    db.execute("DELETE FROM instances WHERE id = ?1", [id.as_str()]).map(removed)
}

/// Removes a bot with its routes and secrets.
pub(super) fn remove_bot(db: &Connection, on: &BotRef, now: Moment) -> rusqlite::Result<Removed> {
    let key = [on.platform.as_str(), on.bot.as_str()];
    unrouting::end_all_waiting(db, on, now)?;
    let tables = [
        "routes",
        "author_places",
        "dm_chats",
        "places",
        "credentials",
        "dead_bots",
        "feed_cursors",
        "event_aliases",
        "person_chats",
        "prompts",
        "made_threads",
        "command_manifests",
        "registered_commands",
    ];
    for table in tables {
        db.execute(&format!("DELETE FROM {table} WHERE platform = ?1 AND bot = ?2"), key)?;
    }
    db.execute("DELETE FROM bots WHERE platform = ?1 AND id = ?2", key).map(removed)
}
