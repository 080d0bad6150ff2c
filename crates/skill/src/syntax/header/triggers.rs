//! The `# Triggers:` line: schedules and events that start a skill.

use serde::Serialize;

use super::Mistakes;
use crate::syntax::blanks::{is_blank, trim, unquoted};

/// What starts a skill by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkillTrigger {
    pub source: TriggerSource,
    /// The cron expression, or the name of the event.
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TriggerSource {
    Cron,
    Event,
}

pub fn read(value: &str, wrong: &mut Mistakes<'_>) -> Vec<SkillTrigger> {
    split_entries(value).into_iter().filter_map(|entry| trigger(entry, wrong)).collect()
}

/// Splits at commas before `cron:` or `event:`, so that a cron expression may contain commas.
fn split_entries(value: &str) -> Vec<&str> {
    let mut entries = Vec::new();
    let mut start = 0;
    for (at, _) in value.match_indices(',') {
        let rest = value[at + 1..].trim_start_matches(is_blank);
        if rest.starts_with("cron:") || rest.starts_with("event:") {
            entries.push(&value[start..at]);
            start = at + 1;
        }
    }
    entries.push(&value[start..]);
    entries.into_iter().map(trim).filter(|entry| !entry.is_empty()).collect()
}

fn trigger(entry: &str, wrong: &mut Mistakes<'_>) -> Option<SkillTrigger> {
    let Some((source, name)) = entry.split_once(':') else {
        wrong.invalid(format!("`# Triggers:` '{entry}' is not 'cron: EXPRESSION' or 'event: NAME'"));
        return None;
    };
    let source = trim(source);
    let source = if source.eq_ignore_ascii_case("cron") {
        TriggerSource::Cron
    } else if source.eq_ignore_ascii_case("event") {
        TriggerSource::Event
    } else {
        wrong.invalid(format!("`# Triggers:` source '{source}' is not supported; use cron or event"));
        return None;
    };
    // With its quotes a cron expression would never match.
    let name = trim(unquoted(trim(name)));
    if name.is_empty() {
        wrong.invalid(format!("`# Triggers:` '{entry}' has an empty name"));
        return None;
    }
    Some(SkillTrigger { source, name: name.to_owned() })
}
