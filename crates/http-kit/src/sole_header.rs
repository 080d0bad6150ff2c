//! Reading a header that carries a credential.

use http::header::AsHeaderName;
use http::{HeaderMap, HeaderValue};

/// The only header of this name. `None` when there are several, even equal ones, because a proxy in front may have
/// checked another one than we would.
pub fn sole_header(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&HeaderValue> {
    let mut presented = headers.get_all(name).iter();
    presented.next().filter(|_| presented.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_is_given_twice_is_none() {
        let mut headers = HeaderMap::new();
        assert_eq!(sole_header(&headers, "x-token"), None);
        headers.append("x-token", HeaderValue::from_static("a"));
        assert_eq!(sole_header(&headers, "X-Token").unwrap(), "a");
        headers.append("x-token", HeaderValue::from_static("a"));
        assert_eq!(sole_header(&headers, "x-token"), None);
    }
}
