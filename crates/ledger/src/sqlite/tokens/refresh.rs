//! Refresh tokens of one login: a tree in which every exchange adds a successor.
//!
//! Processes that share one file race, so a token may get several successors. That is not a fork yet: the
//! file keeps one of them, and the others lapse. Only when two successors of one token have both been
//! presented is the login used in two places. The second one then starts a line of its own.
//!
//! `lapses` is the ledger time at which a row is deleted. On a token that was never presented it means that a
//! sibling was presented. On a token that was presented it means that a successor was presented.

use posthouse_time::Moment;
use posthouse_wire::LoginId;
use rusqlite::{Connection, OptionalExtension, params};

use super::{LOGIN, keep_access, login_record};
use crate::tokens::{LoginRecord, REFRESH_LINES, RefreshRequest, Renewal, TokenHash};

/// Unused tokens of one line. Past that, no token is exchanged a second time for now. Deleting the oldest
/// instead could displace the rightful holder. Each race of two processes leaves one unused token for a day.
const WAITING: u32 = 512;
/// Succeeded tokens of one login that are kept to recognise their reuse.
const SUCCEEDED: u32 = 128;
/// Step in milliseconds by which a token that is put off repeatedly is kept longer, so that not every try is
/// a write.
const LAPSE_STEP: i64 = 3_600_000;

struct RefreshToken {
    seq: i64,
    parent: Option<i64>,
    line: i64,
    rotated: Option<i64>,
    lapses: Option<i64>,
}

/// Stores the first token of a login, on its first line.
pub(super) fn begin(
    db: &Connection,
    login: &LoginId,
    token: TokenHash,
    now: Moment,
) -> rusqlite::Result<i64> {
    db.execute("INSERT INTO refresh_tokens (hash, login) VALUES (?1, ?2)", params![token.0, login.as_str()])?;
    let seq = db.last_insert_rowid();
    db.execute(
        "INSERT INTO login_lines (login, line, started, used) VALUES (?1, 0, ?2, ?2)",
        params![login.as_str(), now.millis()],
    )?;
    Ok(seq)
}

/// The login of a request, or the answer to a request that changes nothing.
pub(super) fn check(
    db: &Connection,
    request: &RefreshRequest,
) -> rusqlite::Result<Result<LoginRecord, Renewal>> {
    let Some((token, login)) = find(db, request)? else { return Ok(Err(Renewal::Unknown)) };
    let now = request.now.millis();
    Ok(match (token.rotated, token.lapses) {
        // The token was never presented, but a sibling was. After a day it is an old copy, before that a
        // fork.
        (None, Some(lapses)) if lapses <= now => Err(Renewal::Reused(login)),
        (None, Some(_)) if login.lines >= REFRESH_LINES && !lapses_early(&token, request) => {
            Err(Renewal::Full(login))
        }
        // The token was presented before, and so was a successor.
        (Some(rotated), Some(_)) if rotated < request.honoured_since.millis() => Err(Renewal::Reused(login)),
        // The token was presented before. The response may have been lost, or another process was faster.
        (Some(_), _) if waiting(db, &login, token.line)? >= WAITING => Err(Renewal::Full(login)),
        _ => Ok(login),
    })
}

/// Whether a token that is put off has to be kept longer. It was presented, so it must not lapse while its
/// holder keeps trying.
fn lapses_early(token: &RefreshToken, request: &RefreshRequest) -> bool {
    token.lapses.is_some_and(|lapses| lapses + LAPSE_STEP <= request.lapse_at.millis())
}

