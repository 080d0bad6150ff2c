//! SQL of invitations, one-time links and browser sessions.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{InstanceId, InvitationId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::Sqlite;
use crate::Fault;
use crate::invitations::{ExpiringHash, Invitation, Invitations};

const INVITATION: &str =
    "SELECT i.id, i.tenant, i.person, i.owner, i.every_agent, i.created FROM invitations i";

/// Browsers that can use one invitation at a time. A further one ends the oldest session.
const SESSIONS: u32 = 16;

#[async_trait]
impl Invitations for Sqlite {
    async fn invite(&self, new: Invitation, link: ExpiringHash) -> Result<(), Fault> {
        self.write(move |db| {
            let fresh = db.execute(
                "INSERT INTO invitations (id, tenant, person, owner, every_agent, created)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (id) DO NOTHING",
                params![
                    new.id.as_str(),
                    new.tenant.as_str(),
                    new.person,
                    new.owner,
                    new.agents.is_none(),
                    new.created.millis()
                ],
            )?;
            if fresh > 0 {
                for agent in new.agents.iter().flatten() {
                    db.execute(
                        "INSERT INTO invitation_agents (invitation, instance) VALUES (?1, ?2)
                         ON CONFLICT DO NOTHING",
                        [new.id.as_str(), agent.as_str()],
                    )?;
                }
            }
            put_link(db, &new.id, &link)
        })
        .await
    }

    async fn renew_link(&self, id: &InvitationId, link: ExpiringHash) -> Result<bool, Fault> {
        let id = id.clone();
        self.write(move |db| {
            if one(db, "WHERE i.id = ?1", id.as_str(), Moment::from_millis(0))?.is_none() {
                return Ok(false);
            }
            put_link(db, &id, &link).map(|()| true)
        })
        .await
    }

    async fn behind_link(&self, link: &str) -> Result<Option<Invitation>, Fault> {
        let (link, now) = (link.to_owned(), self.timepiece.now());
        self.read(move |db| one(db, OF_LINK, &link, now)).await
    }

    async fn redeem_link(&self, link: &str, session: ExpiringHash) -> Result<Option<Invitation>, Fault> {
        let (link, now) = (link.to_owned(), self.timepiece.now());
        self.write(move |db| {
            for expired in ["invitation_links", "page_sessions"] {
                db.execute(&format!("DELETE FROM {expired} WHERE ends <= ledger_time()"), [])?;
            }
            let Some(invitation) = one(db, OF_LINK, &link, now)? else { return Ok(None) };
            db.execute("DELETE FROM invitation_links WHERE hash = ?1", [&link])?;
            db.execute(
                "INSERT INTO page_sessions (hash, invitation, created, expires, ends)
                 VALUES (?1, ?2, ?3, ?4, ledger_time_at(?4))",
                params![session.hash, invitation.id.as_str(), now.millis(), session.expires.millis()],
            )?;
            // The order is by ledger time, because the wall clock may have been set back since the others
            // were created.
            db.execute(
                "DELETE FROM page_sessions WHERE hash IN (SELECT hash FROM page_sessions
                 WHERE invitation = ?1 ORDER BY ends DESC, rowid DESC LIMIT -1 OFFSET ?2)",
                params![invitation.id.as_str(), SESSIONS],
            )?;
            Ok(Some(invitation))
        })
        .await
    }

    async fn session(&self, session: &str) -> Result<Option<Invitation>, Fault> {
        let (session, now) = (session.to_owned(), self.timepiece.now());
        self.read(move |db| {
            one(
                db,
                "JOIN page_sessions s ON s.invitation = i.id
                 WHERE s.hash = ?1 AND s.expires > ?2 AND s.ends > ledger_time()",
                &session,
                now,
            )
        })
        .await
    }

    async fn end_session(&self, session: &str) -> Result<(), Fault> {
        let session = session.to_owned();
        self.write(move |db| db.execute("DELETE FROM page_sessions WHERE hash = ?1", [&session]).map(drop))
            .await
    }

    async fn invitation(&self, id: &InvitationId) -> Result<Option<Invitation>, Fault> {
        let id = id.clone();
        self.read(move |db| one(db, "WHERE i.id = ?1", id.as_str(), Moment::from_millis(0))).await
    }

    async fn invitations(&self) -> Result<Vec<Invitation>, Fault> {
        self.read(|db| {
            let mut all: Vec<(Invitation, bool)> = db
                .prepare_cached(&format!("{INVITATION} ORDER BY i.created, i.id"))?
                .query_map([], bare)?
                .collect::<rusqlite::Result<_>>()?;
            all.iter_mut().try_for_each(|(invitation, every)| with_agents(db, invitation, *every))?;
            Ok(all.into_iter().map(|(invitation, _)| invitation).collect())
        })
        .await
    }

    async fn withdraw(&self, id: &InvitationId) -> Result<bool, Fault> {
        let id = id.clone();
        self.write(move |db| {
            db.execute("UPDATE rooms SET invitation = NULL WHERE invitation = ?1", [id.as_str()])?;
            for of_it in ["invitation_agents", "invitation_links", "page_sessions"] {
                db.execute(&format!("DELETE FROM {of_it} WHERE invitation = ?1"), [id.as_str()])?;
            }
            db.execute("DELETE FROM invitations WHERE id = ?1", [id.as_str()]).map(|rows| rows > 0)
        })
        .await
    }
}

