//! Admin API: signing keys of fire tokens, and secrets of external schedulers.

use axum::Json;
use axum::extract::State;
use clock::{Algorithm, SigningKeyStatus};
use http_kit::Page;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::extract::JsonBody;
use crate::problem::AdminProblem;
use crate::routes::Console;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SigningKeyRotation {
    algorithm: Option<Algorithm>,
    /// Sign with the new key from now on, for an old one that was lost.
    at_once: bool,
}

fn shown(key: &SigningKeyStatus) -> Value {
    json!({
        "kid": key.kid,
        "algorithm": key.algorithm.name(),
        "created_at": key.created.to_string(),
        "signs_from": key.signs_from.to_string(),
        "published_until": key.published_until.map(|until| until.to_string()),
    })
}

pub(crate) async fn list(State(console): State<Console>) -> Result<Json<Page<Value>>, AdminProblem> {
    let keys = console.clock.signer().keys().await.map_err(clock::Fault::from)?;
    Ok(Json(Page::all(keys.iter().map(shown).collect())))
}

pub(crate) async fn rotate(
    State(console): State<Console>,
    JsonBody(rotation): JsonBody<SigningKeyRotation>,
) -> Result<Json<Value>, AdminProblem> {
    let key = console
        .clock
        .signer()
        .rotate(rotation.algorithm, rotation.at_once)
        .await
        .map_err(clock::Fault::from)?;
    Ok(Json(shown(&key)))
}

pub(crate) async fn scheduler_secrets(
    State(console): State<Console>,
) -> Result<Json<Page<Value>>, AdminProblem> {
    let secrets = console.clock.signer().scheduler_secrets().await.map_err(clock::Fault::from)?;
    let shown = secrets.iter().map(|secret| {
        json!({
            "created_at": secret.created.to_string(),
            "name": secret.name,
            "good_until": secret.good_until.map(|until| until.to_string()),
        })
    });
    Ok(Json(Page::all(shown.collect())))
}

/// The secret appears only in this answer.
pub(crate) async fn rotate_scheduler_secret(
    State(console): State<Console>,
) -> Result<Json<Value>, AdminProblem> {
    let secret = console.clock.signer().rotate_scheduler_secret().await.map_err(clock::Fault::from)?;
    Ok(Json(json!({ "secret": secret.expose() })))
}

pub(crate) async fn revoke_scheduler_secrets(
    State(console): State<Console>,
) -> Result<Json<Value>, AdminProblem> {
    let revoked = console.clock.signer().revoke_scheduler_secrets().await.map_err(clock::Fault::from)?;
    Ok(Json(json!({ "revoked": revoked })))
}
