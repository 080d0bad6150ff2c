//! `GET /v1/receipts` and `/v1/receipts/{dispatch_id}`.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use http::request::Parts;
use http_kit::{Page, Problem, QueryReader, encode_cursor};
use ledger::{Digest, Receipt, ReceiptState};
use posthouse_time::Moment;
use posthouse_wire::DispatchId;
use posthouse_wire::delivery::{DeliveryFailed, is_dispatch_id};
use serde_json::{Value, json};

use super::{Answer, PostApi, problem};
use crate::receipt::sent;
use crate::requests::{PAGE, ReceiptListing, ReceiptWithReplies, SentReceipt};

pub(crate) async fn list(State(door): State<PostApi>, head: Parts) -> Answer {
    let by = door.authenticate(&head).await?;
    let mut query = QueryReader::read(&head.uri)?;
    let limit = query.limit(PAGE)?;
    let listing = ReceiptListing {
        agent: query.text("agent"),
        state: state(&mut query)?,
        before: None,
        limit: Some(limit),
    };
    let after = query.after(place)?;
    query.end()?;
    let before = match &after {
        Some((dispatch, digest)) => door.post.receipts().position_of(&by, dispatch, *digest).await?,
        None => None,
    };
    if after.is_some() && before.is_none() {
        // The oldest receipts are pruned first. If the one of the cursor is gone, all older ones are gone too.
        return Ok(Json(Page::<Value>::all(Vec::new())).into_response());
    }
    let listing = ReceiptListing { before, ..listing };
    let receipts = door.post.receipts().list(&by, listing).await?;
    let page = Page::up_to(limit, receipts, |last| {
        let Receipt { dispatch, digest, .. } = &last.receipt;
        encode_cursor(format!("{}/{dispatch}", hex::encode(digest)))
    });
    Ok(Json(page.map(|receipt| render_receipt(&receipt))).into_response())
}

/// The cursor of a page of receipts. It consists of values that the caller knows, because our row numbers would
/// reveal how much all tenants send.
fn place(text: &str) -> Option<(DispatchId, Digest)> {
    let (digest, dispatch) = text.split_once('/')?;
    let mut read = Digest::default();
    hex::decode_to_slice(digest, &mut read).ok()?;
    is_dispatch_id(dispatch).then(|| (DispatchId::new(dispatch), read))
}

pub(crate) async fn show(
    State(door): State<PostApi>,
    path: Result<Path<String>, PathRejection>,
    head: Parts,
) -> Answer {
    let by = door.authenticate(&head).await?;
    QueryReader::read(&head.uri)?.end()?;
    let dispatch = match path {
        Ok(Path(id)) if is_dispatch_id(&id) => DispatchId::from(id),
        _ => return Err(problem::absent()),
    };
    let receipts = door.post.receipts().of_dispatch(&by, &dispatch).await?;
    let items: Vec<Value> = receipts.iter().map(render_receipt).collect();
    Ok(Json(json!({ "dispatch_id": dispatch, "items": items })).into_response())
}

fn state(query: &mut QueryReader) -> Result<Option<ReceiptState>, Problem> {
    let Some(word) = query.text("state") else { return Ok(None) };
    ReceiptState::from_word(&word).map(Some).ok_or_else(|| {
        let known = ReceiptState::ALL.map(ReceiptState::word).join(", ");
        problem::invalid("state", format!("must be one of {known}"))
    })
}

/// A receipt as JSON: times in ms, and the contract's receipt for the sender.
pub fn render_receipt(ReceiptWithReplies { receipt, replies }: &ReceiptWithReplies) -> Value {
    let mut line = json!({
        "dispatch_id": receipt.dispatch,
        "connector": receipt.connector,
        "agent_id": receipt.agent,
        "route": receipt.verb.word(),
        "state": receipt.state.word(),
        "sent_at": receipt.sent_at.millis(),
        "accepted_at": receipt.accepted_at.millis(),
        "receipt": match sent(receipt) {
            Ok(SentReceipt::Delivered(receipt)) => json!(receipt),
            Ok(SentReceipt::Woken(receipt)) => json!(receipt),
            Err(_) => Value::Null,
        },
        "replies": replies.iter().map(|reply| json!({
            "at": reply.at.millis(),
            "kind": reply.what.word(),
            "message_id": reply.message,
            "text": reply.text,
        })).collect::<Vec<_>>(),
    });
    let lag = receipt.delivered_at.map(|at| at.millis().saturating_sub(receipt.sent_at.millis()));
    for (name, number) in [
        ("delivered_at", receipt.delivered_at.map(Moment::millis)),
        ("acknowledged_at", receipt.acknowledged_at.map(Moment::millis)),
        ("queue_lag_ms", lag),
        ("due_at", receipt.due.map(Moment::millis)),
        ("attempts", Some(i64::from(receipt.attempts)).filter(|made| *made > 0)),
    ] {
        if let Some(number) = number {
            line[name] = number.into();
        }
    }
    if let Some(session) = &receipt.session {
        line["session_id"] = session.as_str().into();
    }
    if let Some(kept) = &receipt.error {
        error(kept, &mut line);
    }
    line
}

