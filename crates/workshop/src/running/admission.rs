//! Admission of runs: a skill runs only if it exists, the approval gate passes, and lint finds no error.

use std::sync::Arc;

use post::Caller;
use skill::tree::SkillTree;
use skill::{ApprovalVerdict, ErrorClass, SkillHost, lint_errors};

use super::run_host::RunHost;
use super::run_report::{RefusedName, RunRefusal};
use super::runs::{RunOrder, RunText, Runs};
use super::tenant_resources::TenantRunSetup;
use crate::fault::Fault;

/// A skill that may run.
pub(super) struct AdmittedSkill {
    pub host: RunHost,
    pub tree: Arc<SkillTree>,
    pub name: String,
    pub version: Option<String>,
    pub owner: Option<Arc<str>>,
    pub has_authority: bool,
    pub is_secured: bool,
}

impl AdmittedSkill {
    pub fn refused_name(&self, order: &RunOrder) -> RefusedName {
        match order.text {
            RunText::Stored(_) => RefusedName::Known(self.name.clone()),
            RunText::Given { .. } => RefusedName::Absent,
        }
    }
}

impl Runs {
    /// Checks that a skill may run: it exists, the gate passes, and lint finds no error.
    pub(super) async fn admit(
        &self,
        by: &Caller,
        order: &RunOrder,
        setup: &TenantRunSetup,
    ) -> Result<Result<AdmittedSkill, RunRefusal>, Fault> {
        let name = match &order.text {
            RunText::Stored(name) => name.as_str(),
            RunText::Given { .. } => "(given)",
        };
        let host = match self.host(by, name, setup).await? {
            Ok(host) => host,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let is_signed = host.skills().is_secured();
        let (source, version, owner, has_authority, is_secured) = match &order.text {
            RunText::Stored(name) => {
                let found = match host.skills().find(name, None).await {
                    Ok(Some(found)) => found,
                    Ok(None) => return Ok(Err(missing(name))),
                    Err(fault) => {
                        let known = RefusedName::Known(name.clone());
                        return Ok(Err(RunRefusal::new(&fault.class, fault.message, known)));
                    }
                };
                if let ApprovalVerdict::Refused(refusal) = host.check_approval(&found.source) {
                    self.log_refused(by, &host).await?;
                    let message = format!("Approval rejected for skill '{name}': {refusal}");
                    let known = RefusedName::Known(name.clone());
                    return Ok(Err(RunRefusal::new(&ErrorClass::ApprovalRejected, message, known)));
                }
                let owner = found.metadata.author.map(Into::into);
                (found.source, Some(found.version), owner, true, is_signed)
            }
            RunText::Given { source, with_effects } => {
                let is_approved =
                    is_signed && matches!(host.skills().verdict(source), ApprovalVerdict::Approved { .. });
                (source.clone(), None, None, is_approved, is_signed || !with_effects)
            }
        };
        let tree = Arc::new(SkillTree::parse(&source));
        let errors = lint_errors(&host, &tree).await;
        if !errors.is_empty() {
            let message = format!("lint found errors: {}", errors.join("; "));
            let name = match &order.text {
                RunText::Stored(name) => RefusedName::Known(name.clone()),
                RunText::Given { .. } => RefusedName::Absent,
            };
            return Ok(Err(RunRefusal::new(&ErrorClass::LintFailure, message, name)));
        }
        let name = match &order.text {
            RunText::Stored(name) => name.clone(),
            RunText::Given { .. } => tree.header.name.clone().unwrap_or_else(|| "(anonymous)".to_owned()),
        };
        Ok(Ok(AdmittedSkill { host, tree, name, version, owner, has_authority, is_secured }))
    }
}

fn missing(name: &str) -> RunRefusal {
    let class = ErrorClass::Other("SkillNotFoundError".into());
    let message = format!("there is no stored skill '{name}'");
    RunRefusal::new(&class, message, RefusedName::Null)
}
