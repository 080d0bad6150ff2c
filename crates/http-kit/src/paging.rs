//! Cursor paging: the `limit` and `after` of a request, and the shape of a page.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;

/// A page of a list. `next` is the `after` of the next page, and absent on the last page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Page<T> {
    pub items: Vec<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// A list that always fits on one page.
    pub fn all(items: Vec<T>) -> Self {
        Self { items, next: None }
    }

    /// A page of items that were read up to the limit. A full page may be the last one; then the next page is empty.
    pub fn up_to(limit: usize, items: Vec<T>, cursor: impl Fn(&T) -> String) -> Self {
        let next = items.last().filter(|_| items.len() >= limit).map(cursor);
        Self { items, next }
    }

    /// A page of items of which one more than the limit was read, if there are as many.
    pub fn one_less(limit: usize, mut items: Vec<T>, cursor: impl Fn(&T) -> String) -> Self {
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(cursor);
        Self { items, next }
    }

    /// The page of a whole list that follows `after`, in the order of `key`.
    pub fn of_sorted(
        mut items: Vec<T>,
        key: impl Fn(&T) -> String,
        after: Option<&str>,
        limit: usize,
    ) -> Self {
        items.sort_by_cached_key(&key);
        let start = after.map_or(0, |after| items.partition_point(|item| key(item).as_str() <= after));
        Self::one_less(limit, items.drain(start..).collect(), key)
    }

    pub fn map<U>(self, change: impl FnMut(T) -> U) -> Page<U> {
        Page { items: self.items.into_iter().map(change).collect(), next: self.next }
    }
}

/// The number of items on a page of one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSize {
    pub default: usize,
    pub largest: usize,
}

impl PageSize {
    /// The size that was asked for, cut to what is allowed.
    pub fn clamp(self, asked: Option<usize>) -> usize {
        asked.unwrap_or(self.default).clamp(1, self.largest)
    }

    /// The size that was asked for. `None` if that is not a number within the limits.
    pub fn parse(self, asked: Option<&str>) -> Option<usize> {
        match asked {
            None => Some(self.default),
            Some(text) => text.parse().ok().filter(|size| (1..=self.largest).contains(size)),
        }
    }
}

/// A key as an opaque cursor, so that callers do not build their own.
pub fn encode_cursor(key: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(key)
}

/// The key of an opaque cursor. `None` if we did not write it.
pub fn decode_cursor(cursor: &str) -> Option<String> {
    String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_of_a_list_together_are_the_list() {
        let whole: Vec<u32> = (10..95).rev().collect();
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = Page::of_sorted(whole.clone(), u32::to_string, after.as_deref(), 20);
            seen.extend(page.items);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, (10..95).collect::<Vec<_>>());
    }

    #[test]
    fn only_a_page_with_more_behind_it_has_a_next() {
        let cursor = u32::to_string;
        assert_eq!(Page::one_less(2, vec![1, 2, 3], cursor).next.as_deref(), Some("2"));
        assert_eq!(Page::one_less(3, vec![1, 2, 3], cursor).next, None);
        assert_eq!(Page::up_to(3, vec![1, 2, 3], cursor).next.as_deref(), Some("3"));
        assert_eq!(Page::up_to(4, vec![1, 2, 3], cursor).next, None);
        assert_eq!(serde_json::to_string(&Page::all(vec![1])).unwrap(), r#"{"items":[1]}"#);
    }

    #[test]
    fn a_page_size_is_cut_or_refused() {
        let size = PageSize { default: 50, largest: 200 };
        assert_eq!((size.clamp(None), size.clamp(Some(0)), size.clamp(Some(999))), (50, 1, 200));
        assert_eq!((size.parse(None), size.parse(Some("200"))), (Some(50), Some(200)));
        for bad in ["0", "201", "-1", "1.5", "many", ""] {
            assert_eq!(size.parse(Some(bad)), None, "{bad}");
        }
    }

    #[test]
    fn a_cursor_gives_back_its_key() {
        assert_eq!(decode_cursor(&encode_cursor("41:q/&=é")).as_deref(), Some("41:q/&=é"));
        for bad in ["41", "!!", "_w"] {
            assert_eq!(decode_cursor(bad), None, "{bad}");
        }
    }
}
