//! Deprovisioning: ends what an agent has on shared bots, with its credentials, its files and its inbox.

use posthouse_time::Moment;
use posthouse_wire::InstanceId;
use rusqlite::{Connection, OptionalExtension, params};

use crate::sqlite::{claims, principals, tokens};
use crate::{Deprovisioned, WhichCredentials};

pub(in crate::sqlite) fn deprovision(
    db: &Connection,
    id: &InstanceId,
    now: Moment,
) -> rusqlite::Result<Deprovisioned> {
    let tenant: Option<String> = db
        .query_row("SELECT tenant FROM instances WHERE id = ?1", [id.as_str()], |row| row.get(0))
        .optional()?;
    let authors = db
        .prepare_cached("SELECT platform, user FROM bindings WHERE instance = ?1")?
        .query_map([id.as_str()], |row| {
            Ok((row.get::<_, String>(0)?.into(), row.get::<_, String>(1)?.into()))
        })?
        .collect::<rusqlite::Result<_>>()?;
    // All of them: with a client or a login it could provision itself again.
    let gateways = tokens::end_credentials(db, id, &WhichCredentials::All, now)?.gateways;
    let live = claims::live_of(db, id, |_| true)?;
    let places = claims::remove_live(db, live, now)?;
    principals::clear(db, id)?;
    for of_it in [
        // A file in a room of the chat page stays for the people there. The agent's keys for it do not.
        "DELETE FROM media_keys WHERE media IN (SELECT id FROM media WHERE instance = ?1)",
        "DELETE FROM media WHERE instance = ?1 AND id NOT IN (SELECT media FROM room_files)",
        "DELETE FROM sleep_tokens WHERE instance = ?1",
        "DELETE FROM prompts WHERE instance = ?1",
        "DELETE FROM made_threads WHERE instance = ?1",
        "DELETE FROM command_manifests WHERE instance = ?1",
        "DELETE FROM gateway_identities WHERE gateway IN (SELECT id FROM gateways WHERE instance = ?1)",
        "DELETE FROM relevance_policies WHERE instance = ?1",
        "DELETE FROM link_codes WHERE instance = ?1",
        "DELETE FROM bindings WHERE instance = ?1",
        "DELETE FROM author_places WHERE instance = ?1",
        "DELETE FROM claims WHERE instance = ?1",
        "DELETE FROM fronts WHERE instance = ?1",
        "DELETE FROM capabilities WHERE id IN (SELECT capability FROM capability_keys WHERE instance = ?1)",
        "DELETE FROM chats WHERE instance = ?1",
        "DELETE FROM sessions WHERE instance = ?1",
    ] {
        db.execute(of_it, [id.as_str()])?;
    }
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
    Ok(Deprovisioned { authors, places, gateways, tenant: tenant.map(Into::into) })
}
