//! SQL of the settings of agents.

use posthouse_wire::{GatewayId, InstanceId};
use rusqlite::{Connection, OptionalExtension, params};

use crate::roster::Generation;

/// A setting of an agent that is one text or none.
#[derive(Clone, Copy)]
pub(super) enum AgentSetting {
    WakeUrl,
    CallbackUrl,
    HoldBack,
    StreamCursor,
}

impl AgentSetting {
    fn column(self) -> &'static str {
        match self {
            AgentSetting::WakeUrl => "wake_url",
            AgentSetting::CallbackUrl => "callback_url",
            AgentSetting::HoldBack => "hold_back",
            AgentSetting::StreamCursor => "stream_cursor",
        }
    }
}

pub(super) fn set(
    db: &Connection,
    id: &InstanceId,
    setting: AgentSetting,
    value: Option<&str>,
) -> rusqlite::Result<()> {
    let column = setting.column();
    db.execute(&format!("UPDATE instances SET {column} = ?2 WHERE id = ?1"), params![id.as_str(), value])
        .map(drop)
}

pub(super) fn get(
    db: &Connection,
    id: &InstanceId,
    setting: AgentSetting,
) -> rusqlite::Result<Option<String>> {
    let column = setting.column();
    let found = db
        .prepare_cached(&format!("SELECT {column} FROM instances WHERE id = ?1"))?
        .query_row([id.as_str()], |row| row.get(0))
        .optional()?;
    Ok(found.flatten())
}

pub(super) fn set_idle(db: &Connection, id: &InstanceId, idle: bool) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE instances SET idle = ?2 WHERE id = ?1 AND idle <> ?2")?
        .execute(params![id.as_str(), idle])
        .map(drop)
}

/// Pins the generation of a gateway, or of the agent with all its gateways. False if there is no such gateway or agent.
pub(super) fn pin_generation(
    db: &Connection,
    id: &InstanceId,
    gateway: Option<&GatewayId>,
    generation: Generation,
) -> rusqlite::Result<bool> {
    let changed = match gateway {
        Some(gateway) => db.execute(
            "UPDATE gateways SET generation = ?3 WHERE id = ?1 AND instance = ?2",
            params![gateway.as_str(), id.as_str(), generation.as_str()],
        )?,
        None => {
            db.execute("UPDATE gateways SET generation = NULL WHERE instance = ?1", [id.as_str()])?;
            db.execute(
                "UPDATE instances SET generation = ?2 WHERE id = ?1",
                params![id.as_str(), generation.as_str()],
            )?
        }
    };
    Ok(changed > 0)
}

pub(super) fn pinned_generation(
    db: &Connection,
    id: &InstanceId,
    gateway: &GatewayId,
) -> rusqlite::Result<Generation> {
    let pinned: Option<String> = db
        .prepare_cached(
            "SELECT coalesce(gateways.generation, instances.generation) FROM gateways
             JOIN instances ON instances.id = gateways.instance
             WHERE gateways.id = ?1 AND gateways.instance = ?2",
        )?
        .query_row([gateway.as_str(), id.as_str()], |row| row.get(0))
        .optional()?;
    Ok(pinned.and_then(|pinned| pinned.parse().ok()).unwrap_or_default())
}
