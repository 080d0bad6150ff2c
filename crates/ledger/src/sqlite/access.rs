//! SQL of access decisions and pending requests for access.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{ChatId, UserId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::Sqlite;
use crate::access::{
    Access, AccessRule, Decision, Pairing, PairingLimits, PairingResult, PrincipalPolicy, SenderRecords,
    Subject,
};
use crate::{BotRef, Fault};

const RULE: &str = "SELECT platform, bot, kind, value, allowed, name, decided FROM access_rules";
/// A pairing that has ended by ledger time reads as expired long ago.
const PAIRING: &str = "SELECT platform, bot, kind, value, code, name, asked_by, asked,
    CASE WHEN ends > ledger_time() THEN expires ELSE 0 END FROM access_pairings";

#[async_trait]
impl Access for Sqlite {
    async fn sender_records(&self, on: &BotRef, about: &[Subject]) -> Result<SenderRecords, Fault> {
        let (on, about) = (on.clone(), about.to_vec());
        self.read(move |db| {
            let policy: Option<String> = db
                .prepare_cached("SELECT principals FROM bots WHERE platform = ?1 AND id = ?2")?
                .query_row([on.platform.as_str(), on.bot.as_str()], |row| row.get(0))
                .optional()?;
            let policy = policy.and_then(|policy| policy.parse().ok()).unwrap_or_default();
            let decisions =
                about.iter().map(|subject| decision(db, &on, subject)).collect::<Result<_, _>>()?;
            Ok(SenderRecords { policy, decisions })
        })
        .await
    }

    async fn set_policy(&self, on: &BotRef, policy: PrincipalPolicy) -> Result<bool, Fault> {
        let on = on.clone();
        self.write(move |db| {
            let changed = db.execute(
                "UPDATE bots SET principals = ?3 WHERE platform = ?1 AND id = ?2",
                [on.platform.as_str(), on.bot.as_str(), policy.as_str()],
            )?;
            Ok(changed > 0)
        })
        .await
    }

    async fn decide(&self, on: &BotRef, subject: &Subject, decision: Decision) -> Result<bool, Fault> {
        let (on, subject, now) = (on.clone(), subject.clone(), self.timepiece.now());
        self.write(move |db| {
            let known: bool = db.query_row(
                "SELECT EXISTS (SELECT 1 FROM bots WHERE platform = ?1 AND id = ?2)",
                [on.platform.as_str(), on.bot.as_str()],
                |row| row.get(0),
            )?;
            if !known {
                return Ok(false);
            }
            let asked = pending(db, &on, &subject)?;
            let name = asked.and_then(|asked| asked.name);
            put(db, &AccessRule { on: on.clone(), subject: subject.clone(), decision, name, decided: now })?;
            Ok(true)
        })
        .await
    }

    async fn decide_by_code(
        &self,
        on: &BotRef,
        code: &str,
        decision: Decision,
    ) -> Result<Option<AccessRule>, Fault> {
        let (on, code, now) = (on.clone(), code.to_owned(), self.timepiece.now());
        self.write(move |db| {
            let asked = db
                .prepare_cached(&format!("{PAIRING} WHERE platform = ?1 AND bot = ?2 AND code = ?3"))?
                .query_row([on.platform.as_str(), on.bot.as_str(), &code], pairing)
                .optional()?;
            let Some(asked) = asked.filter(|asked| asked.expires > now) else { return Ok(None) };
            let rule = AccessRule {
                on: on.clone(),
                subject: asked.subject,
                decision,
                name: asked.name,
                decided: now,
            };
            put(db, &rule)?;
            Ok(Some(rule))
        })
        .await
    }

    async fn forget(&self, on: &BotRef, subject: &Subject) -> Result<bool, Fault> {
        let (on, subject) = (on.clone(), subject.clone());
        self.write(move |db| {
            let mut gone = 0;
            for table in ["access_rules", "access_pairings"] {
                gone += db.execute(
                    &format!(
                        "DELETE FROM {table} WHERE platform = ?1 AND bot = ?2 AND kind = ?3 AND value = ?4"
                    ),
                    [on.platform.as_str(), on.bot.as_str(), subject.kind(), subject.value()],
                )?;
            }
            Ok(gone > 0)
        })
        .await
    }