pub(super) fn exchange(db: &Connection, request: &RefreshRequest) -> rusqlite::Result<Renewal> {
    if let Err(refused) = check(db, request)? {
        return Ok(refused);
    }
    let Some((token, login)) = find(db, request)? else { return Ok(Renewal::Unknown) };
    let now = request.now.millis();
    let mut line = token.line;
    let mut forked = false;
    match (token.rotated, token.lapses) {
        (None, Some(_)) if login.lines >= REFRESH_LINES => {
            db.prepare_cached("UPDATE refresh_tokens SET lapses = ledger_time_at(?2) WHERE seq = ?1")?
                .execute(params![token.seq, request.lapse_at.millis()])?;
            return Ok(Renewal::Full(login));
        }
        (None, Some(_)) => {
            line = start_line(db, &login, now)?;
            forked = true;
        }
        (None, None) | (Some(_), _) => {}
    }
    if token.rotated.is_none() {
        present(db, &token, line, request)?;
        db.prepare_cached(
            "UPDATE access_tokens SET refresh = NULL WHERE login = ?1 AND client = ?2 AND refresh = ?3",
        )?
        .execute(params![login.login.as_str(), login.client.as_str(), token.seq])?;
    }
    // If another successor of this token is already in use, the new one lapses together with its siblings.
    let lapses = token.rotated.and(token.lapses);
    db.prepare_cached(
        "INSERT INTO refresh_tokens (hash, login, parent, line, lapses) VALUES (?1, ?2, ?3, ?4, ledger_time_at(?5))",
    )?
    .execute(params![request.next.refresh.0, login.login.as_str(), token.seq, line, lapses])?;
    let next = db.last_insert_rowid();
    db.prepare_cached("UPDATE logins SET refreshed = ?2 WHERE id = ?1")?
        .execute(params![login.login.as_str(), now])?;
    db.prepare_cached("UPDATE login_lines SET used = ?3, address = ?4 WHERE login = ?1 AND line = ?2")?
        .execute(params![login.login.as_str(), line, now, request.address])?;
    keep_access(db, &login, request.next, next)?;
    forget_succeeded(db, &login)?;
    let login =
        db.query_row(&format!("{LOGIN} WHERE logins.id = ?1"), [login.login.as_str()], login_record)?;
    Ok(if forked { Renewal::Forked(login) } else { Renewal::Granted(login) })
}

fn find(db: &Connection, request: &RefreshRequest) -> rusqlite::Result<Option<(RefreshToken, LoginRecord)>> {
    let found = db
        .prepare_cached(
            "SELECT seq, parent, line, wall_time_at(rotated), wall_time_at(lapses), login FROM refresh_tokens
             WHERE hash = ?1",
        )?
        .query_row([request.presented.0], |row| {
            let token = RefreshToken {
                seq: row.get(0)?,
                parent: row.get(1)?,
                line: row.get(2)?,
                rotated: row.get(3)?,
                lapses: row.get(4)?,
            };
            Ok((token, row.get::<_, String>(5)?))
        })
        .optional()?;
    let Some((token, login)) = found else { return Ok(None) };
    let login = db
        .prepare_cached(&format!("{LOGIN} WHERE logins.id = ?1 AND logins.client = ?2"))?
        .query_row([login.as_str(), request.client.as_str()], login_record)
        .optional()?;
    Ok(login.map(|login| (token, login)))
}

/// Marks a token as presented for the first time. Its parent, and siblings that were not presented, will
/// lapse.
fn present(
    db: &Connection,
    token: &RefreshToken,
    line: i64,
    request: &RefreshRequest,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE refresh_tokens SET rotated = ledger_time(), line = ?2, lapses = NULL WHERE seq = ?1",
    )?
    .execute(params![token.seq, line])?;
    let Some(parent) = token.parent else { return Ok(()) };
    let lapse_at = request.lapse_at.millis();
    db.prepare_cached(
        "UPDATE refresh_tokens SET lapses = ledger_time_at(?2)
         WHERE parent = ?1 AND rotated IS NULL AND lapses IS NULL",
    )?
    .execute(params![parent, lapse_at])?;
    db.prepare_cached(
        "UPDATE refresh_tokens SET lapses = coalesce(lapses, ledger_time_at(?2)) WHERE seq = ?1",
    )?
    .execute(params![parent, lapse_at])
    .map(drop)
}

fn start_line(db: &Connection, login: &LoginRecord, now: i64) -> rusqlite::Result<i64> {
    db.query_row(
        "INSERT INTO login_lines (login, line, started, used)
         SELECT ?1, 1 + max(line), ?2, ?2 FROM login_lines WHERE login = ?1 RETURNING line",
        params![login.login.as_str(), now],
        |row| row.get(0),
    )
}

fn waiting(db: &Connection, login: &LoginRecord, line: i64) -> rusqlite::Result<u32> {
    db.prepare_cached(
        "SELECT count(*) FROM refresh_tokens WHERE login = ?1 AND line = ?2 AND rotated IS NULL",
    )?
    .query_row(params![login.login.as_str(), line], |row| row.get(0))
}

/// Only tokens whose successor is in use are deleted early, because no rightful holder needs them any more.
fn forget_succeeded(db: &Connection, login: &LoginRecord) -> rusqlite::Result<()> {
    db.prepare_cached(
        "DELETE FROM refresh_tokens WHERE seq IN
           (SELECT seq FROM refresh_tokens WHERE login = ?1 AND rotated IS NOT NULL AND lapses IS NOT NULL
            ORDER BY seq DESC LIMIT -1 OFFSET ?2)",
    )?
    .execute(params![login.login.as_str(), SUCCEEDED])
    .map(drop)
}
