//! `posthouse tenant`: the owners of agents.

mod limits;
mod stores;

use std::str::FromStr;

use clap::{Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::json;

use self::limits::LimitArgs;
use self::stores::StoreArgs;

use super::admin_client::AdminClient;
use super::output::Output;

#[derive(Subcommand)]
pub enum Command {
    /// Creates a tenant
    #[command(after_help = "Example:\n  posthouse tenant create acme")]
    Create {
        /// Name of the tenant, unique on this server
        name: String,
    },
    /// Lists tenants
    #[command(after_help = "Example:\n  posthouse tenant list --json")]
    List,
    /// Shows one tenant, by name or id
    #[command(after_help = "Example:\n  posthouse tenant show acme")]
    Show {
        /// The tenant's name, or its id (ten_…)
        tenant: String,
    },
    /// Changes the permissions, limits and stores of a tenant
    #[command(
        after_help = "Examples:\n  posthouse tenant change acme --peer-post none --storage-bytes 8589934592\n  \
                      posthouse tenant change acme --messages-per-minute 20000 --sockets default\n  \
                      posthouse tenant change acme --approval signed --skill-store filesystem:/srv/skills/acme\n  \
                      posthouse tenant change acme --data-store https://stores.example.com/acme \\\n    \
                      --data-store-hmac-secret-file store.secret"
    )]
    #[command(group = clap::ArgGroup::new("what").required(true).multiple(true), alias = "set")]
    #[command(override_usage = "posthouse tenant change [OPTIONS] <TENANT>")]
    Change {
        /// The tenant's name, or its id (ten_…)
        tenant: String,
        /// Which other agents of the tenant an agent may write to with its own credential
        #[arg(long, value_enum, value_name = "PEERS", group = "what")]
        peer_post: Option<PeerPostArg>,
        /// Storage limit of the tenant in bytes, or `default` for the server's `storage.tenant_bytes`
        #[arg(long, value_name = "BYTES", group = "what")]
        storage_bytes: Option<StorageLimitArg>,
        /// Whether gateways that provision themselves may create agents of the tenant
        #[arg(long, value_enum, value_name = "MODE", group = "what")]
        provisioning: Option<ProvisioningArg>,
        /// Limit on the bytes of the tenant's files, or `default` for the server's `storage.media_bytes`
        #[arg(long, value_name = "BYTES", group = "what")]
        media_bytes: Option<StorageLimitArg>,
        /// What a skill of the tenant needs to be approved
        #[arg(long, value_enum, value_name = "MODE", group = "what")]
        approval: Option<ApprovalArg>,
        /// Whether agents of the tenant may approve skills with their own credentials
        #[arg(long, value_name = "true|false", group = "what")]
        agents_may_approve: Option<bool>,
        /// Limit on the bytes of the tenant's data, or `default` for the server's `storage.data_bytes`
        #[arg(long, value_name = "BYTES", group = "what")]
        data_bytes: Option<StorageLimitArg>,
        #[command(flatten)]
        stores: Box<StoreArgs>,
        #[command(flatten)]
        limits: LimitArgs,
    },
    /// Removes a tenant that has no agents left
    #[command(after_help = "Example:\n  posthouse tenant remove acme")]
    Remove {
        /// The tenant's name, or its id (ten_…)
        tenant: String,
    },
}

#[derive(Clone, Copy, ValueEnum)]
pub enum PeerPostArg {
    /// All of them
    All,
    /// None of them
    None,
}

impl PeerPostArg {
    fn word(self) -> &'static str {
        match self {
            PeerPostArg::All => "all",
            PeerPostArg::None => "none",
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub enum ProvisioningArg {
    /// A gateway gets an agent of its own, or one that exists
    Open,
    /// A gateway gets only an agent that exists
    Closed,
}

impl ProvisioningArg {
    fn word(self) -> &'static str {
        match self {
            ProvisioningArg::Open => "open",
            ProvisioningArg::Closed => "closed",
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub enum ApprovalArg {
    /// Its status
    Open,
    /// A signature by one of the tenant's approval keys
    Signed,
}

impl ApprovalArg {
    fn word(self) -> &'static str {
        match self {
            ApprovalArg::Open => "open",
            ApprovalArg::Signed => "signed",
        }
    }
}

/// Storage limit of a tenant.
#[derive(Clone, Copy, Serialize)]
#[serde(untagged)]
pub enum StorageLimitArg {
    Own(i64),
    #[serde(serialize_with = "default_word")]
    Default,
}

fn default_word<S: serde::Serializer>(to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str("default")
}

impl FromStr for StorageLimitArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "default" => Ok(Self::Default),
            Ok(bytes) if bytes >= 0 => Ok(Self::Own(bytes)),
            _ => Err("use a number of bytes, or `default`".to_owned()),
        }
    }
}

