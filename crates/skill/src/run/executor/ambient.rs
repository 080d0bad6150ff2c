//! Variables that exist before the first operation: the time, the user, the trigger, defaults and inputs.

use crate::run::context::RunContext;
use crate::run::host::{SkillHost, millis};
use crate::run::literal::coerce;
use crate::run::prepare::PreparedSkill;
use crate::run::timestamp::iso_text;
use crate::run::value::SkillValue;
use crate::run::variables::Variables;

/// Ambient variables first, then defaults, inputs and what the trigger sets. A later one replaces an earlier one of the same name.
pub fn initial_variables(host: &dyn SkillHost, skill: &PreparedSkill, context: &RunContext) -> Variables {
    let mut variables = Variables::default();
    let now = host.unix_millis();
    let seconds = now.div_euclid(1000);
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of dates are below 2^53")]
    let iso = iso_text(now as f64).unwrap_or_default();
    let mut set = |name: &str, value: SkillValue| variables.set(name, Some(value));
    set("NOW", iso.into());
    set("USER", context.owner.as_deref().unwrap_or("unknown").into());
    set("SESSION_CONTEXT", "".into());
    set("TRIGGER_TYPE", "inline".into());
    set("TRIGGER_PAYLOAD", "".into());
    set("EVENT.fired_at", millis(now));
    set("EVENT.fired_at_unix", millis(seconds));
    set("EVENT.fired_at_plus_1h_unix", millis(seconds + 3600));
    set("EVENT.fired_at_plus_1d_unix", millis(seconds + 86_400));
    set("EVENT.fired_at_plus_7d_unix", millis(seconds + 604_800));
    for var in &skill.tree.header.vars {
        if let Some(default) = &var.default {
            set(&var.name, coerce(default.clone().into()));
        }
    }
    for (name, value) in skill.variables.iter().chain(&context.variables) {
        let value = match value {
            SkillValue::Text(text) => coerce(text.clone()),
            other => other.clone(),
        };
        set(name, value);
    }
    variables
}