/// Adds a stored failure to a JSON object: its message and its kind.
pub(super) fn error(kept: &str, line: &mut Value) {
    match serde_json::from_str::<DeliveryFailed>(kept) {
        Ok(failed) => {
            line["error"] = failed.message.into();
            line["error_kind"] = failed.cause_kind.word().into();
        }
        Err(_) => line["error"] = kept.into(),
    }
}

#[cfg(test)]
mod tests {
    use ledger::{DispatchVerb, ReceiptKey, ReplyKind, StoredReply};

    use super::*;

    fn kept() -> Receipt {
        Receipt {
            key: ReceiptKey(7),
            tenant: "acme".into(),
            dispatch: "d-1".into(),
            digest: [0; 16],
            connector: "relay".to_owned(),
            agent: "perry".to_owned(),
            instance: Some("inst_1".into()),
            chat: Some("post-desk".into()),
            session: Some("desk".to_owned()),
            verb: DispatchVerb::Deliver,
            sender: "tenant:acme".into(),
            sent_by: None,
            sent_at: Moment::from_millis(1_000),
            accepted_at: Moment::from_millis(1_010),
            delivered_at: None,
            acknowledged_at: None,
            state: ReceiptState::Queued,
            due: None,
            attempts: 0,
            error: None,
            skipped: true,
            entry: Some("ent_1".into()),
            answer: None,
        }
    }

    #[test]
    fn a_receipt_of_an_entry_follows_from_the_record() {
        assert_eq!(
            render_receipt(&ReceiptWithReplies { receipt: kept(), replies: Vec::new() }),
            json!({
                "dispatch_id": "d-1", "connector": "relay", "agent_id": "perry", "session_id": "desk",
                "route": "deliver", "state": "queued", "sent_at": 1000, "accepted_at": 1010,
                "receipt": {
                    "delivered_at": 1010, "delivery_id": "ent_1", "session_id": "desk", "delivery_skipped": true,
                },
                "replies": [],
            })
        );
    }

    #[test]
    fn times_queue_lag_and_replies_are_rendered_as_they_come() {
        let receipt = Receipt {
            state: ReceiptState::Acknowledged,
            delivered_at: Some(Moment::from_millis(1_300)),
            acknowledged_at: Some(Moment::from_millis(1_400)),
            skipped: false,
            ..kept()
        };
        let said = StoredReply {
            at: Moment::from_millis(1_500),
            what: ReplyKind::Said,
            message: "m-1".into(),
            text: "good morning".to_owned(),
        };
        let rendered = render_receipt(&ReceiptWithReplies { receipt, replies: vec![said] });
        assert_eq!(rendered["delivered_at"], 1300);
        assert_eq!(rendered["acknowledged_at"], 1400);
        assert_eq!(rendered["queue_lag_ms"], 300);
        let reply = json!({ "at": 1500, "kind": "said", "message_id": "m-1", "text": "good morning" });
        assert_eq!(rendered["replies"], json!([reply]));
    }

    #[test]
    fn a_failure_is_rendered_as_a_text_and_a_kind_and_has_no_receipt() {
        let failed = DeliveryFailed::http_status("desk", 500, "the receiver answered 500");
        let receipt = Receipt {
            connector: "hook".to_owned(),
            state: ReceiptState::Failed,
            attempts: 3,
            error: Some(serde_json::to_string(&failed).unwrap()),
            entry: None,
            ..kept()
        };
        let rendered = render_receipt(&ReceiptWithReplies { receipt, replies: Vec::new() });
        assert_eq!(rendered["receipt"], Value::Null);
        assert_eq!(rendered["error"], "the receiver answered 500");
        assert_eq!(rendered["error_kind"], "http_status");
        assert_eq!(rendered["attempts"], 3);
    }

    #[test]
    fn a_page_of_receipts_goes_on_where_it_ended() {
        let digest = hex::encode([7; 16]);
        assert_eq!(place(&format!("{digest}/d:1")), Some(("d:1".into(), [7; 16])));
        for bad in ["55", "/d-1", "07/d-1", &format!("{digest}/../x")] {
            assert_eq!(place(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_state_is_one_of_the_six() {
        let query =
            |query: &str| QueryReader::read(&format!("/v1/receipts?state={query}").parse().unwrap()).unwrap();
        assert_eq!(state(&mut query("queued")), Ok(Some(ReceiptState::Queued)));
        assert_eq!(state(&mut query("")), Ok(None));
        assert!(state(&mut query("lost")).is_err());
    }
}
