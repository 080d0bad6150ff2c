//! Admin API: uses of capabilities and of bots' credentials.

use axum::Json;
use axum::extract::{Path, State};
use http_kit::{Page, PageSize};
use ledger::CredentialUse;
use posthouse_time::Moment;
use posthouse_wire::{ActionId, EntryId};
use serde::{Deserialize, Serialize};

use crate::extract::QueryParams;
use crate::problem::AdminProblem;
use crate::routes::Console;

/// Number of uses per page.
const USES: PageSize = PageSize { default: 100, largest: 1000 };

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UsesQuery {
    tenant: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

/// One use. It names the kind of the credential and never its value.
#[derive(Serialize)]
pub(crate) struct ShownUse {
    at: String,
    kind: String,
    entry: Option<EntryId>,
    action: Option<ActionId>,
    called: Option<String>,
    outcome: Option<String>,
}

/// Lists the uses of an agent, newest first.
pub(crate) async fn list(
    State(console): State<Console>,
    Path(agent): Path<String>,
    QueryParams(which): QueryParams<UsesQuery>,
) -> Result<Json<Page<ShownUse>>, AdminProblem> {
    let (_, instance) = console.agent(&agent, which.tenant.as_deref()).await?;
    let limit = USES.clamp(which.limit);
    let after = which.after.as_deref().map(position).transpose()?;
    let at_most = u32::try_from(limit + 1).unwrap_or(u32::MAX);
    let uses = console.uses.credential_uses(&instance.id, after, at_most).await?;
    let page = Page::one_less(limit, uses, |one| format!("{}:{}", one.at.millis(), one.position.as_str()));
    Ok(Json(page.map(shown)))
}

/// The position that a page named as its end.
fn position(text: &str) -> Result<(Moment, ActionId), AdminProblem> {
    let (at, action) = text.split_once(':').unwrap_or((text, ""));
    let at = at.parse().map_err(|_| {
        AdminProblem::unfit("bad_position", format!("`{text}` is not a position: use `next` of a page"))
    })?;
    Ok((Moment::from_millis(at), ActionId::new(action)))
}

fn shown(one: CredentialUse) -> ShownUse {
    let CredentialUse { at, kind, entry, action, called, outcome, position: _ } = one;
    ShownUse { at: at.to_string(), kind, entry, action, called, outcome }
}
