//! `/relay/media`: agents upload files, and get the attachments of their messages (contract section 17.5).

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode};
use http_kit::{ClientAddress, RequestControl};
use identity::{Authentication, GatewayOwner, Principal, QuotaKind};
use ledger::MediaRecord;
use posthouse_time::Timepiece;
use posthouse_wire::MediaId;
use serde_json::json;

use super::RelayDoor;
use super::contract_error::ContractError;
use crate::media::{MEDIA_LIFE, MediaNotKept, MediaReader, MediaWriter, NewMedia, name_in_header};
use crate::{Fault, MediaStore};

/// Time limits for one whole transfer, in addition to the listener's limit for each piece. A stock gateway gives up after
/// 30 s.
const UPLOADED_WITHIN: Duration = Duration::from_secs(60);
const DOWNLOADED_WITHIN: Duration = Duration::from_secs(120);
/// Time within which it is clear that a caller gets nothing. A stock gateway reads nothing else meanwhile.
const REFUSED_WITHIN: Duration = Duration::from_millis(1500);

static FILENAME: HeaderName = HeaderName::from_static("x-media-filename");

/// One answer for an unknown file, an expired one, one of somebody else, and every wrong credential.
const NOT_FOUND: ContractError = ContractError::new(StatusCode::NOT_FOUND, "not found");

pub(super) async fn upload(
    State(door): State<RelayDoor>,
    request: Request,
) -> Result<Response, ContractError> {
    let (head, body) = request.into_parts();
    let checked = door.relay.0.identity.authenticator.connecting_agent(&head.headers, address(&head)).await;
    let caller = ContractError::known(checked, &door.relay.0.identity.quotas, &head).await?;
    let Some(owner) = caller.gateway() else {
        return Err(ContractError::refused(&Authentication::Known(caller)));
    };
    RequestControl::stream_body(&head.extensions);
    let store = &door.relay.0.media;
    let uploading = receive(store, &owner, &head, body);
    let kept = match door.relay.0.timepiece.within(UPLOADED_WITHIN, uploading).await {
        Ok(kept) => kept?,
        Err(_) => {
            return Err(ContractError::new(StatusCode::REQUEST_TIMEOUT, "the file took too long to arrive"));
        }
    };
    Ok(Json(json!({ "id": kept.id, "size": kept.size })).into_response())
}

async fn receive(
    store: &MediaStore,
    owner: &GatewayOwner,
    head: &Parts,
    body: Body,
) -> Result<MediaRecord, ContractError> {
    let text = |name: &HeaderName| head.headers.get(name).and_then(|value| value.to_str().ok());
    let expected = text(&CONTENT_LENGTH).and_then(|length| length.parse().ok());
    let mut writer = store.begin(&owner.tenant, &owner.instance, expected).await?;
    copy(body, &mut writer).await?;
    let filename = head.headers.get(&FILENAME).map(|name| name_in_header(name.as_bytes()));
    Ok(writer
        .keep(NewMedia {
            id: MediaId::mint(),
            mime: text(&CONTENT_TYPE).map(str::to_owned),
            filename,
            life: MEDIA_LIFE,
        })
        .await?)
}

async fn copy(body: Body, writer: &mut MediaWriter) -> Result<(), ContractError> {
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| ContractError::malformed("the body did not arrive completely"))?;
        writer.write(piece).await?;
    }
    Ok(())
}

impl From<MediaNotKept> for ContractError {
    fn from(reason: MediaNotKept) -> Self {
        match reason {
            MediaNotKept::Empty => Self::malformed("the file is empty"),
            MediaNotKept::TooLarge => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "the file is larger than 25 MiB")
            }
            MediaNotKept::NoRoom => Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "the storage limit for files of this tenant is reached",
            ),
            MediaNotKept::NoRoomForAgent => Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "this agent's share of the storage limit for files is reached: other agents of the tenant need the rest",
            ),
            MediaNotKept::Busy => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "too many files are being uploaded: try again later")
            }
            MediaNotKept::AgentRemoved => Self::new(StatusCode::UNAUTHORIZED, "the agent was removed"),
            MediaNotKept::Fault(fault) => fault.into(),
        }
    }
}

pub(super) async fn download(
    State(door): State<RelayDoor>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, ContractError> {
    let (head, _) = request.into_parts();
    let Some(id) = MediaId::read(&id) else { return Err(NOT_FOUND) };
    let timepiece = &door.relay.0.timepiece;
    let asked = timepiece.within(REFUSED_WITHIN, permitted(&door, &id, &head)).await;
    let record = asked.unwrap_or(Ok(None))?.ok_or(NOT_FOUND)?;
    // The row may outlive its file if somebody deleted it by hand.
    let reader = door.relay.0.media.open(&record).await?.ok_or(NOT_FOUND)?;
    Ok(served(&record, reader, timepiece.clone()))
}

/// The file, if the caller may get it: by the key in the URL, or by the credential of its agent.
async fn permitted(
    door: &RelayDoor,
    id: &MediaId,
    head: &Parts,
) -> Result<Option<MediaRecord>, ContractError> {
    let (store, quotas) = (&door.relay.0.media, &door.relay.0.identity.quotas);
    let key = head.uri.query().and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("k=")));
    if let Some(key) = key
        && let Some(record) = store.find_by_key(id, key).await?
    {
        let limit_key = Principal::agent_limit_key(&record.instance);
        RequestControl::proven(&head.extensions, &limit_key, Some(record.tenant.as_str()))?;
        quotas.take(QuotaKind::Request, &record.tenant, Some(&record.instance)).await?;
        return Ok(Some(record));
    }
    if !head.headers.contains_key(AUTHORIZATION) {
        return Ok(None);
    }
    let authenticator = &door.relay.0.identity.authenticator;
    let Authentication::Known(caller) =
        authenticator.connecting_agent(&head.headers, address(head)).await.map_err(Fault::from)?
    else {
        return Ok(None);
    };
    caller.within_limits(&head.extensions)?;
    let Some(owner) = caller.gateway() else { return Ok(None) };
    quotas.take(QuotaKind::Request, &owner.tenant, Some(&owner.instance)).await?;
    Ok(store.find(id).await?.filter(|record| record.instance == owner.instance))
}

fn address(head: &Parts) -> Option<std::net::IpAddr> {
    head.extensions.get().map(|ClientAddress(address)| *address)
}

/// The response that carries a file. Stock gateways take the extension from the end of `Content-Disposition`, so the name
/// comes last.
fn served(record: &MediaRecord, reader: MediaReader, timepiece: Timepiece) -> Response {
    let disposition = format!("attachment; filename=\"{}\"", record.filename);
    let length = reader.size();
    let until = timepiece.instant() + DOWNLOADED_WITHIN;
    let pieces =
        futures_util::stream::unfold((reader, timepiece), move |(mut reader, timepiece)| async move {
            let left = until.since(timepiece.instant());
            let piece = match timepiece.within(left, reader.next()).await {
                Ok(piece) => piece?,
                Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut)),
            };
            Some((piece, (reader, timepiece)))
        });
    let mut response = Body::from_stream(pieces).into_response();
    let headers = response.headers_mut();
    for (name, value) in [(CONTENT_TYPE, record.mime.as_str()), (CONTENT_DISPOSITION, disposition.as_str())] {
        // Both are made of printable ASCII when they are stored.
        headers.insert(name, HeaderValue::from_str(value).unwrap_or(HeaderValue::from_static("attachment")));
    }
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    response
}
