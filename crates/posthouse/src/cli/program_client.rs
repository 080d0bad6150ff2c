//! Client for programs, with the credential that a command line names: a client credential, or the operator's for a
//! tenant.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, bail};
use async_trait::async_trait;
use clap::Args;
use posthouse_agent::post::{ApiCredential, Client, Fault, FetchedToken, NoToken, TokenSource};
use posthouse_wire::Secret;
use posthouse_wire::delivery::Cause;
use reqwest::StatusCode;

use super::Exit;
use super::admin_client::{AdminClient, unreachable_server, unreadable};
use super::server_address::{ServerOptions, read_secret};

/// Exit code if no agent has the given name.
const UNKNOWN_AGENT: u8 = 4;

/// Default sender name of the operator.
const OPERATOR: &str = "operator";

/// Time limit of one call. Long enough for several connectors, each with a slow receiver.
const CALL_LIMIT: Duration = Duration::from_secs(300);

/// Credential options.
#[derive(Args)]
pub struct CredentialArgs {
    /// Act as the operator, for this tenant
    #[arg(long, value_name = "TENANT", conflicts_with_all = ["client_id", "client_secret_file"])]
    pub tenant: Option<String>,
    #[command(flatten)]
    client: ClientCredentialArgs,
}

/// Options of a client credential.
#[derive(Args)]
pub struct ClientCredentialArgs {
    /// Use this client credential; by default the one in POSTHOUSE_CLIENT_ID
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// File with the secret of the client; by default the file in POSTHOUSE_CLIENT_SECRET_FILE, or the
    /// secret in POSTHOUSE_CLIENT_SECRET
    #[arg(long, value_name = "FILE")]
    client_secret_file: Option<PathBuf>,
}

/// Authenticated client of a program or of the operator.
pub struct ProgramClient {
    /// Does not repeat a call: a user sees at once that the server is not there.
    pub post: Client,
    server: reqwest::Url,
    is_operator: bool,
}

impl CredentialArgs {
    /// Authenticates before anything else, so that a wrong credential or an absent server is an error at once.
    pub async fn connect(self, server: &ServerOptions) -> anyhow::Result<ProgramClient> {
        let (credential, client_id) = match self.tenant {
            Some(tenant) => {
                let admin = AdminClient::new(server)?;
                (ApiCredential::Source(Arc::new(OperatorTokens { admin, tenant })), None)
            }
            None => {
                let (id, secret) = self.client.read()?;
                // A program usually has no access to the server's folder, so this error does not mention --dir.
                if !server.is_given() {
                    bail!("no server given: use --url URL, or set POSTHOUSE_URL");
                }
                (ApiCredential::Client { id: id.clone(), secret }, Some(id))
            }
        };
        let url = server.url()?;
        let post = Client::new(url.as_str(), credential).patience(Duration::ZERO).attempt_limit(CALL_LIMIT);
        let program = ProgramClient { post, server: url, is_operator: client_id.is_none() };
        match (program.post.authenticate().await, client_id) {
            (Ok(()), _) => Ok(program),
            (Err(Fault::Refused { status: 400 | 401, .. }), Some(id)) => {
                bail!("the server rejects the secret of client {id}")
            }
            (Err(fault), _) => Err(program.error(fault)),
        }
    }

    /// Whether to use a client credential: there is one, and no --tenant, which only the operator may use.
    pub fn is_program(&self) -> bool {
        self.tenant.is_none()
            && (self.client.client_id.is_some() || variable("POSTHOUSE_CLIENT_ID").is_some())
    }

    /// The options of this command line that name the credential.
    pub fn words(&self) -> Vec<String> {
        let file = self.client.client_secret_file.as_ref().map(|file| file.display().to_string());
        let options = [
            ("--tenant", self.tenant.clone()),
            ("--client-id", self.client.client_id.clone()),
            ("--client-secret-file", file),
        ];
        options.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value?])).flatten().collect()
    }
}

impl ClientCredentialArgs {
    /// The credential, from the options or the environment.
    pub fn read(self) -> anyhow::Result<(String, Secret)> {
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
        Ok((id, secret))
    }
}

/// An environment variable, if it is set and not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Tokens with which the operator acts for a tenant. They are short-lived and may end during a long wait.
struct OperatorTokens {
    admin: AdminClient,
    tenant: String,
}

#[async_trait]
impl TokenSource for OperatorTokens {
    async fn fetch(&self) -> Result<FetchedToken, NoToken> {
        let answer = self.admin.tenant_token(&self.tenant).await;
        let (status, granted) = answer.map_err(|error| NoToken::Unreachable(error.cause))?;
        if !status.is_success() {
            return Err(NoToken::Refused { status: status.as_u16(), body: granted.to_string().into_bytes() });
        }
        match (granted["access_token"].as_str(), granted["expires_in"].as_u64()) {
            (Some(token), Some(seconds)) => {
                Ok(FetchedToken { token: Secret::new(token), lifetime: Duration::from_secs(seconds) })
            }
            _ => Err(NoToken::Malformed),
        }
    }
}

impl ProgramClient {
    /// Default sender name. Programs and agents have a name of their own, so only the operator gets one.
    pub fn default_sender(&self) -> Option<String> {
        self.is_operator.then(|| OPERATOR.to_owned())
    }

    /// The error of a call that concerns no agent.
    pub fn error(&self, fault: Fault) -> anyhow::Error {
        match fault {
            Fault::Refused { status, code, .. } if code.is_empty() => {
                unreadable(&self.server, StatusCode::from_u16(status).unwrap_or_default())
            }
            Fault::Refused { detail, .. } => anyhow!("{detail}"),
            Fault::Unreachable { why, sent } => unreachable_server(&self.server, sent, Some(&why)).into(),
            other => other.into(),
        }
    }

    /// The error of a message or a question, with its own exit code if the agent is unknown.
    pub fn dispatch_error(&self, recipient: &Recipient, fault: Fault) -> anyhow::Error {
        let Fault::Refused { detail, cause_kind: Some(cause), dispatch_id, .. } = &fault else {
            return self.error(fault);
        };
        // Compared by these words, because a connector can know the agent and refuse it for another reason.
        if *cause == Cause::ClientValidation && detail.starts_with("no connector knows") {
            return recipient.unknown_agent();
        }
        // A failed delivery can still have a receipt; the error names its dispatch id.
        let known_by = dispatch_id.as_ref().map(|id| format!(" as {id}")).unwrap_or_default();
        let context = format!("not delivered{known_by} ({})", cause.word());
        self.error(fault).context(context)
    }
}

/// The agent to reach, and the connectors to use.
#[derive(Default)]
pub struct Recipient {
    pub agent: String,
    pub connectors: Vec<String>,
}

impl Recipient {
    /// The connectors of a request. `None`: all that know the agent.
    pub fn only_connectors(&self) -> Option<Vec<String>> {
        Some(self.connectors.clone()).filter(|named| !named.is_empty())
    }

    /// The error for an agent that no connector, or none of the named connectors, knows.
    pub fn unknown_agent(&self) -> anyhow::Error {
        let agent = &self.agent;
        let words = match &self.connectors[..] {
            [] => {
                format!(
                    "unknown agent `{agent}`: the tenant has no agent or alias of that name, and no connector \
                    lists one"
                )
            }
            [one] => format!("no connector `{one}` knows an agent `{agent}`"),
            named => format!("none of the connectors {} knows an agent `{agent}`", named.join(", ")),
        };
        Exit { code: UNKNOWN_AGENT, words }.into()
    }
}
