//! The audit log of a tenant in the crash test: every approval in a history has its row.

use std::collections::HashMap;

use serde_json::Value;

use super::Findings;
use super::expected_skill::KeptHistory;
use crate::test_server::TestServer;

/// Number of rows by event, skill and version.
#[derive(Default)]
pub struct ApprovalRows {
    rows: HashMap<(String, String, String), usize>,
    /// Whether the store commits a row together with its skill.
    is_exact: bool,
}

impl ApprovalRows {
    /// The whole log of a tenant.
    pub async fn read(server: &TestServer, tenant: &str, is_exact: bool) -> Self {
        let admin = std::fs::read_to_string(server.folder().join("admin.token")).unwrap();
        let (http, mut after, mut rows) = (reqwest::Client::new(), String::new(), HashMap::new());
        loop {
            let url = format!("{}/admin/skill-audit?tenant={tenant}&limit=1000{after}", server.url);
            let page = http.get(url).bearer_auth(admin.trim()).send().await.unwrap();
            let page: Value = page.error_for_status().unwrap().json().await.unwrap();
            for row in page["items"].as_array().unwrap() {
                let text = |field: &str| row[field].as_str().unwrap_or_default().to_owned();
                *rows.entry((text("event"), text("skill"), text("version"))).or_default() += 1;
            }
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => return Self { rows, is_exact },
            }
        }
    }

    fn count(&self, event: &str, skill: &str, version: &str) -> usize {
        self.rows.get(&(event.to_owned(), skill.to_owned(), version.to_owned())).copied().unwrap_or_default()
    }

    /// Checks that the log has the approvals of all skills. They are counted by skill and version.
    pub fn check(
        &self,
        kept: KeptHistory,
        approvals: &HashMap<(String, String), usize>,
        findings: &mut Findings,
    ) {
        for ((skill, version), times) in approvals {
            let (approved, begun) =
                (self.count("approved", skill, version), self.count("attempted", skill, version));
            let agree = match (self.is_exact, kept) {
                (true, _) => approved == *times,
                // The row before the write is there, whatever became of the one after it.
                (false, KeptHistory::LinePerWrite) => begun >= *times && approved <= begun,
                (false, KeptHistory::LinePerVersion) => begun > 0 && approved <= begun,
            };
            findings.unless(agree, || {
                format!("{skill}: {version} was approved {times} times, with {approved} rows and {begun} before them")
            });
        }
    }

    /// The number of approvals in the log.
    pub fn approved(&self) -> usize {
        self.rows.iter().filter(|((event, ..), _)| event == "approved").map(|(_, rows)| rows).sum()
    }
}
