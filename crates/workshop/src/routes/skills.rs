//! `/v1/skills`: skills of the caller's tenant.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::IntoResponse;
use http::StatusCode;
use http::request::Parts;
use http_kit::{Fields, Page, PageSize, Problem, QueryReader, opaque};
use serde_json::{Value, json};
use skill::{SkillType, Status};

use super::problem::answered;
use super::{HttpAnswer, PAGE};
use crate::skill_filter::SkillFilter;
use crate::skill_meta::{SkillMeta, VersionInfo};
use crate::skill_store::SkillPage;
use crate::skills::SkillWrite;
use crate::workshop::Workshop;

/// The number of lines on a page of a history.
const LINES: PageSize = PageSize { default: 1000, largest: 1000 };
const STATUSES: &str = "must be Draft, Approved or Disabled";
/// The longest author, in bytes.
const AUTHOR: usize = 128;

type NamePath = Result<Path<String>, PathRejection>;

pub(super) async fn list(State(workshop): State<Workshop>, head: Parts) -> HttpAnswer {
    let by = workshop.authenticate(&head).await?;
    let mut query = QueryReader::read(&head.uri)?;
    let limit = query.limit(PAGE)?;
    let filter = SkillFilter {
        status: statuses(&mut query)?,
        skill_type: skill_type(&mut query)?,
        tags: query.text("tag").map(|tags| listed(&tags)),
        author: query.text("author"),
        since: query.whole("since")?,
        name_pattern: query.text("name_pattern"),
        after: query.after(|name| Some(name.to_owned()))?,
        limit: None,
        offset: 0,
    };
    query.end()?;
    let _turn = workshop.answer_turn(&by.tenant).await?;
    let page = answered(workshop.skills().page(&by, filter, limit).await)?;
    Ok(Json(shown(page, |skill: SkillMeta| json!(skill))).into_response())
}

pub(super) async fn show(State(workshop): State<Workshop>, path: NamePath, head: Parts) -> HttpAnswer {
    let by = workshop.authenticate(&head).await?;
    let mut query = QueryReader::read(&head.uri)?;
    let version = query.text("version");
    query.end()?;
    let loaded = answered(workshop.skills().load(&by, &named(path), version.as_deref()).await)?;
    Ok(Json(loaded).into_response())
}

pub(super) async fn versions(State(workshop): State<Workshop>, path: NamePath, head: Parts) -> HttpAnswer {
    let by = workshop.authenticate(&head).await?;
    let mut query = QueryReader::read(&head.uri)?;
    let (limit, after) = (query.limit(LINES)?, query.after(|cursor| cursor.parse::<u32>().ok())?);
    query.end()?;
    let page = workshop
        .skills()
        .versions(&by, &named(path), after.map(|after| after.to_string()).as_deref(), limit)
        .await;
    Ok(Json(shown(answered(page)?, |line: VersionInfo| json!(line))).into_response())
}

pub(super) async fn dependents(State(workshop): State<Workshop>, path: NamePath, head: Parts) -> HttpAnswer {
    let by = workshop.authenticate(&head).await?;
    QueryReader::read(&head.uri)?.end()?;
    let dependents = answered(workshop.skills().dependents(&by, &named(path)).await)?;
    Ok(Json(Page::all(dependents)).into_response())
}

pub(super) async fn write(State(workshop): State<Workshop>, path: NamePath, request: Request) -> HttpAnswer {
    let (by, mut fields) = workshop.authenticate_and_read(request).await?;
    let write = SkillWrite {
        source: fields.text("source")?,
        author: fields.optional_label("author", AUTHOR)?,
        status: optional_status(&mut fields)?,
        force_draft: fields.optional_switch("force_draft")?.unwrap_or(false),
        metadata_bag: fields.optional_object("metadata_bag")?,
        if_version: fields.optional_text("if_version")?,
        only_new: !fields.optional_switch("overwrite")?.unwrap_or(true),
    };
    fields.end()?;
    let name = named(path);
    let written = workshop
        .to_the_end(async move |workshop: Workshop| workshop.skills().write(&by, &name, write).await)
        .await?;
    Ok(Json(written).into_response())
}

