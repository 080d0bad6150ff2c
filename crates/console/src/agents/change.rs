//! Changes of an agent's settings, as the admin API gets them.

use ledger::{Generation, HoldBack, InteractionMode};
use posthouse_wire::GatewayId;
use serde::{Deserialize, Deserializer};

use crate::problem::AdminProblem;
use crate::staleness::StaleSetting;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentChange {
    /// Null removes it; absent leaves it.
    #[serde(default, deserialize_with = "said")]
    pub(super) wake_url: Option<Option<String>>,
    /// Null removes it; absent leaves it.
    #[serde(default, deserialize_with = "said")]
    pub(super) stop_url: Option<Option<String>>,
    /// Null removes it; absent leaves it.
    #[serde(default, deserialize_with = "said")]
    pub(super) callback_url: Option<Option<String>>,
    /// Null means the stock cursor, an empty text means none.
    #[serde(default, deserialize_with = "said")]
    pub(super) stream_cursor: Option<Option<String>>,
    /// `auto`, `0.19` or `newer`: pins the generation of the agent's gateways; `auto` removes the pin.
    #[serde(default)]
    pub(super) generation: Option<String>,
    /// The credential that `generation`, `wake_url`, `gateway_bots` and `route_keys` apply to; absent means the agent.
    #[serde(default)]
    pub(super) gateway_id: Option<GatewayId>,
    /// `PLATFORM:ID` of the bots that the gateway may speak for; empty means every bot of the agent.
    #[serde(default)]
    pub(super) gateway_bots: Option<Vec<String>>,
    /// Chats and scopes that the gateway claims on shared bots.
    #[serde(default)]
    pub(super) route_keys: Option<Vec<String>>,
    /// `on`, `off` or `drain`: whether further messages of a chat wait until the agent's turn in it has ended.
    #[serde(default)]
    pub(super) hold_back: Option<String>,
    /// `inbound` or `passthrough`: whether the agent gets interactions as events or whole.
    #[serde(default)]
    pub(super) interactions: Option<String>,
    /// True deletes what the agent's gateways declared about messages of groups.
    #[serde(default)]
    pub(super) clear_relevance: bool,
    /// True deletes what the agent declared about authors without a link.
    #[serde(default)]
    pub(super) clear_principals: bool,
    /// Profile of the agent; null removes it, absent leaves it.
    #[serde(default, deserialize_with = "said")]
    pub(super) profile: Option<Option<String>>,
    /// `PLATFORM:ID` of shared bots that it uses from now on.
    #[serde(default)]
    pub(super) use_bots: Vec<String>,
    /// What happens to messages that waited too long. Null removes it; absent leaves it.
    #[serde(default, deserialize_with = "said")]
    pub(super) staleness: Option<Option<StaleSetting>>,
}

impl AgentChange {
    pub(super) fn hold_back(&self) -> Result<Option<HoldBack>, AdminProblem> {
        let Some(text) = &self.hold_back else { return Ok(None) };
        text.parse().map(Some).map_err(|()| {
            AdminProblem::unfit(
                "bad_hold_back",
                format!("`{text}` is not a value of hold_back: use on, off or drain"),
            )
        })
    }

    pub(super) fn interactions(&self) -> Result<Option<InteractionMode>, AdminProblem> {
        let Some(text) = &self.interactions else { return Ok(None) };
        text.parse().map(Some).map_err(|()| {
            AdminProblem::unfit(
                "bad_interactions",
                format!("`{text}` is not a value of interactions: use inbound or passthrough"),
            )
        })
    }

    pub(super) fn generation(&self) -> Result<Option<Generation>, AdminProblem> {
        let Some(text) = &self.generation else { return Ok(None) };
        text.parse().map(Some).map_err(|()| {
            let detail = format!("`{text}` is not a generation: use auto, 0.19 or newer");
            AdminProblem::unfit("bad_generation", detail)
        })
    }
}

fn said<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}
