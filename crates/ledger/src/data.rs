//! Data of tenants: texts with tags that are kept, found by id and searched.
//!
//! Callers decide what the attributes and the metadata mean.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{DataId, TenantId};

use crate::Fault;
use crate::full_text::TextQuery;

/// Default limit on the bytes of a tenant's data.
pub const DATA_BYTES: i64 = 10 * 1024 * 1024 * 1024;

/// The most bytes of texts that one search returns.
pub const FOUND_BYTES: usize = 32 * 1024 * 1024;

/// Length of a summary and of one that is cut, in UTF-16 code units, as the store contract counts them.
const SUMMARY_UNITS: usize = 200;
const CUT_UNITS: usize = 197;

/// The summary of a text: its first line, cut if it is longer than 200 UTF-16 code units. A character of two units is
/// never cut in half.
pub fn summary_of(content: &str) -> String {
    let first_line = content.split('\n').next().unwrap_or_default();
    // No character has more UTF-16 units than bytes.
    if first_line.len() <= SUMMARY_UNITS || first_line.encode_utf16().count() <= SUMMARY_UNITS {
        return first_line.to_owned();
    }
    let mut units = 0;
    let kept = first_line.chars().take_while(|character| {
        units += character.len_utf16();
        units <= CUT_UNITS
    });
    kept.chain("...".chars()).collect()
}

/// An entry as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataRecord {
    pub id: DataId,
    pub content: String,
    pub tags: Vec<String>,
    /// Fields that callers read and write together, as JSON.
    pub attributes: Option<String>,
    /// Data of the writer, as JSON.
    pub metadata: Option<String>,
    pub created: Moment,
    /// The wall time from which on the entry is not found any more.
    pub expires: Option<Moment>,
}

impl DataRecord {
    pub fn summary(&self) -> String {
        summary_of(&self.content)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataWritten {
    Written,
    /// The tenant's data has reached its limit of this many bytes.
    Full {
        limit: i64,
    },
    NoTenant,
}

/// Number of an entry, which grows with every write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DataSeq(pub i64);

/// A search in the data of one tenant.
#[derive(Clone, Debug)]
pub struct DataSearch {
    pub text: TextQuery,
    /// Only entries with one of these tags. None: no matter which.
    pub any_tag: Option<Vec<String>>,
    /// Only entries before this one. Used for pages of the newest.
    pub before: Option<DataSeq>,
    pub limit: u32,
}

/// An entry that a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundData {
    pub seq: DataSeq,
    pub record: DataRecord,
    /// BM25 over the entries of the tenant; smaller is better. None if the search had no words.
    pub score: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum DataFound {
    /// The best first, or the newest first if the search had no words.
    Found(Vec<FoundData>),
    /// The expression is not in the syntax of FTS5. The text says why.
    BadExpression(String),
    /// The search took too long and was ended.
    TooSlow,
    /// The texts together have more than [`FOUND_BYTES`].
    TooLarge,
    /// Too many searches of the tenant are waiting.
    TooMany,
    /// The index is being made again, after it was lost. Repeating the search goes on with it.
    Indexing,
}

#[async_trait]
pub trait DataEntries: Send + Sync {
    /// Stores an entry. A repeat with the same id stores nothing.
    async fn write_data(&self, tenant: &TenantId, new: DataRecord) -> Result<DataWritten, Fault>;
    /// An entry that has not expired.
    async fn data_entry(&self, tenant: &TenantId, id: &DataId) -> Result<Option<DataRecord>, Fault>;
    /// Searches the entries of a tenant that have not expired. It sees every write that has resolved.
    async fn search_data(&self, tenant: &TenantId, search: DataSearch) -> Result<DataFound, Fault>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_the_first_line_up_to_200_units() {
        assert_eq!(summary_of("one\ntwo"), "one");
        assert_eq!(summary_of(&"x".repeat(200)), "x".repeat(200));
        assert_eq!(summary_of(&"x".repeat(201)), format!("{}...", "x".repeat(197)));
        // Three bytes and one unit each; four bytes and two units each.
        assert_eq!(summary_of(&"€".repeat(200)), "€".repeat(200));
        assert_eq!(summary_of(&"\u{1F600}".repeat(100)), "\u{1F600}".repeat(100));
        assert_eq!(summary_of(&"\u{1F600}".repeat(101)), format!("{}...", "\u{1F600}".repeat(98)));
    }
}
