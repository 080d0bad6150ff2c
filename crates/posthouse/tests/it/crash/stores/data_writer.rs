//! Writer of data for the crash test, and the checks afterwards: entries and the search index.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::Findings;
use super::store_client::StoreClient;

pub struct DataWriter {
    number: usize,
    client: StoreClient,
    answered: Arc<AtomicUsize>,
}

/// Entries by the word that only one of them has.
#[derive(Default)]
pub struct WrittenEntries {
    /// Word and id.
    answered: HashMap<String, String>,
    attempted: HashSet<String>,
}

fn content(word: &str) -> String {
    format!("Tide {word}\nhigh water at noon, {word} again")
}

impl DataWriter {
    pub fn new(number: usize, client: StoreClient, answered: Arc<AtomicUsize>) -> Self {
        Self { number, client, answered }
    }

    pub async fn writes(self, enough: watch::Receiver<bool>) -> WrittenEntries {
        let mut written = WrittenEntries::default();
        for round in 0.. {
            if *enough.borrow() {
                break;
            }
            let word = format!("w{}x{round}", self.number);
            let entry = json!({ "content": content(&word), "tags": ["tide"] });
            written.attempted.insert(word.clone());
            match self.client.asks("POST", "/v1/data", Some(&entry)).await {
                Some(answer) => {
                    written.answered.insert(word.clone(), answer["id"].as_str().unwrap().to_owned());
                    self.answered.fetch_add(1, Ordering::Relaxed);
                }
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
            // Searches among the writes, so that the index is written too when the server is killed.
            if round % 5 == 0 {
                let query = json!({ "query": format!("tide {word}"), "limit": 3 });
                self.client.asks("POST", "/v1/data/query", Some(&query)).await;
            }
        }
        written
    }
}

impl WrittenEntries {
    pub fn add(&mut self, more: Self) {
        self.answered.extend(more.answered);
        self.attempted.extend(more.attempted);
    }

    pub fn answered(&self) -> usize {
        self.answered.len()
    }

    /// Checks entries and index. Returns the number of entries. The list of a SQLite file has no pages, so it is not
    /// compared.
    pub async fn check(&self, client: &StoreClient, has_pages: bool, findings: &mut Findings) -> usize {
        for (word, id) in &self.answered {
            let entry = client.asks("GET", &format!("/v1/data/{id}"), None).await;
            let detail = entry.as_ref().and_then(|entry| entry["detail"].as_str());
            findings.unless(detail == Some(&content(word)), || format!("{word}: {id} is {entry:?}"));
        }
        let rows = if has_pages { Some(rows(client).await) } else { None };
        let listed: Option<HashMap<&str, &str>> = rows.as_ref().map(|rows| {
            rows.iter().map(|row| (word_of(row), row["id"].as_str().unwrap())).collect::<HashMap<_, _>>()
        });
        if let (Some(rows), Some(listed)) = (&rows, &listed) {
            findings.unless(listed.len() == rows.len(), || "an entry is stored twice".to_owned());
        }
        // The index finds every entry exactly once, and nothing else.
        let mut count = 0;
        for word in &self.attempted {
            let query = json!({ "query": word, "limit": 10 });
            let found = client.reads("POST", "/v1/data/query", Some(&query)).await;
            let found: Vec<&str> =
                found["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect();
            count += found.len();
            let answered = self.answered.get(word).map(String::as_str);
            let is_right = found.len() <= 1 && answered.is_none_or(|id| found == [id]);
            findings.unless(is_right, || format!("{word}: found {found:?}, answered {answered:?}"));
            if let Some(listed) = &listed {
                let listed: Vec<&str> = listed.get(word.as_str()).copied().into_iter().collect();
                findings.unless(found == listed, || format!("{word}: found {found:?}, listed {listed:?}"));
            }
        }
        count
    }
}

/// All entries, page by page.
async fn rows(client: &StoreClient) -> Vec<Value> {
    let (mut rows, mut after) = (Vec::new(), String::new());
    loop {
        let page = client.reads("GET", &format!("/v1/data?limit=200{after}"), None).await;
        rows.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return rows,
        }
    }
}

fn word_of(row: &Value) -> &str {
    row["summary"].as_str().unwrap().strip_prefix("Tide ").unwrap()
}
