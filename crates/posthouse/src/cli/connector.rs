//! `posthouse connector`: ways to agents that do not connect by WebSocket.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};

use super::admin_client::AdminClient;
use super::bot::read_settings;
use super::output::{Output, aligned, cell};
use super::server_address::read_secret;

#[derive(Subcommand)]
pub enum Command {
    /// Creates a connector, a way to agents that do not connect by WebSocket; fails if it is not healthy
    #[command(
        after_help = "The settings are a JSON file; each kind has its own. Secrets are never given on the command \
        line: they are read from files, stored encrypted, and never shown again.\n\nExamples:\n  \
        posthouse connector create hooks --tenant acme --kind webhook --settings hooks.json \\\n      \
        --authorization-file auth --hmac-secret-file hmac\n  \
        posthouse connector create panes --tenant acme --kind tmux --settings panes.json --force"
    )]
    Create {
        /// Name of the connector
        name: String,
        /// The tenant that owns the connector
        #[arg(long, value_name = "TENANT")]
        tenant: String,
        /// How the connector reaches agents
        #[arg(long, value_enum)]
        kind: ConnectorKind,
        /// A JSON file with the settings of the kind, for example the list of agents
        #[arg(long, value_name = "FILE")]
        settings: Option<PathBuf>,
        #[command(flatten)]
        options: ConnectorOptions,
    },
    /// Creates a webhook connector from a map of agents to URLs, as reference runtimes have it in
    /// HTTP_WEBHOOK_AGENTS
    #[command(
        after_help = "The file holds a JSON object: agent -> {url, wake_url?, status_url?}.\n\nExample:\n  \
        printenv HTTP_WEBHOOK_AGENTS > agents.json\n  \
        posthouse connector import agents.json --tenant acme --hmac-secret-file hmac"
    )]
    Import {
        /// The JSON file with the map
        file: PathBuf,
        /// The tenant that owns the connector
        #[arg(long, value_name = "TENANT")]
        tenant: String,
        /// Name of the connector
        #[arg(long, default_value = "webhook")]
        name: String,
        /// Timeout of one call, as in HTTP_WEBHOOK_TIMEOUT_MS
        #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
        timeout_ms: Option<u64>,
        #[command(flatten)]
        options: ConnectorOptions,
    },
    /// Lists connectors in the order in which the server tries them; `relay` always comes first
    #[command(after_help = "The list calls no connector: it shows only whether each can be opened. \
        `check` tests whether it is healthy.\n\nExamples:\n  posthouse connector list\n  \
        posthouse connector list --tenant acme --json")]
    List {
        /// Only connectors of this tenant
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
    },
    /// Shows one connector, its health, and which secrets it has
    #[command(after_help = "Example:\n  posthouse connector show hooks --tenant acme")]
    Show(ConnectorSelector),
    /// Checks the health of a connector and lists the agents it knows; fails if it is not healthy
    #[command(after_help = "Example:\n  posthouse connector check hooks --tenant acme")]
    Check(ConnectorSelector),
    /// Removes a connector with its secrets; its pending deliveries fail
    #[command(after_help = "Example:\n  posthouse connector remove hooks --tenant acme")]
    Remove(ConnectorSelector),
}

/// One connector.
#[derive(Args)]
pub struct ConnectorSelector {
    /// Name of the connector
    name: String,
    /// The tenant that owns the connector
    #[arg(long, value_name = "TENANT")]
    tenant: String,
}

/// Secrets of a new connector, and whether it must be healthy.
#[derive(Args)]
pub struct ConnectorOptions {
    /// File with the value of the Authorization header that it sends
    #[arg(long, value_name = "FILE")]
    authorization_file: Option<PathBuf>,
    /// File with the secret that it signs with
    #[arg(long, value_name = "FILE")]
    hmac_secret_file: Option<PathBuf>,
    /// Create it even if it is not healthy now
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum ConnectorKind {
    /// Calls a URL for each agent
    Webhook,
    /// Types into a terminal pane on the machine of the server
    Tmux,
    /// Writes files into folders on the machine of the server
    FileDrop,
    /// Accepts everything and does nothing
    Noop,
}

impl ConnectorKind {
    fn word(self) -> &'static str {
        match self {
            ConnectorKind::Webhook => "webhook",
            ConnectorKind::Tmux => "tmux",
            ConnectorKind::FileDrop => "file-drop",
            ConnectorKind::Noop => "noop",
        }
    }
}

impl Command {
    pub async fn act(self, output: &Output, client: &AdminClient) -> anyhow::Result<()> {
        match self {
            Command::Create { name, tenant, kind, settings, options } => {
                let settings = settings.as_deref().map(read_settings).transpose()?.unwrap_or_default();
                let body = options.body(&tenant, &name, kind, settings)?;
                show(output, &client.post(&["connectors"], &[], &body).await?)
            }
            Command::Import { file, tenant, name, timeout_ms, options } => {
                let mut settings = Map::from_iter([("agents".to_owned(), read_agents(&file)?.into())]);
                if let Some(timeout) = timeout_ms {
                    settings.insert("timeout_ms".to_owned(), timeout.into());
                }
                let body = options.body(&tenant, &name, ConnectorKind::Webhook, settings)?;
                show(output, &client.post(&["connectors"], &[], &body).await?)
            }
            Command::List { tenant } => {
                let connectors = client.list(&["connectors"], &[("tenant", tenant.as_deref())]).await?;
                let columns = [
                    ("TENANT", "tenant"),
                    ("NAME", "name"),
                    ("KIND", "kind"),
                    ("HEALTHY", "healthy"),
                    ("AUTHORIZATION", "authorization"),
                    ("SIGNS", "hmac_secret"),
                    ("CREATED", "created_at"),
                    ("WHY", "why"),
                ];
                output.list(
                    connectors,
                    &columns,
                    "there are no connectors except `relay`, which every tenant has",
                )
            }
            Command::Show(which) => show(output, &client.get(&which.path(), &[]).await?),
            Command::Check(which) => {
                let path = ["connectors", &which.tenant, &which.name, "check"];
                let health = client.post(&path, &[], &json!({})).await?;
                found(output, &health)?;
                if health["healthy"] != json!(true) {
                    bail!("connector {} is not healthy: {}", which.name, cell(&health["why"]));
                }
                Ok(())
            }
            Command::Remove(which) => {
                let removed = client.delete(&which.path(), &[]).await?;
                output.done(&removed, &format!("removed connector {}", which.name))
            }
        }
    }
}

