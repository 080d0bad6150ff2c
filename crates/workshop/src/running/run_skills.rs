//! Stored skills as a run sees them: those that it runs, inlines, reads and writes, and whether each may run.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use post::Caller;
use serde_json::{Map, Value, json};
use skill::{ApprovalVerdict, ContentHash, ErrorClass, HostFault, LoadedSkill, check_approval};

use crate::approval_policy::ApprovalPolicy;
use crate::skill_meta::{SkillSource, VersionInfo};
use crate::skill_store::{SkillStore, StoreAnswer, StoreOptions};
use crate::skills::{SkillWrite, TenantSkills};
use crate::store_refusal::RefusalReason;

/// Refused skills that a run remembers for the audit log.
const REFUSED: usize = 100;
/// Names of loaded texts that a run remembers.
const NAMES: usize = 1000;

/// The stored skills of a run.
pub struct RunSkills {
    access: SkillAccess,
    /// Read again with every skill, so that a revoked key counts at once.
    policy: Mutex<ApprovalPolicy>,
    /// Names of the texts that were loaded, by the hash of the text.
    names: Mutex<HashMap<String, String>>,
    refused: Mutex<Vec<RefusedSkill>>,
}

/// A skill that was not run because it is not approved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedSkill {
    pub name: String,
    pub reason: String,
}

enum SkillAccess {
    /// A store of this machine, without a server.
    Store(Arc<dyn SkillStore>),
    /// The store of a tenant, under the rules for this caller.
    Tenant { skills: Arc<TenantSkills>, by: Caller },
}

impl RunSkills {
    /// Skills of a store, without a server.
    pub fn in_store(store: Arc<dyn SkillStore>, policy: ApprovalPolicy) -> Self {
        Self::new(SkillAccess::Store(store), policy)
    }

    /// Skills of the caller's tenant.
    pub fn of_tenant(skills: Arc<TenantSkills>, by: Caller, policy: ApprovalPolicy) -> Self {
        Self::new(SkillAccess::Tenant { skills, by }, policy)
    }

    fn new(access: SkillAccess, policy: ApprovalPolicy) -> Self {
        Self { access, policy: Mutex::new(policy), names: Mutex::default(), refused: Mutex::default() }
    }

    /// The skill of this name with its version, if it is stored.
    pub async fn find(&self, name: &str, version: Option<&str>) -> Result<Option<SkillSource>, HostFault> {
        let loaded = match &self.access {
            SkillAccess::Store(store) => store.load(name, version).await,
            SkillAccess::Tenant { skills, by } => {
                if let Some(policy) = answered(skills.policy(by).await)? {
                    *self.policy.lock() = policy;
                }
                skills.load(by, name, version).await
            }
        };
        let found = answered(loaded)?;
        if let Some(found) = &found {
            let mut names = self.names.lock();
            if names.len() >= NAMES {
                names.clear();
            }
            names.insert(ContentHash::of(&found.source).as_str().to_owned(), name.to_owned());
        }
        Ok(found)
    }

    pub async fn load(&self, name: &str) -> Result<Option<LoadedSkill>, HostFault> {
        let found = self.find(name, None).await?;
        Ok(found.map(|found| LoadedSkill {
            source: found.source.into(),
            author: found.metadata.author.map(Into::into),
        }))
    }

    /// Whether a stored text may run. A refusal is remembered.
    pub fn check(&self, source: &str) -> ApprovalVerdict {
        let verdict = self.verdict(source);
        if let ApprovalVerdict::Refused(refusal) = &verdict {
            let name = self.names.lock().get(ContentHash::of(source).as_str()).cloned();
            let mut refused = self.refused.lock();
            let refusal = RefusedSkill { name: name.unwrap_or_default(), reason: refusal.to_string() };
            if refused.len() < REFUSED && !refused.contains(&refusal) {
                refused.push(refusal);
            }
        }
        verdict
    }

    /// Whether a text may run, without remembering a refusal.
    pub fn verdict(&self, source: &str) -> ApprovalVerdict {
        check_approval(source, self.policy.lock().mode())
    }

    /// The skills that were refused since the last call, each once.
    pub fn take_refused(&self) -> Vec<RefusedSkill> {
        std::mem::take(&mut *self.refused.lock())
    }

    /// Whether effects need a signature.
    pub fn is_secured(&self) -> bool {
        matches!(*self.policy.lock(), ApprovalPolicy::Signed(_))
    }

    /// The tool `skill_read`.
    pub async fn read_tool(&self, arguments: &Map<String, Value>) -> Result<Value, HostFault> {
        let name = required(arguments, "skill_read", "name")?;
        let version = arguments.get("version").and_then(Value::as_str);
        match self.find(name, version).await? {
            Some(found) => Ok(json!({
                "name": found.name,
                "version": found.version,
                "content_hash": found.content_hash,
                "source": found.source,
                "status": found.metadata.status.as_str(),
            })),
            None => Err(not_found(name)),
        }
    }

    /// The tool `skill_write`. What a skill writes is a Draft.
    pub async fn write_tool(
        &self,
        arguments: &Map<String, Value>,
        owner: Option<&str>,
    ) -> Result<Value, HostFault> {
        let name = required(arguments, "skill_write", "name")?;
        let source = required(arguments, "skill_write", "source")?;
        let only_new = arguments.get("overwrite") != Some(&Value::Bool(true));
        let written = match &self.access {
            SkillAccess::Store(store) => {
                let writer = owner.map(str::to_owned);
                let options = StoreOptions { force_draft: true, writer, only_new, ..StoreOptions::default() };
                store.store(name, source, options).await
            }
            SkillAccess::Tenant { skills, by } => {
                let source = source.to_owned();
                let write = SkillWrite { source, force_draft: true, only_new, ..SkillWrite::default() };
                skills.write(by, name, write).await
            }
        };
        let VersionInfo { name, version, content_hash, status, .. } =
            answered(written)?.ok_or_else(|| not_found(name))?;
        Ok(json!({
            "name": name,
            "version": version,
            "content_hash": content_hash,
            "status": status.as_str(),
        }))
    }
}

/// The answer of a store. `None` if there is no such skill.
fn answered<T>(answer: StoreAnswer<T>) -> Result<Option<T>, HostFault> {
    match answer {
        Ok(Ok(answer)) => Ok(Some(answer)),
        Ok(Err(refusal)) if matches!(refusal.reason, RefusalReason::SkillNotFound { .. }) => Ok(None),
        Ok(Err(refusal)) => {
            let class = match refusal.reason.class() {
                "Error" => ErrorClass::Plain,
                class => ErrorClass::Other(class.into()),
            };
            Err(HostFault::new(class, refusal.to_string()))
        }
        Err(fault) => {
            tracing::error!(%fault, "a skill store cannot be used");
            Err(HostFault::plain("the skill store cannot be used now"))
        }
    }
}

fn not_found(name: &str) -> HostFault {
    let class = ErrorClass::Other("SkillNotFoundError".into());
    HostFault::new(class, RefusalReason::not_found(name).to_string())
}

fn required<'a>(arguments: &'a Map<String, Value>, tool: &str, name: &str) -> Result<&'a str, HostFault> {
    let text = arguments.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    text.ok_or_else(|| HostFault::plain(format!("{tool}: `{name}` is required and must be a text")))
}
