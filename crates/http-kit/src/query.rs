//! Strict parser of query strings, and pagination of lists.

use std::time::Duration;

use axum::extract::Query;
use http::Uri;
use serde_json::Value;

use crate::fields::{NO_SECONDS, clamped};
use crate::{Page, PageSize, Problem, decode_cursor, encode_cursor};

/// The parts of a query that have not been read yet.
pub struct QueryReader(Vec<(String, String)>);

impl QueryReader {
    pub fn read(uri: &Uri) -> Result<Self, Problem> {
        let Ok(Query(parts)) = Query::<Vec<(String, String)>>::try_from_uri(uri) else {
            return Err(Problem::invalid_field("query", "cannot be read"));
        };
        let twice =
            parts.iter().enumerate().find(|(at, (name, _))| parts[..*at].iter().any(|(n, _)| n == name));
        match twice {
            Some((_, (name, _))) => Err(Problem::invalid_field(name, "is given more than once")),
            None => Ok(Self(parts)),
        }
    }

    /// Takes a parameter. `None` if it is absent or empty.
    pub fn text(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(at).1).filter(|value| !value.is_empty())
    }

    pub fn seconds(&mut self, name: &str, most: Duration) -> Result<Option<Duration>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let seconds = text.parse().ok().and_then(|seconds| clamped(seconds, most));
        seconds.map(Some).ok_or_else(|| Problem::invalid_field(name, NO_SECONDS))
    }

    /// The number of items on a page of this size.
    pub fn limit(&mut self, size: PageSize) -> Result<usize, Problem> {
        size.parse(self.text("limit").as_deref()).ok_or_else(|| {
            Problem::invalid_field("limit", format!("must be a whole number from 1 to {}", size.largest))
        })
    }

    pub fn switch(&mut self, name: &str) -> Result<bool, Problem> {
        match self.text(name).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(Problem::invalid_field(name, "must be true or false")),
        }
    }

    pub fn whole(&mut self, name: &str) -> Result<Option<i64>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| Problem::invalid_field(name, "must be a whole number"))
    }

    /// The cursor of the previous page, parsed by `key`.
    pub fn after<T>(&mut self, key: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Problem> {
        let Some(cursor) = self.text("after") else { return Ok(None) };
        let read = decode_cursor(&cursor).and_then(|text| key(&text));
        read.map(Some)
            .ok_or_else(|| Problem::invalid_field("after", "must be the `next` of the previous page"))
    }

    pub fn end(self) -> Result<(), Problem> {
        match self.0.first() {
            Some((unknown, _)) => Err(Problem::invalid_field(unknown, "is unknown")),
            None => Ok(()),
        }
    }
}

/// A page for the caller, whose `next` is an opaque cursor.
pub fn opaque(page: Page<Value>) -> Page<Value> {
    Page { next: page.next.map(encode_cursor), ..page }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: PageSize = PageSize { default: 50, largest: 200 };

    fn query(query: &str) -> Result<QueryReader, Problem> {
        QueryReader::read(&format!("/v1/receipts?{query}").parse().unwrap())
    }

    #[test]
    fn a_page_holds_fifty_unless_it_is_asked_for_one_to_two_hundred() {
        assert_eq!(query("").unwrap().limit(SIZE), Ok(50));
        assert_eq!(query("limit=200").unwrap().limit(SIZE), Ok(200));
        for bad in ["0", "201", "-1", "1.5", "many"] {
            assert!(query(&format!("limit={bad}")).unwrap().limit(SIZE).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_next_of_a_page_is_the_after_of_the_following() {
        let page = opaque(Page { items: Vec::new(), next: Some("41:q/&=é".to_owned()) });
        let next = page.next.unwrap();
        let mut following = query(&format!("after={next}")).unwrap();
        assert_eq!(following.after(|key| Some(key.to_owned())).unwrap().unwrap(), "41:q/&=é");
        for bad in ["41", "!!", "_w"] {
            let mut wrong = query(&format!("after={bad}")).unwrap();
            assert!(wrong.after(|key| key.parse::<i64>().ok()).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_a_query_does_not_know_or_holds_twice_is_refused_by_name() {
        let unknown = query("agnet=desk").unwrap();
        assert_eq!(unknown.end(), Err(Problem::invalid_field("agnet", "is unknown")));
        assert_eq!(
            query("limit=1&limit=2").err(),
            Some(Problem::invalid_field("limit", "is given more than once"))
        );
    }

    #[test]
    fn a_wait_in_a_query_is_a_number_of_seconds() {
        let most = Duration::from_secs(60);
        assert_eq!(query("wait=0.5").unwrap().seconds("wait", most), Ok(Some(Duration::from_millis(500))));
        assert_eq!(query("wait=999").unwrap().seconds("wait", most), Ok(Some(most)));
        for bad in ["nan", "inf", "-1", "soon"] {
            assert!(query(&format!("wait={bad}")).unwrap().seconds("wait", most).is_err(), "{bad}");
        }
    }
}