impl ConnectorSelector {
    fn path(&self) -> [&str; 3] {
        ["connectors", &self.tenant, &self.name]
    }
}

impl ConnectorOptions {
    fn body(
        &self,
        tenant: &str,
        name: &str,
        kind: ConnectorKind,
        settings: Map<String, Value>,
    ) -> anyhow::Result<Value> {
        let secret = |file: &Option<PathBuf>| file.as_deref().map(read_secret).transpose();
        let mut body = json!({
            "tenant": tenant,
            "name": name,
            "kind": kind.word(),
            "settings": settings,
            "force": self.force,
        });
        if let Some(authorization) = secret(&self.authorization_file)? {
            body["authorization"] = authorization.expose().into();
        }
        if let Some(hmac_secret) = secret(&self.hmac_secret_file)? {
            body["hmac_secret"] = hmac_secret.expose().into();
        }
        Ok(body)
    }
}

/// Reads a map as in `HTTP_WEBHOOK_AGENTS`. It is checked here, so that errors name the agent: a file made
/// for another program is often wrong.
fn read_agents(file: &Path) -> anyhow::Result<Map<String, Value>> {
    let agents = read_settings(file)?;
    if agents.is_empty() {
        bail!("{} names no agent", file.display());
    }
    for (agent, urls) in &agents {
        check_urls(urls).with_context(|| format!("agent `{agent}` in {}", file.display()))?;
    }
    Ok(agents)
}

fn check_urls(urls: &Value) -> anyhow::Result<()> {
    let Some(urls) = urls.as_object() else { bail!("is not a JSON object with a url") };
    if urls.get("url").and_then(Value::as_str).is_none_or(str::is_empty) {
        bail!("has no url");
    }
    for (name, value) in urls {
        if !["url", "wake_url", "status_url"].contains(&name.as_str()) {
            bail!("has `{name}`: only url, wake_url and status_url are allowed");
        }
        if !value.is_string() {
            bail!("`{name}` is not a string");
        }
    }
    Ok(())
}

fn show(output: &Output, connector: &Value) -> anyhow::Result<()> {
    let parts = [
        ("name", "name"),
        ("tenant", "tenant"),
        ("kind", "kind"),
        ("healthy", "healthy"),
        ("why", "why"),
        ("id", "connector_id"),
        ("authorization", "authorization"),
        ("hmac secret", "hmac_secret"),
        ("settings", "settings"),
        ("created", "created_at"),
    ];
    output.card(connector, &parts)
}

/// Prints the result of a health check.
fn found(output: &Output, health: &Value) -> anyhow::Result<()> {
    if output.json {
        return output.value(health);
    }
    let features = health["features"].as_object().into_iter().flatten();
    let able: Vec<&str> =
        features.filter(|(_, can)| **can == json!(true)).map(|(name, _)| name.as_str()).collect();
    let agents = health["agents"].as_array().into_iter().flatten();
    let agents: Vec<String> = agents.map(|agent| cell(&agent["agent_id"])).collect();
    let mut rows = vec![("healthy", cell(&health["healthy"]))];
    if !health["why"].is_null() {
        rows.push(("why", cell(&health["why"])));
    }
    rows.push(("implementation", cell(&health["implementation"])));
    rows.push(("can", able.join(" ")));
    rows.push(("agents", cell(&json!(agents))));
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|(heading, value)| vec![heading.to_owned(), value]).collect();
    output.text(&aligned(&rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_of_agents_is_taken_as_the_reference_writes_it_and_named_where_it_is_wrong() {
        for good in [
            json!({ "url": "https://h/x" }),
            json!({ "url": "https://h/x", "wake_url": "https://h/w", "status_url": "https://h/s" }),
        ] {
            assert!(check_urls(&good).is_ok(), "{good}");
        }
        for (bad, why) in [
            (json!("https://h/x"), "not a JSON object"),
            (json!({}), "no url"),
            (json!({ "url": "" }), "no url"),
            (json!({ "url": 7 }), "no url"),
            (json!({ "url": "https://h/x", "wake_url": 7 }), "`wake_url` is not a string"),
            (json!({ "url": "https://h/x", "wakeUrl": "https://h/w" }), "`wakeUrl`"),
        ] {
            let complaint = check_urls(&bad).unwrap_err().to_string();
            assert!(complaint.contains(why), "{bad}: {complaint}");
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("agents.json");
        std::fs::write(&file, r#"{"desk":{"url":"https://h"},"perry":{}}"#).unwrap();
        let complaint = format!("{:#}", read_agents(&file).unwrap_err());
        assert!(complaint.contains("`perry`") && complaint.contains("has no url"), "{complaint}");
    }
}
