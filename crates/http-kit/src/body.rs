//! Bounded reading of whole request bodies.
//!
//! Every handler that needs a whole body reads it here, with its own limit. The listener counts the bytes of unfinished
//! bodies against its budget while they arrive ([`RequestLimits`](crate::RequestLimits)). If it ends a body early, it
//! replaces the handler's response by its own.

use axum::body::Body;
use axum::extract::{Form, FromRequest, Request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::Problem;

/// Why a body could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreadBody {
    #[error("the body is larger than {largest} bytes")]
    TooLarge { largest: usize },
    #[error("the body did not arrive completely")]
    Incomplete,
}

/// Reads a whole body of at most `largest` bytes.
pub async fn read_body(body: Body, largest: usize) -> Result<Bytes, UnreadBody> {
    match Limited::new(body, largest).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(UnreadBody::TooLarge { largest }),
        Err(_) => Err(UnreadBody::Incomplete),
    }
}

impl UnreadBody {
    /// The status of the response. A body that breaks off is not too large.
    pub const fn status(self) -> StatusCode {
        match self {
            UnreadBody::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            UnreadBody::Incomplete => StatusCode::BAD_REQUEST,
        }
    }

    /// The response of an API that has its own code for a body that is too large.
    pub fn problem(self, too_large: &'static str) -> Problem {
        let code = match self {
            UnreadBody::TooLarge { .. } => too_large,
            UnreadBody::Incomplete => "malformed_body",
        };
        Problem::new(self.status(), code, self.to_string())
    }
}

impl From<UnreadBody> for Problem {
    fn from(unread: UnreadBody) -> Self {
        unread.problem("too_large")
    }
}

impl IntoResponse for UnreadBody {
    fn into_response(self) -> Response {
        Problem::from(self).into_response()
    }
}

/// Extractor of a whole body of at most `LARGEST` bytes.
#[derive(Clone, Debug)]
pub struct BoundedBody<const LARGEST: usize>(pub Bytes);

impl<S: Send + Sync, const LARGEST: usize> FromRequest<S> for BoundedBody<LARGEST> {
    type Rejection = UnreadBody;

    async fn from_request(request: Request, _: &S) -> Result<Self, UnreadBody> {
        read_body(request.into_body(), LARGEST).await.map(BoundedBody)
    }
}

/// Why a form could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreadForm {
    #[error(transparent)]
    Body(#[from] UnreadBody),
    #[error("the body must be an application/x-www-form-urlencoded form")]
    NotAForm,
}

impl IntoResponse for UnreadForm {
    fn into_response(self) -> Response {
        match self {
            UnreadForm::Body(unread) => unread.into_response(),
            UnreadForm::NotAForm => {
                Problem::new(StatusCode::BAD_REQUEST, "malformed_body", self.to_string()).into_response()
            }
        }
    }
}

/// Extractor of an urlencoded form of at most `LARGEST` bytes: its fields in order, repeated ones included.
#[derive(Clone)]
pub struct BoundedForm<const LARGEST: usize>(pub Vec<(String, String)>);

impl<S: Send + Sync, const LARGEST: usize> FromRequest<S> for BoundedForm<LARGEST> {
    type Rejection = UnreadForm;

    async fn from_request(request: Request, state: &S) -> Result<Self, UnreadForm> {
        let (head, body) = request.into_parts();
        // Nothing is read of a body that is declared as something else.
        let declared = head.headers.get(CONTENT_TYPE).and_then(|declared| declared.to_str().ok());
        let media_type = declared.and_then(|declared| declared.split(';').next()).unwrap_or_default().trim();
        if !media_type.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return Err(UnreadForm::NotAForm);
        }
        let body = read_body(body, LARGEST).await?;
        let read = Form::from_request(Request::from_parts(head, Body::from(body)), state).await;
        read.map(|Form(fields)| BoundedForm(fields)).map_err(|_| UnreadForm::NotAForm)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    #[tokio::test]
    async fn a_body_is_read_up_to_its_limit_and_no_further() {
        let sized = |length| Body::from(vec![b' '; length]);
        assert_eq!(read_body(sized(10), 10).await.unwrap().len(), 10);
        assert_eq!(read_body(sized(11), 10).await, Err(UnreadBody::TooLarge { largest: 10 }));
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_not_too_large() {
        let pieces = [Ok(Bytes::from_static(b"half")), Err(std::io::Error::other("gone"))];
        let body = Body::from_stream(stream::iter(pieces));
        let unread = read_body(body, 100).await.unwrap_err();
        assert_eq!(unread, UnreadBody::Incomplete);
        let problem = unread.problem("too_long");
        assert_eq!((problem.status(), problem.code()), (StatusCode::BAD_REQUEST, "malformed_body"));
    }

    #[tokio::test]
    async fn a_form_is_read_with_repeated_fields_and_only_as_a_form() {
        let asked = |kind: &str, text: &'static str| {
            http::Request::post("/").header("content-type", kind).body(Body::from(text)).unwrap()
        };
        let form = "application/x-www-form-urlencoded";
        let read = BoundedForm::<20>::from_request(asked(form, "a=1&a=%20"), &()).await.ok().unwrap();
        assert_eq!(read.0, [("a".to_owned(), "1".to_owned()), ("a".to_owned(), " ".to_owned())]);
        let wrong = BoundedForm::<20>::from_request(asked("application/json", "{}"), &()).await;
        assert_eq!(wrong.err(), Some(UnreadForm::NotAForm));
        let long = BoundedForm::<5>::from_request(asked(form, "a=1234"), &()).await;
        assert_eq!(long.err(), Some(UnreadForm::Body(UnreadBody::TooLarge { largest: 5 })));
    }
}
