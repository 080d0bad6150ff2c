//! Trace sampling: the choice of runs whose operations are recorded.

use aws_lc_rs::digest::{SHA256, digest};

/// How many runs are traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceMode {
    Off,
    On,
    /// A share in percent. The same trigger and skill always get the same decision.
    Sample(u8),
}

impl TraceMode {
    /// Whether a run of a skill is traced. Without an id of its own a trigger counts as `source:name`.
    pub fn includes(self, trigger_id: &str, skill_name: &str) -> bool {
        match self {
            Self::Off => false,
            Self::On => true,
            Self::Sample(percent) => {
                let hash = digest(&SHA256, format!("{trigger_id}:{skill_name}").as_bytes());
                hash.as_ref().first().is_some_and(|byte| byte % 100 < percent)
            }
        }
    }
}
