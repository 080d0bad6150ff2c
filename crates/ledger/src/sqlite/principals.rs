//! SQL of principal policies.

use async_trait::async_trait;
use posthouse_wire::{InstanceId, Platform, UserId};
use rusqlite::{Connection, OptionalExtension, params};

use super::Sqlite;
use crate::principals::{AgentPrincipals, AuthorPolicy, Principals};
use crate::{Fault, PLATFORMS_OF_AN_AGENT};

#[async_trait]
impl Principals for Sqlite {
    async fn set_principals(&self, of: &InstanceId, principals: AgentPrincipals) -> Result<bool, Fault> {
        let (owner, of) = (self.tenant_of(of), of.clone());
        self.write_for(owner, move |db| {
            let AgentPrincipals { platform, policy, allowed } = &principals;
            let key = platform.as_ref().map_or("", Platform::as_str);
            let fits: bool = db.query_row(
                "SELECT EXISTS (SELECT 1 FROM instances WHERE id = ?1)
                   AND (SELECT count(*) FROM principal_policies WHERE instance = ?1 AND platform <> ?2) < ?3",
                params![of.as_str(), key, PLATFORMS_OF_AN_AGENT],
                |row| row.get(0),
            )?;
            if !fits && platform.is_some() {
                return Ok(false);
            }
            for table in ["principal_allow", "principal_policies"] {
                let which = if platform.is_some() { "platform = ?2" } else { "?2 = ''" };
                db.execute(
                    &format!("DELETE FROM {table} WHERE instance = ?1 AND {which}"),
                    [of.as_str(), key],
                )?;
            }
            let stored = db.execute(
                "INSERT INTO principal_policies (instance, platform, policy)
                 SELECT id, ?2, ?3 FROM instances WHERE id = ?1",
                [of.as_str(), key, policy.as_str()],
            )?;
            if stored > 0 {
                let mut allow = db.prepare_cached(
                    "INSERT OR IGNORE INTO principal_allow (instance, platform, user) VALUES (?1, ?2, ?3)",
                )?;
                for user in allowed {
                    allow.execute([of.as_str(), key, user.as_str()])?;
                }
            }
            Ok(stored > 0)
        })
        .await
    }

    async fn principals(&self, of: &InstanceId) -> Result<Vec<AgentPrincipals>, Fault> {
        let of = of.clone();
        self.read(move |db| {
            let policies: Vec<(String, String)> = db
                .prepare_cached(
                    "SELECT platform, policy FROM principal_policies WHERE instance = ?1 ORDER BY platform",
                )?
                .query_map([of.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            policies
                .into_iter()
                .map(|(platform, policy)| {
                    let allowed = db
                        .prepare_cached(
                            "SELECT user FROM principal_allow WHERE instance = ?1 AND platform = ?2 ORDER BY user",
                        )?
                        .query_map([of.as_str(), &platform], |row| row.get::<_, String>(0).map(UserId::from))?
                        .collect::<rusqlite::Result<_>>()?;
                    Ok(AgentPrincipals {
                        platform: (!platform.is_empty()).then(|| platform.into()),
                        policy: policy.parse().unwrap_or_default(),
                        allowed,
                    })
                })
                .collect()
        })
        .await
    }

    async fn admits_author(
        &self,
        of: &InstanceId,
        platform: &Platform,
        author: &UserId,
    ) -> Result<bool, Fault> {
        let (of, platform, author) = (of.clone(), platform.clone(), author.clone());
        self.read(move |db| {
            // The platform's own policy comes before the general one, whose platform is ''.
            let found: Option<(String, String)> = db
                .prepare_cached(
                    "SELECT platform, policy FROM principal_policies WHERE instance = ?1 AND platform IN (?2, '')
                     ORDER BY platform DESC LIMIT 1",
                )?
                .query_row([of.as_str(), platform.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            let Some((declared_for, policy)) = found else { return Ok(false) };
            match policy.parse().unwrap_or_default() {
                AuthorPolicy::OwnerOnly => Ok(false),
                AuthorPolicy::Any => Ok(true),
                AuthorPolicy::AllowList => db
                    .prepare_cached(
                        "SELECT EXISTS (SELECT 1 FROM principal_allow
                                        WHERE instance = ?1 AND platform = ?2 AND user = ?3)",
                    )?
                    .query_row([of.as_str(), &declared_for, author.as_str()], |row| row.get(0)),
            }
        })
        .await
    }

    async fn clear_principals(&self, of: &InstanceId) -> Result<(), Fault> {
        let (owner, of) = (self.tenant_of(of), of.clone());
        self.write_for(owner, move |db| clear(db, &of)).await
    }
}

pub(super) fn clear(db: &Connection, of: &InstanceId) -> rusqlite::Result<()> {
    db.execute("DELETE FROM principal_allow WHERE instance = ?1", [of.as_str()])?;
    db.execute("DELETE FROM principal_policies WHERE instance = ?1", [of.as_str()]).map(drop)
}
