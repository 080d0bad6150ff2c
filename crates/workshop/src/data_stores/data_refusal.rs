//! Refusals of data stores. Their classes and fields are those of the store contract.

use crate::store_failure::StoreFailure;

/// What every refusal of a data store says about its origin.
pub const DATA_CONNECTOR_TYPE: &str = "data_store";

/// A request that a data store refuses, and which store it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct DataRefusal {
    /// The name of the store's implementation, as its contract calls it.
    pub implementation: &'static str,
    pub reason: DataRefusalReason,
}

/// Why a request was refused. The texts of unsupported filters and of missing arguments are part of the contract.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DataRefusalReason {
    #[error(
        "`data_read` query against {substrate} carried unsupported filter key(s): {}. Substrate declares \
         supported_filters: [{}].",
        quoted(unsupported),
        quoted(supported)
    )]
    UnsupportedFilter { unsupported: Vec<String>, supported: Vec<String>, substrate: &'static str },
    #[error("DataStoreMcpConnector: `query` kwarg is required and must be a non-empty string.")]
    QueryMissing,
    #[error(
        "DataStoreMcpConnector: `content` kwarg is required for data_write and must be a non-empty string."
    )]
    ContentMissing,
    #[error("mode '{mode}' is not supported. Use 'fts'.")]
    UnsupportedMode { mode: String },
    #[error("`{field}` {why}")]
    Invalid { field: String, why: String },
    #[error("the full-text expression cannot be used: {why}")]
    BadExpression { why: String },
    #[error("`{field}` has {size} bytes, and {limit} are allowed")]
    TooLarge { field: &'static str, size: usize, limit: usize },
    #[error("`{field}` has {count} items, and {limit} are allowed")]
    TooManyItems { field: &'static str, count: usize, limit: usize },
    #[error("the entries that were found are too large together. Use a smaller `limit`.")]
    FoundTooLarge,
    #[error("the search took too long and was ended. Use rarer words.")]
    TooSlow,
    #[error("too many searches of this tenant are waiting. Try again.")]
    TooManySearches,
    #[error("the search index is being rebuilt. Try again in a few seconds.")]
    Indexing,
    #[error("the tenant has reached its limit of {limit} bytes of data")]
    QuotaExceeded { limit: i64 },
    #[error("the store cannot be written: {why}")]
    ReadOnly { why: String },
    #[error("the data store of this tenant cannot be used: {why}")]
    Unusable { why: String },
    #[error(transparent)]
    Remote(StoreFailure),
}

impl DataRefusalReason {
    /// The error class of the contract.
    pub fn class(&self) -> &'static str {
        match self {
            Self::UnsupportedFilter { .. } => "UnsupportedFilterError",
            Self::BadExpression { .. } | Self::TooSlow | Self::FoundTooLarge => "QueryError",
            Self::Remote(failure) => failure.class(),
            _ => "Error",
        }
    }

    /// The code in error responses: stable, in snake case.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnsupportedFilter { .. } => "unsupported_filter",
            Self::QueryMissing | Self::ContentMissing | Self::Invalid { .. } => "invalid_request",
            Self::UnsupportedMode { .. } => "unsupported_mode",
            Self::BadExpression { .. } | Self::TooSlow | Self::FoundTooLarge => "query",
            Self::TooLarge { .. } | Self::TooManyItems { .. } => "too_large",
            Self::TooManySearches => "too_many_requests",
            Self::Indexing => "unavailable",
            Self::QuotaExceeded { .. } => "quota_exceeded",
            Self::ReadOnly { .. } => "read_only",
            Self::Unusable { .. } => "store_unusable",
            Self::Remote(failure) => failure.code(),
        }
    }

    pub(super) fn invalid(field: &str, why: impl Into<String>) -> Self {
        Self::Invalid { field: field.to_owned(), why: why.into() }
    }
}

fn quoted(keys: &[String]) -> String {
    keys.iter().map(|key| format!("'{key}'")).collect::<Vec<_>>().join(", ")
}