pub(super) async fn set_status(
    State(workshop): State<Workshop>,
    path: NamePath,
    request: Request,
) -> HttpAnswer {
    let (by, mut fields) = workshop.authenticate_and_read(request).await?;
    let status = optional_status(&mut fields)?;
    let status = status.ok_or_else(|| Problem::invalid_field("status", "is missing"))?;
    fields.end()?;
    let name = named(path);
    let changed = workshop
        .to_the_end(async move |workshop: Workshop| workshop.skills().set_status(&by, &name, status).await)
        .await?;
    Ok(Json(changed).into_response())
}

pub(super) async fn remove(State(workshop): State<Workshop>, path: NamePath, head: Parts) -> HttpAnswer {
    let by = workshop.authenticate(&head).await?;
    let mut query = QueryReader::read(&head.uri)?;
    let force = query.switch("force")?;
    query.end()?;
    let name = named(path);
    workshop
        .to_the_end(async move |workshop: Workshop| workshop.skills().delete(&by, &name, force).await)
        .await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn restore(State(workshop): State<Workshop>, path: NamePath, head: Parts) -> HttpAnswer {
    let by = workshop.authenticate(&head).await?;
    QueryReader::read(&head.uri)?.end()?;
    let name = named(path);
    let restored = workshop
        .to_the_end(async move |workshop: Workshop| workshop.skills().restore(&by, &name).await)
        .await?;
    Ok(Json(restored).into_response())
}

pub(super) async fn deleted(State(workshop): State<Workshop>, head: Parts) -> HttpAnswer {
    let by = workshop.authenticate(&head).await?;
    let mut query = QueryReader::read(&head.uri)?;
    let (limit, after) = (query.limit(PAGE)?, query.after(|name| Some(name.to_owned()))?);
    query.end()?;
    let page = answered(workshop.skills().deleted(&by, after.as_deref(), limit).await)?;
    let line = |skill: ledger::DeletedSkill| {
        json!({
            "name": skill.name,
            "content_hash": skill.content_hash,
            "status": skill.status,
            "updated_at": skill.updated.seconds(),
        })
    };
    Ok(Json(shown(page, line)).into_response())
}

pub(super) async fn describe(State(workshop): State<Workshop>, head: Parts) -> HttpAnswer {
    let by = workshop.authenticate(&head).await?;
    QueryReader::read(&head.uri)?.end()?;
    let store = answered(workshop.skills().describe(&by).await)?;
    let version = answered(workshop.skills().version(&by).await)?;
    let mut shown = json!({
        "implementation": store.implementation,
        "capabilities_version": store.manifest.capabilities_version,
        "manifest": store.manifest.manifest,
        "features": store.features,
    });
    if let Some(version) = version {
        shown["version"] = version.into();
    }
    Ok(Json(shown).into_response())
}

/// The name in the path. One that cannot be read is no name of a skill either, so it is not found.
fn named(path: NamePath) -> String {
    path.map(|Path(name)| name).unwrap_or_default()
}

fn shown<T>(page: SkillPage<T>, line: impl FnMut(T) -> Value) -> Page<Value> {
    opaque(Page { items: page.items, next: page.next }.map(line))
}

/// The entries of a list that commas separate.
pub(super) fn listed(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
}

fn optional_status(fields: &mut Fields) -> Result<Option<Status>, Problem> {
    fields.optional_word("status", exact_status, "Draft, Approved, Disabled")
}

/// A status in its only spelling.
pub(super) fn exact_status(word: &str) -> Option<Status> {
    Status::named(word).filter(|status| status.as_str() == word)
}

fn statuses(query: &mut QueryReader) -> Result<Option<Vec<Status>>, Problem> {
    let Some(words) = query.text("status") else { return Ok(None) };
    let statuses: Option<Vec<_>> = listed(&words).iter().map(|word| exact_status(word)).collect();
    statuses.map(Some).ok_or_else(|| Problem::invalid_field("status", STATUSES))
}

fn skill_type(query: &mut QueryReader) -> Result<Option<SkillType>, Problem> {
    match query.text("type").as_deref() {
        None => Ok(None),
        Some("procedural") => Ok(Some(SkillType::Procedural)),
        Some("data") => Ok(Some(SkillType::Data)),
        Some(_) => Err(Problem::invalid_field("type", "must be procedural or data")),
    }
}