    async fn pair(&self, request: Pairing, limits: PairingLimits) -> Result<PairingResult, Fault> {
        let now = self.timepiece.now();
        // Most of those who ask again have a pending request. Answering them costs a read, not a commit.
        let asked = request.clone();
        if let Some(refused) = self.read(move |db| refusal(db, &asked, limits, now)).await? {
            return Ok(refused);
        }
        self.write(move |db| {
            if let Some(refused) = refusal(db, &request, limits, now)? {
                return Ok(refused);
            }
            db.execute(
                "DELETE FROM access_pairings
                 WHERE platform = ?1 AND bot = ?2 AND (expires <= ?3 OR ends <= ledger_time())",
                params![request.on.platform.as_str(), request.on.bot.as_str(), now.millis()],
            )?;
            let kept = db.execute(
                "INSERT INTO access_pairings
                   (platform, bot, kind, value, code, name, asked_by, asked, expires, ends)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ledger_time() + ?9 - ?8) ON CONFLICT DO NOTHING",
                params![
                    request.on.platform.as_str(),
                    request.on.bot.as_str(),
                    request.subject.kind(),
                    request.subject.value(),
                    request.code,
                    request.name,
                    request.asked_by.as_ref().map(|user| user.as_str()),
                    request.asked.millis(),
                    request.expires.millis(),
                ],
            )?;
            // The insert conflicts only with a code that another request already has.
            Ok(if kept == 0 { PairingResult::Full } else { PairingResult::New })
        })
        .await
    }

    async fn withdraw_pairing(&self, on: &BotRef, subject: &Subject, code: &str) -> Result<(), Fault> {
        let (on, subject, code) = (on.clone(), subject.clone(), code.to_owned());
        self.write(move |db| {
            db.execute(
                "DELETE FROM access_pairings
                 WHERE platform = ?1 AND bot = ?2 AND kind = ?3 AND value = ?4 AND code = ?5",
                [on.platform.as_str(), on.bot.as_str(), subject.kind(), subject.value(), &code],
            )
            .map(drop)
        })
        .await
    }

    async fn rules(&self, on: Option<&BotRef>) -> Result<Vec<AccessRule>, Fault> {
        let on = on.cloned();
        self.read(move |db| {
            let sql = format!(
                "{RULE} WHERE ?1 IS NULL OR (platform = ?1 AND bot = ?2) ORDER BY platform, bot, kind, value"
            );
            db.prepare_cached(&sql)?.query_map(of_bot(on.as_ref()), rule)?.collect()
        })
        .await
    }

    async fn pairings(&self, on: Option<&BotRef>) -> Result<Vec<Pairing>, Fault> {
        let (on, now) = (on.cloned(), self.timepiece.now());
        self.read(move |db| {
            let sql =
                format!("{PAIRING} WHERE ?1 IS NULL OR (platform = ?1 AND bot = ?2) ORDER BY asked, code");
            let all: Vec<Pairing> = db
                .prepare_cached(&sql)?
                .query_map(of_bot(on.as_ref()), pairing)?
                .collect::<rusqlite::Result<_>>()?;
            Ok(all.into_iter().filter(|pairing| pairing.expires > now).collect())
        })
        .await
    }
}

/// Moves decisions to the new id of a chat. A decision about the new id stays and wins. True when a decision
/// moved.
pub(super) fn move_chat(db: &Connection, on: &BotRef, from: &ChatId, to: &ChatId) -> rusqlite::Result<bool> {
    let key = [on.platform.as_str(), on.bot.as_str(), from.as_str(), to.as_str()];
    let mut moved = 0;
    for table in ["access_rules", "access_pairings"] {
        moved += db.execute(
            &format!(
                "UPDATE OR IGNORE {table} SET value = ?4
                 WHERE platform = ?1 AND bot = ?2 AND kind = 'chat' AND value = ?3"
            ),
            key,
        )?;
        db.execute(
            &format!("DELETE FROM {table} WHERE platform = ?1 AND bot = ?2 AND kind = 'chat' AND value = ?3"),
            [key[0], key[1], key[2]],
        )?;
    }
    Ok(moved > 0)
}

