//! The `Idempotency-Key` header: the dispatch id of a request.

use http::HeaderMap;
use http_kit::Problem;
use posthouse_wire::DispatchId;
use posthouse_wire::delivery::is_dispatch_id;

/// The dispatch id from the `Idempotency-Key` header.
pub fn idempotency_key(headers: &HeaderMap) -> Result<Option<DispatchId>, Problem> {
    const KEY: &str = "Idempotency-Key";
    let mut values = headers.get_all(KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::invalid_field(KEY, "is given more than once"));
    }
    match value.to_str() {
        Ok(text) if is_dispatch_id(text) => Ok(Some(DispatchId::new(text))),
        _ => Err(Problem::invalid_field(KEY, NO_ID)),
    }
}

pub const NO_ID: &str = "must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -";

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;
    use http::{HeaderValue, StatusCode};

    use super::*;

    fn status(problem: Problem) -> StatusCode {
        problem.into_response().status()
    }

    #[test]
    fn an_idempotency_key_is_a_dispatch_id() {
        let keyed = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("idempotency-key", HeaderValue::from_static(value));
            idempotency_key(&headers)
        };
        assert_eq!(idempotency_key(&HeaderMap::new()).unwrap(), None);
        assert_eq!(keyed("order-17").unwrap().unwrap(), "order-17");
        for bad in ["", "../etc/passwd", "a b", "\"quoted\""] {
            assert_eq!(status(keyed(bad).unwrap_err()), StatusCode::UNPROCESSABLE_ENTITY, "{bad}");
        }
    }
}
