//! `posthouse approval-key`: public keys that check the signatures of skills.

use std::path::PathBuf;

use anyhow::Context;
use clap::Subcommand;
use serde_json::json;

use super::admin_client::AdminClient;
use super::output::Output;
use super::skill::key_files::public_key_file;

#[derive(Subcommand)]
pub enum Command {
    /// Adds a public key; skills that its owner signs are approved
    #[command(after_help = "The file is an Ed25519 public key in PEM. By default it is the file in \
        SKILLSCRIPT_APPROVAL_PUBLIC_KEY_FILE, or ~/.config/skillscript/approval.pub. The private key never leaves the \
        machine of its owner.\n\nExamples:\n  \
        posthouse approval-key add --tenant acme\n  \
        posthouse approval-key add --tenant acme --public-key-file ann.pub --label ann")]
    Add {
        /// The tenant whose skills the key approves
        #[arg(long, value_name = "TENANT")]
        tenant: String,
        /// File with the public key
        #[arg(long, value_name = "FILE")]
        public_key_file: Option<PathBuf>,
        /// A note, such as the owner of the key
        #[arg(long)]
        label: Option<String>,
    },
    /// Lists the keys of a tenant, revoked ones included
    #[command(after_help = "Example:\n  posthouse approval-key list --tenant acme")]
    List {
        /// The tenant
        #[arg(long, value_name = "TENANT")]
        tenant: String,
    },
    /// Revokes a key; skills that it signed stop passing at once
    #[command(after_help = "Example:\n  posthouse approval-key revoke 3f0c9d52a1b4e677 --tenant acme")]
    Revoke {
        /// The id of the key
        key: String,
        /// The tenant
        #[arg(long, value_name = "TENANT")]
        tenant: String,
    },
    /// Lists approvals, refused approvals, and skills that were stored as Drafts although their text said Approved
    #[command(after_help = "Example:\n  posthouse approval-key log --tenant acme")]
    Log {
        /// The tenant
        #[arg(long, value_name = "TENANT")]
        tenant: String,
    },
}

impl Command {
    pub async fn act(self, output: &Output, client: &AdminClient) -> anyhow::Result<()> {
        match self {
            Command::Add { tenant, public_key_file: file, label } => {
                let file = public_key_file(file)?;
                let pem = std::fs::read_to_string(&file)
                    .with_context(|| format!("cannot read the public key {}", file.display()))?;
                let body = json!({ "tenant": tenant, "public_key": pem, "label": label });
                let added = client.post(&["approval-keys"], &[], &body).await?;
                let id = added["key_id"].as_str().unwrap_or_default();
                output.done(&added, &format!("added approval key {id} of tenant {tenant}"))
            }
            Command::List { tenant } => {
                let keys = client.get(&["approval-keys"], &[("tenant", Some(&tenant))]).await?;
                let columns = [
                    ("KEY", "key_id"),
                    ("ACTIVE", "active"),
                    ("LABEL", "label"),
                    ("ADDED", "added_at"),
                    ("REVOKED", "revoked_at"),
                ];
                let keys = keys["items"].as_array().cloned().unwrap_or_default();
                output.list(keys, &columns, "there are no approval keys")
            }
            Command::Revoke { key, tenant } => {
                let revoked = client.delete(&["approval-keys", &tenant, &key], &[]).await?;
                output.done(&revoked, &format!("revoked approval key {key} of tenant {tenant}"))
            }
            Command::Log { tenant } => {
                let log = client.get(&["skill-audit"], &[("tenant", Some(&tenant))]).await?;
                let columns = [
                    ("AT", "at"),
                    ("EVENT", "event"),
                    ("SKILL", "skill"),
                    ("VERSION", "version"),
                    ("CALLER", "caller"),
                    ("KEY", "key_id"),
                    ("REASON", "reason"),
                ];
                let rows = log["items"].as_array().cloned().unwrap_or_default();
                output.list(rows, &columns, "nothing was approved or refused yet")
            }
        }
    }
}
