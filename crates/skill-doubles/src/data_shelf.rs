//! Data in memory: what skills write with `data_write` and find with `data_read`.

use parking_lot::Mutex;
use skill::{ErrorClass, HostFault, SkillObject, SkillValue};

/// Arguments of `data_read` that are not filters.
const NO_FILTERS: &[&str] = &["query", "mode", "limit", "permissive_filters"];
const FILTER: &str = "domain_tags";
/// Constants of the ranking function BM25.
const SATURATION: f64 = 1.2;
const LENGTH_SHARE: f64 = 0.75;
const SMALLEST_WEIGHT: f64 = 1e-6;

/// Entries in the order in which they were written.
#[derive(Default)]
pub struct DataShelf {
    entries: Mutex<Vec<ShelfEntry>>,
}

struct ShelfEntry {
    record: SkillObject,
    words: Vec<String>,
    tags: Vec<String>,
}

impl DataShelf {
    /// The tool `data_write`. `created_at` is in seconds.
    pub fn write_tool(
        &self,
        id: String,
        created_at: f64,
        arguments: &SkillObject,
    ) -> Result<SkillValue, HostFault> {
        let Some(content) = arguments.get("content").and_then(SkillValue::as_text) else {
            return Err(HostFault::plain("`content` is required"));
        };
        let tags = texts(arguments.get("tags"));
        let mut metadata =
            arguments.get("metadata").and_then(SkillValue::as_object).cloned().unwrap_or_default();
        metadata.set_some("recipients", arguments.get("recipients").cloned());
        let mut record = SkillObject::default();
        record.set("id", id.as_str());
        record.set("summary", content.lines().next().unwrap_or_default());
        record.set("created_at", created_at);
        record.set("detail", content);
        if !tags.is_empty() {
            record.set(FILTER, SkillValue::list(tags.iter().map(|tag| tag.as_str().into())));
        }
        if !metadata.is_empty() {
            record.set("metadata", metadata);
        }
        self.entries.lock().push(ShelfEntry { record, words: words(content), tags });
        let written = [("id", SkillValue::from(id)), ("created_at", created_at.into())];
        Ok(written.into_iter().collect::<SkillObject>().into())
    }

    /// The tool `data_read`: entries that hold every word of the query, the best first.
    pub fn read_tool(&self, arguments: &SkillObject) -> Result<SkillValue, HostFault> {
        let text = |name| arguments.get(name).and_then(SkillValue::as_text);
        let Some(query) = text("query").filter(|query| !query.is_empty()) else {
            return Err(HostFault::plain("`query` is required"));
        };
        if let Some(mode) = text("mode").filter(|mode| *mode != "fts") {
            let class = ErrorClass::Other("QueryError".into());
            return Err(HostFault::new(class, format!("mode '{mode}' is not supported")));
        }
        let is_permissive = matches!(arguments.get("permissive_filters"), Some(SkillValue::Bool(true)));
        let unknown =
            arguments.iter().find(|(name, _)| !NO_FILTERS.contains(&&***name) && &***name != FILTER);
        if let Some((name, _)) = unknown.filter(|_| !is_permissive) {
            let class = ErrorClass::Other("UnsupportedFilterError".into());
            return Err(HostFault::new(class, format!("filter '{name}' is not supported")));
        }
        let limit = match arguments.get("limit") {
            Some(SkillValue::Text(text)) => text.parse().unwrap_or(10),
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a limit is small")]
            Some(SkillValue::Number(number)) if *number >= 1.0 => *number as usize,
            _ => 10,
        };
        let wanted = arguments.get(FILTER).map(|tags| texts(Some(tags)));
        Ok(self.found(&words(query), wanted.as_deref(), limit))
    }

    fn found(&self, query: &[String], tags: Option<&[String]>, limit: usize) -> SkillValue {
        let entries = self.entries.lock();
        let mut found: Vec<(f64, &ShelfEntry)> = entries
            .iter()
            .filter(|entry| query.iter().all(|word| entry.words.contains(word)))
            .filter(|entry| tags.is_none_or(|tags| tags.iter().any(|tag| entry.tags.contains(tag))))
            .map(|entry| (score(query, entry, &entries), entry))
            .collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        let items = found.into_iter().take(limit).map(|(score, entry)| {
            let mut item = entry.record.clone();
            item.set("score", score);
            SkillValue::from(item)
        });
        [("items", SkillValue::list(items))].into_iter().collect::<SkillObject>().into()
    }
}

/// The BM25 score of an entry, as SQLite computes it. Smaller is better.
#[expect(clippy::cast_precision_loss, reason = "counts of words are small")]
fn score(query: &[String], entry: &ShelfEntry, all: &[ShelfEntry]) -> f64 {
    let average = all.iter().map(|entry| entry.words.len()).sum::<usize>() as f64 / all.len() as f64;
    let length = entry.words.len() as f64 / average;
    let scores = query.iter().map(|word| {
        let holders = all.iter().filter(|entry| entry.words.contains(word)).count() as f64;
        let weight = ((all.len() as f64 - holders + 0.5) / (holders + 0.5)).ln().max(SMALLEST_WEIGHT);
        let count = entry.words.iter().filter(|other| *other == word).count() as f64;
        weight * count * (SATURATION + 1.0)
            / (count + SATURATION * (1.0 - LENGTH_SHARE + LENGTH_SHARE * length))
    });
    -scores.sum::<f64>()
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// The texts of a list. A single text counts as a list of one.
fn texts(value: Option<&SkillValue>) -> Vec<String> {
    match value {
        Some(SkillValue::List(list)) => {
            list.with(|items| items.iter().filter_map(SkillValue::as_text).map(str::to_owned).collect())
        }
        Some(SkillValue::Text(text)) => vec![text.to_string()],
        _ => Vec::new(),
    }
}