fn decision(db: &Connection, on: &BotRef, of: &Subject) -> rusqlite::Result<Option<Decision>> {
    db.prepare_cached(
        "SELECT allowed FROM access_rules WHERE platform = ?1 AND bot = ?2 AND kind = ?3 AND value = ?4",
    )?
    .query_row([on.platform.as_str(), on.bot.as_str(), of.kind(), of.value()], |row| row.get(0).map(decided))
    .optional()
}

fn put(db: &Connection, rule: &AccessRule) -> rusqlite::Result<()> {
    let AccessRule { on, subject, decision, name, decided } = rule;
    db.execute(
        "DELETE FROM access_pairings WHERE platform = ?1 AND bot = ?2 AND kind = ?3 AND value = ?4",
        [on.platform.as_str(), on.bot.as_str(), subject.kind(), subject.value()],
    )?;
    db.execute(
        "INSERT INTO access_rules (platform, bot, kind, value, allowed, name, decided)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT DO UPDATE SET allowed = excluded.allowed, name = coalesce(excluded.name, name),
           decided = excluded.decided",
        params![
            on.platform.as_str(),
            on.bot.as_str(),
            subject.kind(),
            subject.value(),
            *decision == Decision::Allowed,
            name,
            decided.millis(),
        ],
    )
    .map(drop)
}

/// The reason why a request is not stored, if there is one.
fn refusal(
    db: &Connection,
    request: &Pairing,
    limits: PairingLimits,
    now: Moment,
) -> rusqlite::Result<Option<PairingResult>> {
    if pending(db, &request.on, &request.subject)?.is_some_and(|pending| pending.expires > now) {
        return Ok(Some(PairingResult::Pending));
    }
    let (of_bot, of_same): (u32, u32) = db
        .prepare_cached(
            "SELECT count(*), coalesce(sum(asked_by IS ?4), 0) FROM access_pairings
             WHERE platform = ?1 AND bot = ?2 AND expires > ?3 AND ends > ledger_time()",
        )?
        .query_row(
            params![
                request.on.platform.as_str(),
                request.on.bot.as_str(),
                now.millis(),
                request.asked_by.as_ref().map(|user| user.as_str()),
            ],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
    let share = if request.asked_by.is_some() { limits.per_person } else { limits.of_nobody };
    let full = of_bot >= limits.per_bot || of_same >= share;
    Ok(full.then_some(PairingResult::Full))
}

fn pending(db: &Connection, on: &BotRef, subject: &Subject) -> rusqlite::Result<Option<Pairing>> {
    db.prepare_cached(&format!("{PAIRING} WHERE platform = ?1 AND bot = ?2 AND kind = ?3 AND value = ?4"))?
        .query_row([on.platform.as_str(), on.bot.as_str(), subject.kind(), subject.value()], pairing)
        .optional()
}

fn of_bot(on: Option<&BotRef>) -> [Option<&str>; 2] {
    [on.map(|on| on.platform.as_str()), on.map(|on| on.bot.as_str())]
}

fn decided(allowed: bool) -> Decision {
    if allowed { Decision::Allowed } else { Decision::Denied }
}

fn bot_ref(row: &Row<'_>) -> rusqlite::Result<BotRef> {
    Ok(BotRef { platform: row.get::<_, String>(0)?.into(), bot: row.get::<_, String>(1)?.into() })
}

fn subject(row: &Row<'_>) -> rusqlite::Result<Subject> {
    let (kind, value): (String, String) = (row.get(2)?, row.get(3)?);
    Ok(match kind.as_str() {
        "user" => Subject::User(value.into()),
        _ => Subject::Chat(value.into()),
    })
}

fn rule(row: &Row<'_>) -> rusqlite::Result<AccessRule> {
    Ok(AccessRule {
        on: bot_ref(row)?,
        subject: subject(row)?,
        decision: decided(row.get(4)?),
        name: row.get(5)?,
        decided: Moment::from_millis(row.get(6)?),
    })
}

fn pairing(row: &Row<'_>) -> rusqlite::Result<Pairing> {
    Ok(Pairing {
        on: bot_ref(row)?,
        subject: subject(row)?,
        code: row.get(4)?,
        name: row.get(5)?,
        asked_by: row.get::<_, Option<String>>(6)?.map(UserId::from),
        asked: Moment::from_millis(row.get(7)?),
        expires: Moment::from_millis(row.get(8)?),
    })
}
