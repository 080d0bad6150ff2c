//! `GET /v1/skill-catalogue`: the catalogue of skills.

use axum::extract::State;
use axum::response::IntoResponse;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http_kit::{PageSize, Problem, QueryReader, encode_cursor};
use skill::{Status, TriggerSource};

use super::HttpAnswer;
use super::problem::answered;
use super::skills::{exact_status, listed};
use crate::catalogue::{Audience, CatalogueAnswer, CatalogueQuery};
use crate::workshop::Workshop;

/// The largest `limit`: the number of skills of a tenant.
const ENTRIES: PageSize = PageSize { default: usize::MAX, largest: ledger::SKILLS_OF_A_TENANT as usize };

pub(super) async fn show(State(workshop): State<Workshop>, head: Parts) -> HttpAnswer {
    let by = workshop.authenticate(&head).await?;
    let mut query = QueryReader::read(&head.uri)?;
    let limit = query.limit(ENTRIES)?;
    let wanted = CatalogueQuery {
        audience: word(&mut query, "audience", Audience::named, "agent, all, headless")?.unwrap_or_default(),
        status: word(&mut query, "status", exact_status, "Draft, Approved, Disabled")?
            .unwrap_or(Status::Approved),
        trigger_kind: word(&mut query, "trigger_kind", trigger, "cron, event")?,
        domain_tags: query.text("domain_tags").map(|tags| listed(&tags)).unwrap_or_default(),
        name_prefix: query.text("name_prefix"),
        author: query.text("author"),
        if_none_match: query.text("if_none_match"),
        after: query.after(|name| Some(name.to_owned()))?,
        limit: Some(limit),
        ..CatalogueQuery::default()
    };
    query.end()?;
    let _turn = workshop.answer_turn(&by.tenant).await?;
    let mut found = answered(workshop.catalogue().list(&by, &wanted).await)?;
    if let CatalogueAnswer::Listed(listing) = &mut found {
        listing.next = listing.next.take().map(encode_cursor);
    }
    Ok(([(CONTENT_TYPE, "application/json")], found.to_json()).into_response())
}

fn trigger(word: &str) -> Option<TriggerSource> {
    match word {
        "cron" => Some(TriggerSource::Cron),
        "event" => Some(TriggerSource::Event),
        _ => None,
    }
}

/// One word of a closed set.
fn word<T>(
    query: &mut QueryReader,
    name: &str,
    known: impl Fn(&str) -> Option<T>,
    are: &str,
) -> Result<Option<T>, Problem> {
    let Some(word) = query.text(name) else { return Ok(None) };
    known(&word).map(Some).ok_or_else(|| Problem::invalid_field(name, format!("must be one of {are}")))
}
