//! The body of a change of an agent, with its checks.

use ledger::{Generation, HoldBack, InteractionMode};
use posthouse_wire::GatewayId;
use serde::{Deserialize, Deserializer};

use crate::problem::AdminProblem;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentChange {
    /// Null removes it; absent leaves it.
    #[serde(default, deserialize_with = "said")]
    pub(super) wake_url: Option<Option<String>>,
    /// Null removes it; absent leaves it.
    #[serde(default, deserialize_with = "said")]
    pub(super) callback_url: Option<Option<String>>,
    /// Null means the stock cursor, an empty text means none.
    #[serde(default, deserialize_with = "said")]
    pub(super) stream_cursor: Option<Option<String>>,
    /// `auto`, `0.19` or `newer`: pins the generation of the agent's gateways; `auto` removes the pin.
    #[serde(default)]
    generation: Option<String>,
    /// The credential that `generation` applies to; absent means all of them.
    #[serde(default)]
    pub(super) gateway_id: Option<GatewayId>,
    /// `on`, `off` or `drain`: whether further messages of a chat wait until the agent's turn in it has ended.
    #[serde(default)]
    hold_back: Option<String>,
    /// `inbound` or `passthrough`: whether the agent gets interactions as events or whole.
    #[serde(default)]
    interactions: Option<String>,
    /// True deletes what the agent's gateways declared about messages of groups.
    #[serde(default)]
    pub(super) clear_relevance: bool,
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
        match (&self.generation, &self.gateway_id) {
            (None, None) => Ok(None),
            (None, Some(_)) => {
                let detail = "gateway_id needs generation".to_owned();
                Err(AdminProblem::unfit("bad_generation", detail))
            }
            (Some(text), _) => text.parse().map(Some).map_err(|()| {
                let detail = format!("`{text}` is not a generation: use auto, 0.19 or newer");
                AdminProblem::unfit("bad_generation", detail)
            }),
        }
    }
}

fn said<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(from).map(Some)
}
