//! Authentication of commands that write to agents: with a client credential, or as the operator for a
//! tenant.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use posthouse_wire::Secret;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::Exit;
use super::admin_client::{AdminClient, Query, ServerConnection, Unreached};
use super::server_address::{ServerOptions, read_secret};

/// Exit code if no agent has the given name.
pub const UNKNOWN_AGENT: u8 = 4;

/// Default sender name of the operator.
const OPERATOR: &str = "operator";

/// Credential options.
#[derive(Args)]
pub struct CredentialArgs {
    /// Act as the operator, for this tenant
    #[arg(long, value_name = "TENANT", conflicts_with_all = ["client_id", "client_secret_file"])]
    pub tenant: Option<String>,
    /// Use this client credential; by default the one in POSTHOUSE_CLIENT_ID
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// File with the secret of the client; by default the file in POSTHOUSE_CLIENT_SECRET_FILE, or the
    /// secret in POSTHOUSE_CLIENT_SECRET
    #[arg(long, value_name = "FILE")]
    client_secret_file: Option<PathBuf>,
}

enum Who {
    Operator { client: AdminClient, tenant: String },
    Client { id: String, secret: Secret },
}

/// Authenticated connection of a program or of the operator to the API for programs.
pub struct ProgramClient {
    connection: ServerConnection,
    who: Who,
    token: Secret,
}

impl CredentialArgs {
    pub async fn connect(self, server: &ServerOptions) -> anyhow::Result<ProgramClient> {
        let who = match self.tenant {
            Some(tenant) => Who::Operator { client: AdminClient::new(server)?, tenant },
            None => self.credential()?,
        };
        // A program usually has no access to the server's folder, so this error does not mention --dir.
        if matches!(who, Who::Client { .. }) && !server.is_given() {
            bail!("no server given: use --url URL, or set POSTHOUSE_URL");
        }
        let connection = ServerConnection::new(server)?;
        let token = who.token(&connection).await?;
        Ok(ProgramClient { connection, who, token })
    }

    /// Whether to use a client credential: there is one, and no --tenant, which only the operator may use.
    pub fn is_program(&self) -> bool {
        self.tenant.is_none() && (self.client_id.is_some() || variable("POSTHOUSE_CLIENT_ID").is_some())
    }

    /// The options of this command line that name the credential.
    pub fn words(&self) -> Vec<String> {
        let file = self.client_secret_file.as_ref().map(|file| file.display().to_string());
        let options = [
            ("--tenant", self.tenant.clone()),
            ("--client-id", self.client_id.clone()),
            ("--client-secret-file", file),
        ];
        options.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value?])).flatten().collect()
    }

    fn credential(self) -> anyhow::Result<Who> {
        let Some(id) = self.client_id.or_else(|| variable("POSTHOUSE_CLIENT_ID")) else {
            bail!(
                "no credentials: use --tenant NAME as the operator, or --client-id and --client-secret-file, \
                 or set POSTHOUSE_CLIENT_ID and POSTHOUSE_CLIENT_SECRET"
            );
        };
        let file =
            self.client_secret_file.or_else(|| variable("POSTHOUSE_CLIENT_SECRET_FILE").map(PathBuf::from));
        let secret = match (file, variable("POSTHOUSE_CLIENT_SECRET")) {
            (Some(file), _) => read_secret(&file)?,
            (None, Some(secret)) => Secret::new(secret.trim()),
            (None, None) => bail!("no secret for client {id}: use --client-secret-file"),
        };
        Ok(Who::Client { id, secret })
    }
}

