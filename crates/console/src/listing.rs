//! Pagination of lists.

use serde::Serialize;

/// Default and maximum number of items per page.
pub(crate) const PAGE: usize = 1000;

/// A page of a list. `next` is the `after` of the next page; absent on the last page.
#[derive(Debug, Serialize)]
pub(crate) struct Items<T> {
    pub items: Vec<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl<T> Items<T> {
    pub fn all(items: Vec<T>) -> Self {
        Self { items, next: None }
    }

    /// The page that follows `after`, in the order of `key`.
    pub fn page(
        mut items: Vec<T>,
        key: impl Fn(&T) -> String,
        after: Option<&str>,
        limit: Option<usize>,
    ) -> Self {
        items.sort_by_cached_key(&key);
        let start = after.map_or(0, |after| items.partition_point(|item| key(item).as_str() <= after));
        let limit = limit.unwrap_or(PAGE).clamp(1, PAGE);
        let mut page: Vec<T> = items.drain(start..).collect();
        let more = page.len() > limit;
        page.truncate(limit);
        let next = page.last().filter(|_| more).map(key);
        Self { items: page, next }
    }

    pub fn map<U>(self, change: impl FnMut(T) -> U) -> Items<U> {
        Items { items: self.items.into_iter().map(change).collect(), next: self.next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_of_a_list_together_are_the_list() {
        let whole: Vec<u32> = (10..95).rev().collect();
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = Items::page(whole.clone(), u32::to_string, after.as_deref(), Some(20));
            seen.extend(page.items);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, (10..95).collect::<Vec<_>>());
    }
}
