//! Admin API: receipts of the messages of programs, for all tenants.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Path, State};
use http_kit::{Page, PageSize};
use ledger::{ReceiptKey, ReceiptState};
use post::requests::{ReceiptListing, ReceiptWithReplies};
use posthouse_wire::delivery::is_dispatch_id;
use posthouse_wire::{DispatchId, TenantId};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::extract::QueryParams;
use crate::problem::AdminProblem;
use crate::routes::{Console, Parts};

/// Number of receipts per page, smaller than elsewhere because receipts contain the replies of agents.
const RECEIPTS: PageSize = PageSize { default: 50, largest: 200 };

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReceiptsQuery {
    tenant: Option<String>,
    agent: Option<String>,
    state: Option<String>,
    after: Option<i64>,
    limit: Option<usize>,
}

/// Names of the tenants in an answer, fetched on demand.
#[derive(Default)]
pub(crate) struct ReceiptNames(HashMap<TenantId, String>);

impl ReceiptNames {
    /// A receipt as its sender sees it, with its tenant.
    pub async fn render(
        &mut self,
        console: &Parts,
        receipt: &ReceiptWithReplies,
    ) -> Result<Value, AdminProblem> {
        let of = &receipt.receipt.tenant;
        if !self.0.contains_key(of) {
            let found = console.identity.roster.records().tenant(of.as_str()).await?;
            self.0.insert(of.clone(), found.map_or_else(String::new, |tenant| tenant.name));
        }
        let mut rendered = post::render_receipt(receipt);
        rendered["tenant"] = json!(self.0.get(of));
        rendered["tenant_id"] = json!(of);
        Ok(rendered)
    }
}

/// Lists receipts, newest first.
pub(crate) async fn list(
    State(console): State<Console>,
    QueryParams(which): QueryParams<ReceiptsQuery>,
) -> Result<Json<Page<Value>>, AdminProblem> {
    let only = match &which.tenant {
        Some(tenant) => Some(console.tenant(tenant).await?.id),
        None => None,
    };
    let state = match which.state.as_deref() {
        None => None,
        Some(word) => Some(ReceiptState::from_word(word).ok_or_else(unknown_state)?),
    };
    let limit = RECEIPTS.clamp(which.limit);
    let listing =
        ReceiptListing { agent: which.agent, state, before: which.after.map(ReceiptKey), limit: Some(limit) };
    let receipts = console.post.receipts().list_for_operator(only.as_ref(), listing).await?;
    let page = Page::up_to(limit, receipts, |receipt| receipt.receipt.key.0.to_string());
    let (mut names, mut items) = (ReceiptNames::default(), Vec::with_capacity(page.items.len()));
    for receipt in &page.items {
        items.push(names.render(&console, receipt).await?);
    }
    Ok(Json(Page { items, next: page.next }))
}

fn unknown_state() -> AdminProblem {
    let words: Vec<&str> = ReceiptState::ALL.iter().map(|state| state.word()).collect();
    AdminProblem::malformed(format!("`state` must be one of {}", words.join(", ")))
}

/// All receipts of one dispatch. Programs choose these ids, so two tenants may have the same one.
pub(crate) async fn show(
    State(console): State<Console>,
    Path(dispatch): Path<String>,
) -> Result<Json<Value>, AdminProblem> {
    let receipts = console.dispatched(&dispatch).await?;
    if receipts.is_empty() {
        return Err(AdminProblem::absent(
            "no_such_receipt",
            format!("there is no receipt with the dispatch id `{dispatch}`"),
        ));
    }
    let (mut names, mut items) = (ReceiptNames::default(), Vec::with_capacity(receipts.len()));
    for receipt in &receipts {
        items.push(names.render(&console, receipt).await?);
    }
    Ok(Json(json!({ "dispatch_id": dispatch, "items": items })))
}

impl Parts {
    /// The receipts of one dispatch of all tenants, in the order they were opened.
    pub(crate) async fn dispatched(&self, dispatch: &str) -> Result<Vec<ReceiptWithReplies>, AdminProblem> {
        if !is_dispatch_id(dispatch) {
            return Ok(Vec::new());
        }
        match self.post.receipts().of_any_dispatch(&DispatchId::from(dispatch)).await {
            Ok(receipts) => Ok(receipts),
            Err(post::Refused::Absent) => Ok(Vec::new()),
            Err(refused) => Err(refused.into()),
        }
    }
}