impl Command {
    pub async fn act(self, output: &Output, client: &AdminClient) -> anyhow::Result<()> {
        match self {
            Command::Create { name } => {
                let made = client.post(&["tenants"], &[], &json!({ "name": name })).await?;
                output.done(&made, &format!("created tenant {name}"))
            }
            Command::List => {
                let tenants = client.list(&["tenants"], &[]).await?;
                let columns = [("NAME", "name"), ("ID", "tenant_id"), ("CREATED", "created_at")];
                output.list(tenants, &columns, "there are no tenants")
            }
            Command::Show { tenant } => {
                let shown = client.get(&["tenants", &tenant], &[]).await?;
                let parts = [
                    ("name", "name"),
                    ("id", "tenant_id"),
                    ("agents", "agents"),
                    ("peers an agent may write to", "peer_post"),
                    ("provisioning", "provisioning"),
                    ("approval of skills", "approval"),
                    ("agents may approve", "agents_may_approve"),
                    ("skill store", "skill_store"),
                    ("data store", "data_store"),
                    ("storage used", "storage_used_bytes"),
                    ("storage limit", "storage_limit_bytes"),
                    ("storage limit set by", "storage_limit"),
                    ("files used", "media_used_bytes"),
                    ("files limit", "media_limit_bytes"),
                    ("files limit set by", "media_limit"),
                    ("data used", "data_used_bytes"),
                    ("data limit", "data_limit_bytes"),
                    ("data limit set by", "data_limit"),
                    ("created", "created_at"),
                ];
                if output.json {
                    return output.value(&shown);
                }
                let (shown, rows) = limits::with_rows(shown);
                let parts: Vec<(&str, &str)> =
                    parts.into_iter().chain(rows.iter().map(|(title, name)| (&**title, &**name))).collect();
                output.card(&shown, &parts)
            }
            Command::Change {
                tenant,
                peer_post,
                storage_bytes,
                provisioning,
                media_bytes,
                approval,
                agents_may_approve,
                data_bytes,
                stores,
                limits,
            } => {
                let mut change = serde_json::Map::new();
                if let Some(peer_post) = peer_post {
                    change.insert("peer_post".to_owned(), json!(peer_post.word()));
                }
                if let Some(storage) = storage_bytes {
                    change.insert("storage_bytes".to_owned(), json!(storage));
                }
                if let Some(media) = media_bytes {
                    change.insert("media_bytes".to_owned(), json!(media));
                }
                if let Some(mode) = provisioning {
                    change.insert("provisioning".to_owned(), json!(mode.word()));
                }
                if let Some(approval) = approval {
                    change.insert("approval".to_owned(), json!(approval.word()));
                }
                if let Some(may) = agents_may_approve {
                    change.insert("agents_may_approve".to_owned(), json!(may));
                }
                if let Some(data) = data_bytes {
                    change.insert("data_bytes".to_owned(), json!(data));
                }
                change.extend(stores.members()?);
                let names = limits.names();
                if !names.is_empty() {
                    change.insert("limits".to_owned(), json!(limits));
                }
                let only_limits = change.len() == usize::from(!names.is_empty());
                let changed = client.patch(&["tenants", &tenant], &[], &json!(change)).await?;
                let mut lines = vec![format!("changed tenant {tenant}")];
                if !only_limits {
                    let settings = [
                        ("peers an agent may write to", "peer_post"),
                        ("storage limit in bytes", "storage_limit_bytes"),
                        ("limit of files in bytes", "media_limit_bytes"),
                        ("limit of data in bytes", "data_limit_bytes"),
                        ("provisioning of new agents", "provisioning"),
                        ("approval of skills", "approval"),
                        ("agents may approve", "agents_may_approve"),
                        ("skill store", "skill_store"),
                        ("data store", "data_store"),
                    ];
                    lines.extend(settings.map(|(title, name)| {
                        let value = &changed[name];
                        format!(
                            "  {title}: {}",
                            value.as_str().map_or_else(|| value.to_string(), str::to_owned)
                        )
                    }));
                }
                let problems = changed["store_problems"].as_array().into_iter().flatten();
                lines.extend(
                    problems
                        .filter_map(|problem| problem.as_str())
                        .map(|problem| format!("  warning: {problem}")),
                );
                lines.extend(limits::lines(&changed, &names).map(|limit| format!("  {limit}")));
                output.done(&changed, &lines.join("\n"))
            }
            Command::Remove { tenant } => {
                let removed = client.delete(&["tenants", &tenant], &[]).await?;
                output.done(&removed, &format!("removed tenant {tenant}"))
            }
        }
    }
}
