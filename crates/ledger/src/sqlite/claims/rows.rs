//! Rows of claims and of places where authors were seen.

use posthouse_time::Moment;
use posthouse_wire::GatewayId;
use rusqlite::Row;

use crate::bindings::ChangedPlace;
use crate::claims::ScopeClaim;
use crate::{BotRef, Discriminator};

/// The place where an author was seen, and what it lies in.
pub(super) fn seen_place(row: &Row<'_>) -> rusqlite::Result<(Discriminator, Vec<Discriminator>)> {
    let place = place(row, 0)?;
    let parent = row.get::<_, Option<String>>(2)?.map(|parent| Discriminator::Chat(parent.into()));
    let scope = row.get::<_, Option<String>>(3)?.map(|scope| Discriminator::Scope(scope.into()));
    Ok((place, parent.into_iter().chain(scope).collect()))
}

fn place(row: &Row<'_>, at: usize) -> rusqlite::Result<Discriminator> {
    let (kind, value): (String, String) = (row.get(at)?, row.get(at + 1)?);
    Ok(Discriminator::from_parts(&kind, &value).unwrap_or(Discriminator::Any))
}

pub(super) fn changed_place(row: &Row<'_>) -> rusqlite::Result<ChangedPlace> {
    Ok(ChangedPlace {
        on: BotRef { platform: row.get::<_, String>(0)?.into(), bot: row.get::<_, String>(1)?.into() },
        place: place(row, 2)?,
        instance: row.get::<_, String>(4)?.into(),
    })
}

pub(super) fn claim(row: &Row<'_>) -> rusqlite::Result<ScopeClaim> {
    Ok(ScopeClaim {
        on: BotRef { platform: row.get::<_, String>(0)?.into(), bot: row.get::<_, String>(1)?.into() },
        kind: row.get(2)?,
        value: row.get(3)?,
        instance: row.get::<_, String>(4)?.into(),
        gateway: row.get::<_, Option<String>>(5)?.map(GatewayId::from),
        created: Moment::from_millis(row.get(6)?),
        live: row.get(7)?,
    })
}
