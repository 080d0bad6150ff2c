//! Whoever writes to agents from the command line: a program's credential, or the operator for a tenant.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use posthouse_wire::Secret;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::Exit;
use super::client::{Client, Line, Query, Unreached};
use super::reach::{Reach, read_secret};

/// Nobody knows the agent.
pub const NOBODY: u8 = 4;

/// What the operator goes by, where nothing else is said.
const OPERATOR: &str = "operator";

/// As whom to speak.
#[derive(Args)]
pub struct As {
    /// As the house's operator, for this tenant
    #[arg(long, value_name = "TENANT", conflicts_with_all = ["client_id", "client_secret_file"])]
    pub tenant: Option<String>,
    /// With this client credential; without it, that of POSTHOUSE_CLIENT_ID
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// The file that holds its secret; without it, POSTHOUSE_CLIENT_SECRET_FILE names one, or
    /// POSTHOUSE_CLIENT_SECRET is the secret
    #[arg(long, value_name = "FILE")]
    client_secret_file: Option<PathBuf>,
}

enum Who {
    Operator { client: Client, tenant: String },
    Client { id: String, secret: Secret },
}

/// A line on which somebody speaks to agents.
pub struct Speaker {
    line: Line,
    who: Who,
    token: Secret,
}

impl As {
    pub async fn speaker(self, reach: &Reach) -> anyhow::Result<Speaker> {
        let who = match self.tenant {
            Some(tenant) => Who::Operator { client: Client::new(reach)?, tenant },
            None => self.credential()?,
        };
        // A program has no folder of the house's to be pointed to.
        if matches!(who, Who::Client { .. }) && !reach.is_told() {
            bail!("which house? say its address with --url, or set POSTHOUSE_URL");
        }
        let line = Line::new(reach)?;
        let token = who.token(&line).await?;
        Ok(Speaker { line, who, token })
    }

    /// Whether a program's credential is meant: one is named, and no tenant that only the operator could name.
    pub fn is_a_program(&self) -> bool {
        self.tenant.is_none() && (self.client_id.is_some() || said("POSTHOUSE_CLIENT_ID").is_some())
    }

    /// The words on this command line that say as whom.
    pub fn words(&self) -> Vec<String> {
        let file = self.client_secret_file.as_ref().map(|file| file.display().to_string());
        let said = [
            ("--tenant", self.tenant.clone()),
            ("--client-id", self.client_id.clone()),
            ("--client-secret-file", file),
        ];
        said.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value?])).flatten().collect()
    }

    fn credential(self) -> anyhow::Result<Who> {
        let Some(id) = self.client_id.or_else(|| said("POSTHOUSE_CLIENT_ID")) else {
            bail!(
                "as whom? say --tenant to speak as the operator, or --client-id and --client-secret-file, \
                 or set POSTHOUSE_CLIENT_ID and POSTHOUSE_CLIENT_SECRET"
            );
        };
        let file =
            self.client_secret_file.or_else(|| said("POSTHOUSE_CLIENT_SECRET_FILE").map(PathBuf::from));
        let secret = match (file, said("POSTHOUSE_CLIENT_SECRET")) {
            (Some(file), _) => read_secret(&file)?,
            (None, Some(secret)) => Secret::new(secret.trim()),
            (None, None) => bail!("no secret for client {id}: say --client-secret-file"),
        };
        Ok(Who::Client { id, secret })
    }
}

/// What the environment says, unless it is empty.
fn said(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl Who {
    /// An access token, to be thrown away when we are done.
    async fn token(&self, line: &Line) -> anyhow::Result<Secret> {
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
                let request = line.request(Method::POST, &["oauth", "token"], &[]).form(&form);
                let (status, answer) = line.send(request).await?;
                if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::BAD_REQUEST) {
                    bail!("the house does not take the secret of client {id}");
                }
                if !status.is_success() {
                    return Err(line.refusal(status, &answer));
                }
                answer
            }
        };
        granted["access_token"].as_str().map(Secret::new).context("the house gave no access token")
    }
}

impl Speaker {
    /// Who a message is from where nobody said: programs and agents have a name of their own.
    pub fn goes_by(&self) -> Option<&'static str> {
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
            let mut request = self.line.request(method.clone(), path, query).bearer_auth(self.token.expose());
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            if let Some(body) = body {
                request = request.json(body);
            }
            let (status, answer) = self.line.send(request).await?;
            // A long wait outlives an operator's token.
            if status != StatusCode::UNAUTHORIZED || renewed {
                return Ok((status, answer));
            }
            self.token = self.who.token(&self.line).await?;
            renewed = true;
        }
    }

    /// A refusal as an error, with an exit code of its own where nobody knows the agent.
    pub fn refusal(&self, whom: &Whom, status: StatusCode, answer: &Value) -> anyhow::Error {
        // By those very words: a connector may well know the agent and refuse it for another reason.
        let detail = answer["detail"].as_str().unwrap_or_default();
        if answer["cause_kind"] == "client_validation" && detail.starts_with("no connector knows") {
            return whom.nobody();
        }
        let refusal = self.line.refusal(status, answer);
        // What is on record all the same is asked about by that id.
        let known_by = answer["dispatch_id"].as_str().map(|id| format!(" as {id}")).unwrap_or_default();
        match answer["cause_kind"].as_str() {
            Some(kind) => refusal.context(format!("not delivered{known_by} ({kind})")),
            None => refusal,
        }
    }

    /// A refusal of what concerns no agent.
    pub fn refused(&self, status: StatusCode, answer: &Value) -> anyhow::Error {
        self.line.refusal(status, answer)
    }
}

/// Whom to reach, and by which connectors alone.
#[derive(Default)]
pub struct Whom {
    pub agent: String,
    pub connectors: Vec<String>,
}

impl Whom {
    /// Nobody knows it, or nobody of those who were named.
    pub fn nobody(&self) -> anyhow::Error {
        let agent = &self.agent;
        let words = match &self.connectors[..] {
            [] => {
                format!("nobody knows an agent `{agent}`: it is neither enrolled nor listed by a connector")
            }
            [one] => format!("no connector `{one}` knows an agent `{agent}`"),
            named => format!("none of the connectors {} knows an agent `{agent}`", named.join(", ")),
        };
        Exit { code: NOBODY, words }.into()
    }
}

/// Whether the house was not there, which may pass.
pub fn unreached(error: &anyhow::Error) -> Option<&Unreached> {
    error.downcast_ref()
}