const OF_LINK: &str = "JOIN invitation_links l ON l.invitation = i.id
    WHERE l.hash = ?1 AND l.expires > ?2 AND l.ends > ledger_time()";

fn put_link(db: &Connection, id: &InvitationId, link: &ExpiringHash) -> rusqlite::Result<()> {
    db.execute("DELETE FROM invitation_links WHERE invitation = ?1", [id.as_str()])?;
    db.execute(
        "INSERT INTO invitation_links (hash, invitation, expires, ends)
         VALUES (?1, ?2, ?3, ledger_time_at(?3))",
        params![link.hash, id.as_str(), link.expires.millis()],
    )
    .map(drop)
}

/// The one invitation that `which` finds by `key` at this moment.
fn one(db: &Connection, which: &str, key: &str, now: Moment) -> rusqlite::Result<Option<Invitation>> {
    let mut found = db.prepare_cached(&format!("{INVITATION} {which}"))?;
    let found = if which.contains("?2") {
        found.query_row(params![key, now.millis()], bare).optional()?
    } else {
        found.query_row([key], bare).optional()?
    };
    let Some((mut invitation, every)) = found else { return Ok(None) };
    with_agents(db, &mut invitation, every)?;
    Ok(Some(invitation))
}

/// The invitation without its agents, and whether it is for every agent.
fn bare(row: &Row<'_>) -> rusqlite::Result<(Invitation, bool)> {
    let invitation = Invitation {
        id: row.get::<_, String>(0)?.into(),
        tenant: row.get::<_, String>(1)?.into(),
        agents: None,
        person: row.get(2)?,
        owner: row.get(3)?,
        created: Moment::from_millis(row.get(5)?),
    };
    Ok((invitation, row.get(4)?))
}

fn with_agents(db: &Connection, invitation: &mut Invitation, every: bool) -> rusqlite::Result<()> {
    if every {
        return Ok(());
    }
    // An invitation whose named agents were all removed is for no agent, not for every agent.
    let agents = db
        .prepare_cached("SELECT instance FROM invitation_agents WHERE invitation = ?1 ORDER BY instance")?
        .query_map([invitation.id.as_str()], |row| row.get::<_, String>(0).map(InstanceId::from))?
        .collect::<rusqlite::Result<_>>()?;
    invitation.agents = Some(agents);
    Ok(())
}
