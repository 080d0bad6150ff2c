//! Rows of the directory: columns and reads.

use posthouse_time::Moment;
use rusqlite::{Connection, OptionalExtension, Row};

use crate::roster::{
    Bot, BotRef, Created, Discriminator, Generation, Instance, PlaceOwner, Removed, Route, RouteOrigin,
    RouteTo, Tenant,
};

pub(super) fn made(rows: usize) -> Created {
    if rows == 0 { Created::Taken } else { Created::Made }
}

pub(super) fn removed(rows: usize) -> Removed {
    if rows == 0 { Removed::Absent } else { Removed::Gone }
}

pub(super) fn tenant(row: &Row<'_>) -> rusqlite::Result<Tenant> {
    Ok(Tenant {
        id: row.get::<_, String>(0)?.into(),
        name: row.get(1)?,
        created: Moment::from_millis(row.get(2)?),
    })
}

pub(super) fn instance(row: &Row<'_>) -> rusqlite::Result<Instance> {
    Ok(Instance {
        id: row.get::<_, String>(0)?.into(),
        tenant: row.get::<_, String>(1)?.into(),
        name: row.get(2)?,
        wake_url: row.get(3)?,
        callback_url: row.get(4)?,
        generation: row.get::<_, String>(5)?.parse::<Generation>().unwrap_or_default(),
        idle: row.get(6)?,
        created: Moment::from_millis(row.get(7)?),
    })
}

pub(super) fn bot(row: &Row<'_>) -> rusqlite::Result<Bot> {
    Ok(Bot {
        platform: row.get::<_, String>(0)?.into(),
        id: row.get::<_, String>(1)?.into(),
        shared: row.get(2)?,
        settings: row.get(3)?,
        created: Moment::from_millis(row.get(4)?),
        principals: row.get::<_, String>(5)?.parse().unwrap_or_default(),
    })
}

pub(super) fn route(row: &Row<'_>) -> rusqlite::Result<Route> {
    let (kind, value): (String, String) = (row.get(2)?, row.get(3)?);
    Ok(Route {
        platform: row.get::<_, String>(0)?.into(),
        bot: row.get::<_, String>(1)?.into(),
        discriminator: Discriminator::from_parts(&kind, &value).unwrap_or(Discriminator::Any),
        instance: row.get::<_, String>(4)?.into(),
        created: Moment::from_millis(row.get(5)?),
        profile: row.get(6)?,
    })
}

pub(super) fn bot_ref(row: &Row<'_>, at: usize) -> rusqlite::Result<BotRef> {
    Ok(BotRef { platform: row.get::<_, String>(at)?.into(), bot: row.get::<_, String>(at + 1)?.into() })
}

pub(super) fn route_to(
    db: &Connection,
    on: &BotRef,
    candidate: &Discriminator,
) -> rusqlite::Result<Option<RouteTo>> {
    db.prepare_cached(
        "SELECT instances.tenant, instances.id FROM routes JOIN instances ON instances.id = routes.instance
         WHERE routes.platform = ?1 AND routes.bot = ?2 AND routes.kind = ?3 AND routes.value = ?4",
    )?
    .query_row([on.platform.as_str(), on.bot.as_str(), candidate.kind(), candidate.value()], |row| {
        Ok(RouteTo { tenant: row.get::<_, String>(0)?.into(), instance: row.get::<_, String>(1)?.into() })
    })
    .optional()
}

pub(super) fn place_owner(
    db: &Connection,
    on: &BotRef,
    candidate: &Discriminator,
) -> rusqlite::Result<Option<PlaceOwner>> {
    db.prepare_cached(
        "SELECT instances.tenant, instances.id, origin, coalesce(routes.profile, instances.profile)
         FROM routes JOIN instances ON instances.id = routes.instance
         WHERE routes.platform = ?1 AND routes.bot = ?2 AND routes.kind = ?3 AND routes.value = ?4",
    )?
    .query_row([on.platform.as_str(), on.bot.as_str(), candidate.kind(), candidate.value()], |row| {
        // An origin that is not the operator's own gives the fewest rights.
        let origin = match row.get_ref(2)?.as_str()? {
            "operator" => RouteOrigin::Operator,
            _ => RouteOrigin::Claim,
        };
        Ok(PlaceOwner {
            to: RouteTo {
                tenant: row.get::<_, String>(0)?.into(),
                instance: row.get::<_, String>(1)?.into(),
            },
            which: candidate.clone(),
            origin,
            profile: row.get(3)?,
        })
    })
    .optional()
}
