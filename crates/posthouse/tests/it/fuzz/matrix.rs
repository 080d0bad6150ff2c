//! Fuzzing of Matrix: tokens of homeservers, and transactions.

use edge::matrix::{Matrix, MatrixRoom};
use edge::platform::{Platform, UnverifiedRequest, VerifiedRequest, verify_request};
use edge::{Credentials, OpenedBot};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Method};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::Secret;
use serde_json::{Value, json};

use super::Target;

const VECTORS: &[&str] =
    &["platforms/payloads_matrix.json", "platforms/payloads_matrix_v12.json", "platforms/verify_matrix.json"];
const TOKEN: &str = "hs_a1191ecff8c7ed68a5b9f5247cc3d685";

fn matrix() -> Matrix {
    Matrix::new("http://127.0.0.1:9", Timepiece::wall())
}

fn bot() -> OpenedBot {
    let mut credentials = Credentials::default();
    credentials.insert("hs_token", Secret::new(TOKEN));
    let settings = json!({ "user_id": "@posty:hs.test", "allow_query_token": "true" });
    OpenedBot {
        platform: "matrix".into(),
        id: "posty.hs.test".into(),
        shared: false,
        settings: settings.as_object().unwrap().clone(),
        credentials,
    }
}

/// Only the token itself is accepted, in the header or in the query.
pub fn tokens() -> Target {
    let (matrix, bot) = (matrix(), bot());
    let read = move |input: &[u8]| {
        let accepts = |header: Option<HeaderValue>, query: &str| {
            let headers = header.map(|value| (http::header::AUTHORIZATION, value));
            let raw = UnverifiedRequest {
                method: Method::PUT,
                door: "/_matrix/app/v1/transactions/1".to_owned(),
                query: query.to_owned(),
                headers: HeaderMap::from_iter(headers),
                body: Vec::new().into(),
                received: Moment::from_seconds(1_765_000_000),
                server_url: "http://127.0.0.1:9".into(),
            };
            verify_request(&matrix, &bot, raw).now_or_never().unwrap().is_ok()
        };
        let text = String::from_utf8_lossy(input);
        let header = HeaderValue::from_bytes(input).ok();
        let in_header = header.clone().is_some_and(|header| accepts(Some(header), ""));
        let in_query = accepts(None, &text);
        assert!(!in_header || text.contains(TOKEN), "{text}");
        assert!(!in_query || text.contains(TOKEN) || text.contains('%'), "{text}");
        let known = HeaderValue::from_static("Bearer hs_a1191ecff8c7ed68a5b9f5247cc3d685");
        let beside = accepts(Some(known), &text);
        assert!(
            beside || text.contains("access_token") || text.contains('%') || text.contains('+'),
            "{text}"
        );
        format!("{in_header} {in_query} {beside} {}", header.is_some())
    };
    Target { corpus: "matrix", vectors: VECTORS, read: Box::new(read) }
}

/// Everything that is read as an event can be delivered, and leads only to ids of the right kind.
pub fn payloads() -> Target {
    let (matrix, bot) = (matrix(), bot());
    matrix.note_room(&bot.id, "!r1:hs.test", MatrixRoom { members: 5, ..MatrixRoom::default() });
    let read = move |input: &[u8]| {
        let parsed: Option<Value> = serde_json::from_slice(input).ok();
        // A case of the vectors holds the payload; anything else is tried as it is.
        let payload = parsed.as_ref().and_then(|case| case.get("raw")).cloned().or(parsed);
        let bytes = payload.map_or_else(|| input.to_vec(), |payload| payload.to_string().into_bytes());
        let verified = VerifiedRequest::fetched(bytes, Moment::from_seconds(1));
        let reading = match matrix.normalize(&bot, verified) {
            Ok(reading) => reading,
            Err(refusal) => return refusal.reason.to_owned(),
        };
        let mut results: Vec<String> = reading.ignored.iter().map(|reason| (*reason).to_owned()).collect();
        for arrival in reading.arrivals.iter().chain(&reading.from_bots) {
            let source = &arrival.event.source;
            assert!(source.chat_id.as_ref().unwrap().as_str().starts_with('!'));
            assert!(source.user_id.as_ref().unwrap().as_str().starts_with('@'));
            assert!(arrival.references.iter().all(|reference| reference.starts_with("mxc://")));
            assert!(arrival.capabilities.is_empty());
            results.push(format!("{:?} {}", arrival.event.message_type, arrival.references.len()));
        }
        for call in &reading.service_calls {
            assert!(call.0.value.expose().starts_with('!'), "a call about something else than a room");
            results.push(format!("{:?}", call.0.kind));
        }
        results.truncate(6);
        results.join(", ")
    };
    Target { corpus: "matrix", vectors: VECTORS, read: Box::new(read) }
}
