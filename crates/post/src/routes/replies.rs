//! Answers that come by HTTP. The token in the path is the only credential, and good for one question.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::IntoResponse;
use http::StatusCode;

use super::problem::Problem;
use super::{Answer, Door, taken};

/// Past every token that was ever handed out.
const LONGEST_TOKEN: usize = 128;
/// What a receiver with a shared secret signs its answer with.
const SIGNATURE: &str = "x-signature";

pub(crate) async fn take(
    State(door): State<Door>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Answer {
    let (headers, _, body) = taken(request).await?;
    let token = match path {
        Ok(Path(token)) if (1..=LONGEST_TOKEN).contains(&token.len()) => token,
        _ => return Err(Problem::absent()),
    };
    // A signature that is no text fits nothing, and must not pass for none.
    let signature = headers.get(SIGNATURE).map(|value| value.to_str().unwrap_or_default().to_owned());
    door.to_the_end(|post| async move { post.reply(&token, signature.as_deref(), &body).await }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
