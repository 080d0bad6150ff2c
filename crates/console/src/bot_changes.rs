//! Admin API: changes of bots, which are their secrets, settings, access, and the tenants that may use them.

use std::collections::{BTreeMap, HashMap};

use axum::extract::{Path, State};
use axum::{Extension, Json};
use edge::platform::FieldPresence;
use ledger::{AdmittedTenant, BotRef, PrincipalPolicy};
use posthouse_wire::Secret;
use serde::Deserialize;
use serde_json::json;

use crate::audit::AuditSubject;
use crate::bots::{ShownBot, named_secrets, not_kept};
use crate::extract::JsonBody;
use crate::problem::AdminProblem;
use crate::routes::{Console, Parts};

/// New values of a bot. An absent field stays as it is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BotChange {
    /// Everybody may write to it.
    #[serde(default)]
    open: Option<bool>,
    /// Agents without a policy of their own get only addressed messages of groups.
    #[serde(default)]
    require_address: Option<bool>,
    /// Names or ids of tenants whose agents may use it from now on; `*` for every tenant.
    #[serde(default)]
    admit_tenants: Vec<String>,
    /// Names or ids of tenants whose agents lose it; `*` for those that only `*` admitted.
    #[serde(default)]
    withdraw_tenants: Vec<String>,
    /// Secrets to replace, by name. They are checked with the platform.
    #[serde(default)]
    secrets: HashMap<String, Secret>,
    /// Optional settings of its platform to set, by name.
    #[serde(default)]
    settings: BTreeMap<String, String>,
}

impl Parts {
    /// A tenant by name or id, or every tenant.
    async fn admitted_tenant(&self, name: &str) -> Result<AdmittedTenant, AdminProblem> {
        Ok(match name {
            "*" => AdmittedTenant::Every,
            name => AdmittedTenant::One(self.tenant(name).await?.id),
        })
    }

    async fn change_bot(&self, on: &BotRef, change: &BotChange) -> Result<Vec<String>, AdminProblem> {
        let (gate, mut said) = (&self.identity.gate, Vec::new());
        let (mut admit, mut withdraw) = (Vec::new(), Vec::new());
        for name in &change.admit_tenants {
            admit.push((name, self.admitted_tenant(name).await?));
        }
        for name in &change.withdraw_tenants {
            withdraw.push((name, self.admitted_tenant(name).await?));
        }
        for name in change.settings.keys() {
            let changeable = self.edge.platform(on.platform.as_str()).is_some_and(|platform| {
                let mut optional =
                    platform.fields().iter().filter(|one| one.presence == FieldPresence::Optional);
                optional.any(|field| !field.secret && field.name == name)
            });
            if !changeable {
                let detail = format!("a bot of platform `{}` has no setting `{name}` to change", on.platform);
                return Err(AdminProblem::unfit("unknown_setting", detail));
            }
        }
        // Changes that can fail come first.
        if !change.secrets.is_empty() {
            let secrets = named_secrets(self, on.platform.as_str(), &change.secrets)?;
            self.edge.replace_credentials(on, secrets).await?.map_err(not_kept)?;
            said.push("has a new credential".to_owned());
        }
        if !change.settings.is_empty() {
            let changed = json!(change.settings).to_string();
            self.identity.accounts.change_bot_settings(on, &changed).await?;
            said.extend(change.settings.iter().map(|(name, value)| format!("has {name}={value}")));
        }
        if let Some(open) = change.open {
            gate.access().set_policy(on, PrincipalPolicy::open(open)).await?;
            said.push(if open {
                "is open to all".to_owned()
            } else {
                "is closed to unknown senders".to_owned()
            });
        }
        if let Some(required) = change.require_address {
            gate.claims().shared_bots().set_require_address(on, required).await?;
            self.identity.roster.bot_changed(on);
            said.push(format!("has require_address={required}"));
        }
        for (name, tenant) in admit {
            if !gate.claims().admit_tenant(on, &tenant).await? {
                let detail = format!("bot {}:{} belongs to one agent and is not shared", on.platform, on.bot);
                return Err(AdminProblem::conflict("not_shared", detail));
            }
            said.push(format!("is usable by tenant {name}"));
        }
        for (name, tenant) in withdraw {
            let withdrawing = gate.claims().withdraw_tenant(on, &tenant);
            self.relay.route_removals().take_away(withdrawing, Clone::clone).await?;
            said.push(format!("is no longer usable by tenant {name}"));
        }
        Ok(said)
    }
}

/// Changes a bot: its secrets and settings, who may write to it, who may use it, and what agents without own settings get.
pub(crate) async fn change(
    State(console): State<Console>,
    Path((platform, bot)): Path<(String, String)>,
    JsonBody(change): JsonBody<BotChange>,
) -> Result<(Extension<AuditSubject>, Json<ShownBot>), AdminProblem> {
    let record = console.bot(&platform, &bot).await?;
    if console.is_built_in(&record.platform) {
        let detail = format!("platform `{platform}` admits senders by invitation: use `posthouse invite`");
        return Err(AdminProblem::conflict("built_in", detail));
    }
    let bot_ref = BotRef { platform: record.platform, bot: record.id };
    let said = console.change_bot(&bot_ref, &change).await?;
    if said.is_empty() {
        return Err(AdminProblem::unfit("nothing_to_change", "name at least one field to change"));
    }
    let record = console.bot(&platform, &bot).await?;
    let routes = console.identity.roster.records().routes().await?;
    let about = AuditSubject::new(format!("{platform}:{bot} {}", said.join(", ")));
    Ok((Extension(about), Json(console.shown_bot(record, &routes).await?)))
}
