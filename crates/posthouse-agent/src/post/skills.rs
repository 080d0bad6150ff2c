//! Skills of the caller's tenant: reading, writing, approving and deleting them (`/v1/skills`).

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::call::ApiRequest;
use super::{Client, Fault, ListPage};

/// A skill without its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedSkill {
    pub name: String,
    /// The first 12 digits of the content hash.
    pub version: String,
    pub content_hash: String,
    /// `Draft`, `Approved` or `Disabled`.
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Seconds since 1970.
    pub updated_at: i64,
    /// Everything else that the server says about it.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A skill with its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SkillDocument {
    pub name: String,
    pub version: String,
    pub content_hash: String,
    pub source: String,
    pub metadata: ListedSkill,
}

/// A line of the history of a skill.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SkillHistoryEntry {
    pub name: String,
    pub version: String,
    pub content_hash: String,
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_status: Option<String>,
    /// Seconds since 1970.
    pub changed_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_by: Option<String>,
}

/// Which skills to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillQuery {
    /// Any of these, separated by commas.
    pub status: Option<String>,
    /// All of these, separated by commas.
    pub tag: Option<String>,
    pub author: Option<String>,
    /// A regular expression that matches some part of the name.
    pub name_pattern: Option<String>,
    /// The `next` of the previous page.
    pub after: Option<String>,
    pub limit: Option<u32>,
}

/// A write of a skill.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NewSkill {
    pub source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    pub force_draft: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_bag: Option<Map<String, Value>>,
    /// The write is refused unless the skill has this version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_version: Option<String>,
    /// False refuses the write if the skill exists. The server's default is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overwrite: Option<bool>,
}

impl Client {
    /// Skills by name, one page at a time.
    pub async fn skills(&self, query: &SkillQuery) -> Result<ListPage<ListedSkill>, Fault> {
        self.ask(|| {
            ApiRequest::get(["skills"])
                .asking("status", query.status.as_deref())
                .asking("tag", query.tag.as_deref())
                .asking("author", query.author.as_deref())
                .asking("name_pattern", query.name_pattern.as_deref())
                .asking("after", query.after.as_deref())
                .asking("limit", query.limit)
        })
        .await
    }

    /// A skill with its text, or an earlier version of it.
    pub async fn skill(&self, name: &str, version: Option<&str>) -> Result<SkillDocument, Fault> {
        self.ask(|| ApiRequest::get(["skills", name]).asking("version", version)).await
    }

    /// The history of a skill, oldest first.
    pub async fn skill_versions(&self, name: &str) -> Result<Vec<SkillHistoryEntry>, Fault> {
        let (mut lines, mut after) = (Vec::new(), None::<String>);
        loop {
            let asking = || ApiRequest::get(["skills", name, "versions"]).asking("after", after.as_deref());
            let page: ListPage<_> = self.ask(asking).await?;
            lines.extend(page.items);
            after = page.next;
            if after.is_none() {
                return Ok(lines);
            }
        }
    }

    /// The skills that use this one.
    pub async fn skill_dependents(&self, name: &str) -> Result<Vec<String>, Fault> {
        let page: ListPage<_> = self.ask(|| ApiRequest::get(["skills", name, "dependents"])).await?;
        Ok(page.items)
    }

    /// Writes a skill. A repeat adds a line of history and changes nothing else.
    pub async fn write_skill(&self, name: &str, new: &NewSkill) -> Result<SkillHistoryEntry, Fault> {
        self.ask(|| ApiRequest::with_body(Method::PUT, &["skills", name], Some(new))).await
    }

    pub async fn set_skill_status(&self, name: &str, status: &str) -> Result<SkillHistoryEntry, Fault> {
        let body = json!({ "status": status });
        self.ask(|| ApiRequest::with_body(Method::POST, &["skills", name, "status"], Some(&body))).await
    }

    /// Deletes a skill. Without `force`, a skill that others name is refused.
    pub async fn delete_skill(&self, name: &str, force: bool) -> Result<(), Fault> {
        let force = force.then_some(true);
        self.ask(|| ApiRequest::to(Method::DELETE, &["skills", name]).asking("force", force)).await
    }

    /// Restores the skill of this name that was deleted last.
    pub async fn restore_skill(&self, name: &str) -> Result<ListedSkill, Fault> {
        self.ask(|| ApiRequest::to(Method::POST, &["skills", name, "restore"])).await
    }

    /// Deleted skills that can be restored, one page at a time: name, content hash, status and last change.
    pub async fn deleted_skills(&self, after: Option<&str>) -> Result<ListPage<Value>, Fault> {
        self.ask(|| ApiRequest::get(["deleted-skills"]).asking("after", after)).await
    }

    /// The catalogue of skills, as the server renders it.
    pub async fn skill_catalogue(&self, audience: &str, status: &str) -> Result<Value, Fault> {
        self.ask(|| {
            ApiRequest::get(["skill-catalogue"])
                .asking("audience", Some(audience))
                .asking("status", Some(status))
        })
        .await
    }
}
