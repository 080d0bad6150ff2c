//! Queries of the catalogue, and their answers.

use std::ops::ControlFlow;
use std::sync::Arc;

use skill::{Status, TriggerSource};

use super::entry::{CatalogueEntry, SkillCategory};
use crate::large_answers::LARGEST_ANSWER;

/// Whose skills are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    /// Skills that an agent receives or runs.
    #[default]
    Agent,
    All,
    /// Skills that run on their own.
    Headless,
}

impl Audience {
    pub fn named(word: &str) -> Option<Self> {
        match word {
            "agent" => Some(Self::Agent),
            "all" => Some(Self::All),
            "headless" => Some(Self::Headless),
            _ => None,
        }
    }

    fn lists(self, category: SkillCategory) -> bool {
        match self {
            Self::All => true,
            Self::Agent => category != SkillCategory::Headless,
            Self::Headless => category == SkillCategory::Headless,
        }
    }
}

/// Which skills to list, and which version the caller has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogueQuery {
    pub audience: Audience,
    pub status: Status,
    pub trigger_kind: Option<TriggerSource>,
    /// Any of these, in the metadata bag.
    pub domain_tags: Vec<String>,
    pub name_prefix: Option<String>,
    pub author: Option<String>,
    pub if_none_match: Option<String>,
    /// Skills after this name only.
    pub after: Option<String>,
    pub limit: Option<usize>,
    /// Size of all entries together as a JSON text inside a JSON text, in bytes. One entry is always listed.
    pub largest: usize,
}

impl Default for CatalogueQuery {
    fn default() -> Self {
        Self {
            audience: Audience::Agent,
            status: Status::Approved,
            trigger_kind: None,
            domain_tags: Vec::new(),
            name_prefix: None,
            author: None,
            if_none_match: None,
            after: None,
            limit: None,
            largest: LARGEST_ANSWER,
        }
    }
}

impl CatalogueQuery {
    fn passes(&self, entry: &CatalogueEntry) -> bool {
        let has_tag = |wanted: &String| entry.domain_tags.contains(&wanted.to_lowercase());
        self.audience.lists(entry.category)
            && entry.status == self.status
            && self.trigger_kind.is_none_or(|kind| entry.triggers.contains(&kind))
            && (self.domain_tags.is_empty() || self.domain_tags.iter().any(has_tag))
            && self.name_prefix.as_ref().is_none_or(|prefix| entry.name().starts_with(&**prefix))
            && self.author.as_ref().is_none_or(|author| entry.author.as_ref() == Some(author))
            && self.after.as_ref().is_none_or(|after| entry.name() > after.as_str())
    }
}

/// The answer to a query.
#[derive(Clone)]
pub enum CatalogueAnswer {
    /// The caller has this version.
    NotModified {
        version: String,
    },
    Listed(CatalogueListing),
}

/// Listed entries by category.
#[derive(Clone)]
pub struct CatalogueListing {
    audience: Audience,
    entries: Vec<Arc<CatalogueEntry>>,
    /// None if the store has no token.
    pub version: Option<String>,
    /// The name after which the list goes on.
    pub next: Option<String>,
}

/// The entries that a query lists, as they are found in the order of names.
pub(super) struct ListingPage<'q> {
    query: &'q CatalogueQuery,
    entries: Vec<Arc<CatalogueEntry>>,
    size: usize,
    has_more: bool,
}

impl<'q> ListingPage<'q> {
    pub fn new(query: &'q CatalogueQuery) -> Self {
        Self { query, entries: Vec::new(), size: 0, has_more: false }
    }

    /// Lists an entry if it passes. Breaks if there is no room for it.
    pub fn add(&mut self, entry: &Arc<CatalogueEntry>) -> ControlFlow<()> {
        if !self.query.passes(entry) {
            return ControlFlow::Continue(());
        }
        let size = self.size + entry.size_in_text + 1;
        let is_full = !self.entries.is_empty() && size > self.query.largest;
        if is_full || self.query.limit.is_some_and(|limit| self.entries.len() >= limit) {
            self.has_more = true;
            return ControlFlow::Break(());
        }
        self.size = size;
        self.entries.push(Arc::clone(entry));
        ControlFlow::Continue(())
    }

    pub fn listing(self, version: Option<String>) -> CatalogueListing {
        let next = self.entries.last().filter(|_| self.has_more).map(|entry| entry.name().to_owned());
        CatalogueListing { audience: self.query.audience, entries: self.entries, version, next }
    }
}

impl CatalogueListing {
    /// The number of entries.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    fn list(&self, name: &str, category: SkillCategory, into: &mut String) {
        into.push_str(&format!("\"{name}\":["));
        let mut separator = "";
        for entry in self.entries.iter().filter(|entry| entry.category == category) {
            into.push_str(separator);
            into.push_str(&entry.json);
            separator = ",";
        }
        into.push_str("],");
    }
}

impl CatalogueAnswer {
    /// The answer as JSON. Entries are rendered already, so this only joins them.
    pub fn to_json(&self) -> String {
        let listing = match self {
            Self::NotModified { version } => {
                return serde_json::json!({ "not_modified": true, "catalog_version": version }).to_string();
            }
            Self::Listed(listing) => listing,
        };
        let length = listing.entries.iter().map(|entry| entry.json.len() + 1).sum::<usize>();
        let mut json = String::with_capacity(length + 200);
        json.push('{');
        if listing.audience != Audience::Headless {
            listing.list("receives", SkillCategory::Augmenting, &mut json);
            listing.list("skills", SkillCategory::Template, &mut json);
        }
        if listing.audience != Audience::Agent {
            listing.list("headless", SkillCategory::Headless, &mut json);
        }
        let more = [("catalog_version", &listing.version), ("next", &listing.next)];
        for (name, value) in more {
            if let Some(value) = value {
                json.push_str(&format!("\"{name}\":{},", serde_json::Value::from(value.as_str())));
            }
        }
        json.pop();
        json.push('}');
        json
    }
}
