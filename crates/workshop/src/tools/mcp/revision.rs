//! Revisions of the Model Context Protocol.

/// A revision that this server speaks, the oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum McpRevision {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    /// The first one without `initialize` and without sessions: every request describes itself.
    V2026_07_28,
}

impl McpRevision {
    pub const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];

    /// The newest revision that begins with `initialize`.
    pub const NEWEST_WITH_SESSIONS: Self = Self::V2025_11_25;

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == name)
    }

    /// Whether requests of this revision describe themselves.
    pub const fn is_stateless(self) -> bool {
        matches!(self, Self::V2026_07_28)
    }

    /// The revision of a session that asks for this one: the same if `initialize` belongs to it, otherwise the newest
    /// to which it belongs.
    pub fn negotiated(requested: Option<&str>) -> Self {
        let known = requested.and_then(Self::named).filter(|revision| !revision.is_stateless());
        known.unwrap_or(Self::NEWEST_WITH_SESSIONS)
    }
}

/// Whether this names a revision without sessions, known or not: dates compare like texts.
pub fn names_stateless(name: &str) -> bool {
    name >= McpRevision::V2026_07_28.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_gets_the_revision_it_asks_for_if_there_is_one_with_sessions() {
        for revision in McpRevision::ALL {
            let negotiated = McpRevision::negotiated(Some(revision.as_str()));
            let expected = if revision.is_stateless() { McpRevision::V2025_11_25 } else { revision };
            assert_eq!(negotiated, expected);
        }
        for other in [None, Some(""), Some("2023-01-01"), Some("2099-01-01")] {
            assert_eq!(McpRevision::negotiated(other), McpRevision::V2025_11_25);
        }
    }

    #[test]
    fn later_revisions_count_as_stateless() {
        assert!(names_stateless("2026-07-28") && names_stateless("2031-01-01"));
        assert!(!names_stateless("2025-11-25") && !names_stateless(""));
    }
}
