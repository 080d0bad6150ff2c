//! `POST /v1/replies/{token}`: answers by HTTP. The token is the only credential, and valid for one question.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::IntoResponse;
use http::StatusCode;
use http_kit::sole_header;

use super::{Answer, PostApi, problem, read_request_body};

/// The largest length of a token. Real tokens are shorter.
const LONGEST_TOKEN: usize = 128;
/// The signature header of receivers with a shared secret.
const SIGNATURE: &str = "x-signature";

pub(crate) async fn take(
    State(door): State<PostApi>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Answer {
    let token = match path {
        Ok(Path(token)) if (1..=LONGEST_TOKEN).contains(&token.len()) => token,
        _ => return Err(problem::absent()),
    };
    let (head, body) = request.into_parts();
    let tenant = door.post.http_replies().tenant_of(&token).await?;
    door.post.callers().count_request(&tenant, None).await?;
    let (headers, body) = (head.headers, read_request_body(body).await?);
    // Several signatures, or one that is not text, become an empty one, which never matches. They must not count as
    // absent.
    let only = sole_header(&headers, SIGNATURE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let signature = headers.contains_key(SIGNATURE).then(|| only.to_owned());
    door.to_the_end(
        |post| async move { post.http_replies().take(&token, signature.as_deref(), &body).await },
    )
    .await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
