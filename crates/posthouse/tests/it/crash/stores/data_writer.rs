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

    /// Checks entries and index. Returns the number of entries.
    pub async fn check(&self, client: &StoreClient, findings: &mut Findings) -> usize {
        for (word, id) in &self.answered {
            let entry = client.asks("GET", &format!("/v1/data/{id}"), None).await;
            let detail = entry.as_ref().and_then(|entry| entry["detail"].as_str());
            findings.unless(detail == Some(&content(word)), || format!("{word}: {id} is {entry:?}"));
        }
        let rows = rows(client).await;
        let stored: HashMap<&str, &Value> = rows.iter().map(|row| (word_of(row), row)).collect();
        findings.unless(stored.len() == rows.len(), || "an entry is stored twice".to_owned());
        for word in self.answered.keys() {
            findings.unless(stored.contains_key(word.as_str()), || format!("{word} is not listed"));
        }
        // The index finds every entry exactly once, and nothing else.
        for word in &self.attempted {
            let query = json!({ "query": word, "limit": 10 });
            let found = client.reads("POST", "/v1/data/query", Some(&query)).await;
            let found: Vec<&str> =
                found["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect();
            let expected: Vec<&str> =
                stored.get(word.as_str()).map(|row| row["id"].as_str().unwrap()).into_iter().collect();
            findings.unless(found == expected, || format!("{word}: found {found:?}, stored {expected:?}"));
        }
        rows.len()
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