/// An environment variable, if it is set and not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl Who {
    /// A new access token for this command only.
    async fn token(&self, connection: &ServerConnection) -> anyhow::Result<Secret> {
        let granted = match self {
            Who::Operator { client, tenant } => {
                client.post(&["tenants", tenant, "token"], &[], &json!({})).await?
            }
            Who::Client { id, secret } => {
                let form = [
                    ("grant_type", "client_credentials"),
                    ("client_id", id.as_str()),
                    ("client_secret", secret.expose()),
                ];
                let request = connection.request(Method::POST, &["oauth", "token"], &[]).form(&form);
                let (status, answer) = connection.send(request).await?;
                if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::BAD_REQUEST) {
                    bail!("the server rejects the secret of client {id}");
                }
                if !status.is_success() {
                    return Err(connection.refusal(status, &answer));
                }
                answer
            }
        };
        granted["access_token"].as_str().map(Secret::new).context("the server returned no access token")
    }
}

impl ProgramClient {
    /// Default sender name. Programs and agents have a name of their own, so only the operator gets one.
    pub fn default_sender(&self) -> Option<&'static str> {
        matches!(self.who, Who::Operator { .. }).then_some(OPERATOR)
    }

    pub async fn post(
        &mut self,
        verb: &str,
        body: &Value,
        idempotency_key: Option<&str>,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let key: Vec<(&str, &str)> =
            idempotency_key.map(|key| ("idempotency-key", key)).into_iter().collect();
        self.call(Method::POST, &["v1", verb], &[], &key, Some(body)).await
    }

    pub async fn get(&mut self, path: &[&str], query: &Query<'_>) -> anyhow::Result<(StatusCode, Value)> {
        let path = [&["v1"], path].concat();
        self.call(Method::GET, &path, query, &[], None).await
    }

    async fn call(
        &mut self,
        method: Method,
        path: &[&str],
        query: &Query<'_>,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let mut renewed = false;
        loop {
            let mut request =
                self.connection.request(method.clone(), path, query).bearer_auth(self.token.expose());
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            if let Some(body) = body {
                request = request.json(body);
            }
            let (status, answer) = self.connection.send(request).await?;
            // The token of an operator is short-lived and may expire during a long wait.
            if status != StatusCode::UNAUTHORIZED || renewed {
                return Ok((status, answer));
            }
            self.token = self.who.token(&self.connection).await?;
            renewed = true;
        }
    }

    /// A refusal as an error, with its own exit code if the agent is unknown.
    pub fn refusal(&self, recipient: &Recipient, status: StatusCode, answer: &Value) -> anyhow::Error {
        // Compared by these words, because a connector can know the agent and refuse it for another reason.
        let detail = answer["detail"].as_str().unwrap_or_default();
        if answer["cause_kind"] == "client_validation" && detail.starts_with("no connector knows") {
            return recipient.unknown_agent();
        }
        let refusal = self.connection.refusal(status, answer);
        // A failed delivery can still have a receipt; the error names its dispatch id.
        let known_by = answer["dispatch_id"].as_str().map(|id| format!(" as {id}")).unwrap_or_default();
        match answer["cause_kind"].as_str() {
            Some(kind) => refusal.context(format!("not delivered{known_by} ({kind})")),
            None => refusal,
        }
    }

    /// A refusal of a request that concerns no agent.
    pub fn refused(&self, status: StatusCode, answer: &Value) -> anyhow::Error {
        self.connection.refusal(status, answer)
    }
}

/// The agent to reach, and the connectors to use.
#[derive(Default)]
pub struct Recipient {
    pub agent: String,
    pub connectors: Vec<String>,
}

impl Recipient {
    /// The error for an agent that no connector, or none of the named connectors, knows.
    pub fn unknown_agent(&self) -> anyhow::Error {
        let agent = &self.agent;
        let words = match &self.connectors[..] {
            [] => {
                format!("unknown agent `{agent}`: it is neither enrolled nor listed by a connector")
            }
            [one] => format!("no connector `{one}` knows an agent `{agent}`"),
            named => format!("none of the connectors {} knows an agent `{agent}`", named.join(", ")),
        };
        Exit { code: UNKNOWN_AGENT, words }.into()
    }
}

/// Whether the server could not be reached, which may be temporary.
pub fn unreached(error: &anyhow::Error) -> Option<&Unreached> {
    error.downcast_ref()
}
