//! Bytes that the files of each agent take up. They are not stored: a start counts the rows of files, which are few
//! beside messages.

use std::collections::HashMap;

use rusqlite::Connection;

/// The bytes of each agent that has files.
#[derive(Debug, Default)]
pub(super) struct AgentMedia {
    bytes: HashMap<Box<str>, i64>,
    /// Changes by the open transaction.
    changes: Vec<(Box<str>, i64)>,
}

/// Two are equal if every agent has the same bytes.
impl PartialEq for AgentMedia {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl AgentMedia {
    pub fn read(db: &Connection) -> rusqlite::Result<Self> {
        let mut counted =
            db.prepare("SELECT instance, sum(size) FROM media GROUP BY 1 HAVING sum(size) <> 0")?;
        let bytes = counted.query_map([], |row| Ok((row.get::<_, String>(0)?.into(), row.get(1)?)))?;
        Ok(Self { bytes: bytes.collect::<rusqlite::Result<_>>()?, changes: Vec::new() })
    }

    pub fn of(&self, agent: &str) -> i64 {
        self.bytes.get(agent).copied().unwrap_or(0)
    }

    pub fn change(&mut self, agent: &str, bytes: i64) {
        self.add(agent, bytes);
        self.changes.push((agent.into(), bytes));
    }

    pub fn committed(&mut self) {
        self.changes.clear();
    }

    pub fn rolled_back(&mut self) {
        for (agent, bytes) in std::mem::take(&mut self.changes) {
            self.add(&agent, -bytes);
        }
    }

    fn add(&mut self, agent: &str, bytes: i64) {
        let sum = self.of(agent) + bytes;
        match sum {
            0 => self.bytes.remove(agent),
            _ => self.bytes.insert(agent.into(), sum),
        };
    }
}
