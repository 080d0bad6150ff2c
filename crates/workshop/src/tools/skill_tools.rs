//! Tools for skills: `skill_list`, `skill_read`, `skill_write`, `skill_status`.

use std::sync::Arc;

use http_kit::Fields;
use post::Caller;
use serde_json::{Map, Value, json};
use skill::{Status, TriggerSource};

use super::tool_calls::LARGEST_RESULT;
use super::tool_failure::ToolFailure;
use super::tool_list::ToolSurface;
use crate::catalogue::{Audience, Catalogue, CatalogueQuery};
use crate::skill_store::StoreAnswer;
use crate::skills::{SkillWrite, TenantSkills};
use crate::store_refusal::{RefusalReason, StoreRefusal, WriteConflict};
use crate::write_rules::BODY_BYTES;

/// Room for everything in the result of a list that is not a skill.
const MARGIN: usize = 8 * 1024;

pub async fn read(
    skills: &TenantSkills,
    by: &Caller,
    arguments: &Map<String, Value>,
    surface: ToolSurface,
) -> Result<Value, ToolFailure> {
    let name = required(arguments, "skill_read", "name")?;
    let version = arguments.get("version").and_then(Value::as_str);
    let loaded = answered(skills.load(by, name, version).await)?;
    let mut result = json!({
        "name": loaded.name,
        "version": loaded.version,
        "status": loaded.metadata.status.as_str(),
        "source": loaded.source,
    });
    if surface == ToolSurface::Mcp {
        result["content_hash"] = loaded.content_hash.into();
    }
    Ok(result)
}

/// At `/mcp` what is written becomes a Draft, whoever writes it.
pub async fn write(
    skills: &TenantSkills,
    by: &Caller,
    arguments: &Map<String, Value>,
    surface: ToolSurface,
) -> Result<Value, ToolFailure> {
    let name = required(arguments, "skill_write", "name")?;
    let source = required(arguments, "skill_write", "source")?;
    let write = SkillWrite {
        source: source.to_owned(),
        author: by.attested.clone(),
        force_draft: surface == ToolSurface::Mcp,
        only_new: arguments.get("overwrite") != Some(&Value::Bool(true)),
        ..SkillWrite::default()
    };
    let written = match skills.write(by, name, write).await {
        Ok(Err(StoreRefusal {
            reason: RefusalReason::StorageConflict { name, conflict: WriteConflict::Exists },
            ..
        })) => {
            return Err(ToolFailure::classed(
                "StorageConflictError",
                format!("skill_write: '{name}' already exists. Pass overwrite=true to replace."),
            ));
        }
        other => answered(other)?,
    };
    Ok(json!({
        "name": written.name,
        "version": written.version,
        "content_hash": written.content_hash,
        "status": written.status.as_str(),
        "changed_at": written.changed_at,
    }))
}

/// At `/mcp` nothing can be approved, whoever asks.
pub async fn set_status(
    skills: &TenantSkills,
    by: &Caller,
    arguments: &Map<String, Value>,
    surface: ToolSurface,
) -> Result<Value, ToolFailure> {
    let name = required(arguments, "skill_status", "name")?;
    let state = arguments.get("new_state").cloned().unwrap_or_default();
    let Some(status) = state.as_str().and_then(exact_status) else {
        return Err(ToolFailure::arguments(format!(
            "`skill_status` requires `new_state` to be one of \"Draft\", \"Approved\", \"Disabled\"; got {state}."
        )));
    };
    if surface == ToolSurface::Mcp && status == Status::Approved {
        return Err(ToolFailure::classed(
            "ApprovalRejectedError",
            "nothing can be approved here: a person approves skills with `posthouse skill approve`",
        ));
    }
    let changed = answered(skills.set_status(by, name, status).await)?;
    let mut changed = json!(changed);
    // The line of history also says who changed it, which the reference runtime leaves out here.
    if let (ToolSurface::Rpc, Some(changed)) = (surface, changed.as_object_mut()) {
        changed.remove("changed_by");
    }
    Ok(changed)
}

/// The catalogue as JSON text. At `/mcp` it is cut so that it fits into one event.
pub async fn list(
    catalogue: &Arc<Catalogue>,
    by: &Caller,
    arguments: &Map<String, Value>,
    surface: ToolSurface,
) -> Result<String, ToolFailure> {
    let mut query = query_of(arguments)?;
    if surface == ToolSurface::Mcp {
        query.largest = LARGEST_RESULT - MARGIN;
    }
    Ok(answered(catalogue.list(by, &query).await)?.to_json())
}

/// The query of `skill_list`. What cannot be meant is refused, so that nobody gets a list of something else.
fn query_of(arguments: &Map<String, Value>) -> Result<CatalogueQuery, ToolFailure> {
    let mut fields = Fields::of(arguments.clone());
    let mut query = CatalogueQuery::default();
    if fields.has("filter") {
        let mut filter = fields.object("filter", "filter.")?;
        query.audience =
            filter.optional_word("audience", Audience::named, "agent, all, headless")?.unwrap_or_default();
        query.status = filter
            .optional_word("status", exact_status, "Draft, Approved, Disabled")?
            .unwrap_or(Status::Approved);
        query.trigger_kind = filter.optional_word("trigger_kind", trigger, "cron, event")?;
        query.domain_tags = filter.optional_names("domain_tags")?.unwrap_or_default();
        query.name_prefix = filter.optional_text("name_prefix")?;
        query.author = filter.optional_text("author")?;
        filter.end()?;
    }
    query.if_none_match = fields.optional_text("if_none_match")?;
    query.after = fields.optional_text("after")?;
    query.limit = match fields.optional_whole("limit")? {
        None => None,
        Some(limit) => match usize::try_from(limit) {
            Ok(limit) if limit > 0 => Some(limit),
            _ => return Err(fields.field_error("limit", "must be a whole number from 1 on").into()),
        },
    };
    Ok(query)
}

fn exact_status(word: &str) -> Option<Status> {
    Status::named(word).filter(|status| status.as_str() == word)
}

fn trigger(word: &str) -> Option<TriggerSource> {
    match word {
        "cron" => Some(TriggerSource::Cron),
        "event" => Some(TriggerSource::Event),
        _ => None,
    }
}

/// A text that must be there. The words are those of the reference runtime.
pub fn required<'a>(
    arguments: &'a Map<String, Value>,
    tool: &str,
    name: &str,
) -> Result<&'a str, ToolFailure> {
    let text = arguments.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    text.ok_or_else(|| ToolFailure::arguments(format!("{tool}: `{name}` is required (non-empty string).")))
}

/// A text that the caller brings. It has the limit of a stored one.
pub fn given_text(tool: &str, text: &str) -> Result<String, ToolFailure> {
    if text.len() <= BODY_BYTES {
        return Ok(text.to_owned());
    }
    let size = text.len();
    Err(ToolFailure::arguments(format!(
        "{tool}: `source` has {size} bytes, and the text of a skill has at most {BODY_BYTES}."
    )))
}

/// The answer of a store, or the failure that the caller gets.
pub fn answered<T>(answer: StoreAnswer<T>) -> Result<T, ToolFailure> {
    match answer {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(refusal)) => Err(ToolFailure::classed(refusal.reason.class(), refusal.to_string())),
        Err(fault) => Err(ToolFailure::fault(&fault)),
    }
}
