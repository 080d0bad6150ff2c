//! `posthouse bot`

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Subcommand, ValueEnum};
use serde_json::{Map, Value, json};

use super::client::Client;
use super::paper::Paper;
use super::reach::read_secret;
use super::{Words, ask};

#[derive(Subcommand)]
pub enum Command {
    /// Takes a bot into the house: its secrets are tried with the platform, then sealed
    #[command(
        after_help = "Secrets never stand on a command line. --SECRET-file FILE names the file that holds one \
        (--token-file F is short for --secret-file token=F); a secret that is missing is asked for on a \
        terminal.\n\nExamples:\n  \
        posthouse bot create telegram --token-file token\n  \
        posthouse bot create telegram --id helpdesk --shared --mode webhook --token-file token"
    )]
    Create {
        /// The chat platform, such as telegram
        platform: String,
        /// What the house calls it; without it, what the platform calls it
        #[arg(long, value_name = "ID")]
        id: Option<String>,
        /// It serves several tenants by routes, instead of belonging to one agent
        #[arg(long)]
        shared: bool,
        /// How events come; without it, by webhook when the platform can reach this house, else by polling
        #[arg(long, value_enum)]
        mode: Option<Mode>,
        /// Where the platform's API is, when not where the house's settings say
        #[arg(long, value_name = "URL")]
        api_base_url: Option<String>,
        /// A file that holds one of its secrets; may be said several times
        #[arg(long = "secret-file", value_name = "NAME=FILE")]
        secret_files: Vec<OsString>,
        /// A JSON file with further settings that the platform understands
        #[arg(long, value_name = "FILE")]
        settings: Option<PathBuf>,
    },
    /// Lists bots
    #[command(after_help = "Example:\n  posthouse bot list")]
    List {
        /// Only those of this platform
        #[arg(long, value_name = "PLATFORM")]
        platform: Option<String>,
    },
    /// Shows one bot; of its secrets, only which there are
    #[command(after_help = "Example:\n  posthouse bot show telegram:7001")]
    Show {
        /// Its platform and its id
        #[arg(value_name = "PLATFORM:ID")]
        bot: String,
    },
    /// Lets a bot go, with its secrets and routes
    #[command(after_help = "Example:\n  posthouse bot remove telegram:7001")]
    Remove {
        /// Its platform and its id
        #[arg(value_name = "PLATFORM:ID")]
        bot: String,
    },
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Mode {
    /// The platform calls the house
    Webhook,
    /// The house asks the platform
    Poll,
}

impl Mode {
    fn as_str(self) -> &'static str {
        match self {
            Mode::Webhook => "webhook",
            Mode::Poll => "poll",
        }
    }
}

impl Command {
    pub async fn act(self, paper: &Paper, client: &Client) -> anyhow::Result<()> {
        match self {
            Command::Create { platform, id, shared, mode, api_base_url, secret_files, settings } => {
                let given = secret_files.iter().map(named_file).collect::<anyhow::Result<_>>()?;
                let body = json!({
                    "platform": platform,
                    "id": id,
                    "shared": shared,
                    "mode": mode.map(Mode::as_str),
                    "api_base_url": api_base_url,
                    "settings": settings.as_deref().map(read_settings).transpose()?.unwrap_or_default(),
                    "secrets": secrets(client, &platform, given).await?,
                });
                let made = client.post(&["bots"], &[], &body).await?;
                show(paper, &made)
            }
            Command::List { platform } => {
                let bots = client.list(&["bots"], &[("platform", platform.as_deref())]).await?;
                let columns = [
                    ("PLATFORM", "platform"),
                    ("ID", "id"),
                    ("SHARED", "shared"),
                    ("AGENT", "instance_id"),
                    ("ROUTES", "routes"),
                    ("DOOR", "door"),
                ];
                paper.list(bots, &columns, "there are no bots")
            }
            Command::Show { bot } => {
                let (platform, id) = split(&bot)?;
                show(paper, &client.get(&["bots", platform, id], &[]).await?)
            }
            Command::Remove { bot } => {
                let (platform, id) = split(&bot)?;
                let removed = client.delete(&["bots", platform, id], &[]).await?;
                paper.done(&removed, &format!("removed bot {bot}"))
            }
        }
    }
}

/// `PLATFORM:ID`
pub fn split(bot: &str) -> anyhow::Result<(&str, &str)> {
    match bot.split_once(':') {
        Some((platform, id)) if !platform.is_empty() && !id.is_empty() => Ok((platform, id)),
        _ => bail!("`{bot}` is no bot: write PLATFORM:ID, such as telegram:7001"),
    }
}

fn show(paper: &Paper, bot: &Value) -> anyhow::Result<()> {
    let parts = [
        ("platform", "platform"),
        ("id", "id"),
        ("shared", "shared"),
        ("agent", "instance_id"),
        ("routes", "routes"),
        ("door", "door"),
        ("polls", "polls"),
        ("secrets", "secrets"),
        ("settings", "settings"),
        ("created", "created_at"),
    ];
    paper.card(bot, &parts)
}

type Given = BTreeMap<String, PathBuf>;

/// Every secret the platform wants: from its file, or asked for.
async fn secrets(client: &Client, platform: &str, given: Given) -> anyhow::Result<Map<String, Value>> {
    let mut secrets = Map::new();
    for (name, file) in &given {
        secrets.insert(name.clone(), read_secret(file)?.expose().into());
    }
    let known = client.get(&["platforms", platform], &[]).await?;
    for need in known["secrets"].as_array().into_iter().flatten() {
        let (name, about) =
            (need["name"].as_str().unwrap_or_default(), need["about"].as_str().unwrap_or_default());
        if need["generated"] == json!(true) || secrets.contains_key(name) {
            continue;
        }
        if !ask::somebody_there() {
            bail!("a {platform} bot needs --{}-file FILE: {about}", name.replace('_', "-"));
        }
        secrets.insert(name.to_owned(), ask::secret(about)?.expose().into());
    }
    Ok(secrets)
}

fn named_file(word: &OsString) -> anyhow::Result<(String, PathBuf)> {
    match word.to_str().and_then(|word| word.split_once('=')) {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok((name.to_owned(), PathBuf::from(file)))
        }
        _ => bail!("--secret-file takes NAME=FILE"),
    }
}

/// A JSON object from a file.
pub fn read_settings(file: &Path) -> anyhow::Result<Map<String, Value>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no JSON object", file.display()))
}

/// Flags that end like a secret's file and are something else.
const OTHERS: [&str; 2] = ["admin-token", "secret"];

/// Which secrets there are only the platform knows, so `--SECRET-file F` is read here as
/// `--secret-file SECRET=F` wherever a bot is made.
pub fn with_secrets_named(words: impl IntoIterator<Item = OsString>) -> Words {
    let words: Words = words.into_iter().collect();
    let create = words.windows(2).position(|pair| pair[0] == "bot" && pair[1] == "create");
    let Some(create) = create else { return words };
    let mut rewritten: Words = Vec::with_capacity(words.len() + 1);
    let mut words = words.into_iter().enumerate();
    while let Some((at, word)) = words.next() {
        let Some((name, value)) = secret_flag(&word).filter(|_| at > create) else {
            rewritten.push(word);
            continue;
        };
        let Some(value) = value.map(OsString::from).or_else(|| words.next().map(|(_, value)| value)) else {
            rewritten.push(word);
            continue;
        };
        let mut named = OsString::from(format!("{name}="));
        named.push(value);
        rewritten.extend([OsString::from("--secret-file"), named]);
    }
    rewritten
}

/// The secret's name, and its file where it is said with an equals sign.
fn secret_flag(word: &OsString) -> Option<(String, Option<String>)> {
    let flag = word.to_str()?.strip_prefix("--")?;
    let (flag, value) = match flag.split_once('=') {
        Some((flag, value)) => (flag, Some(value.to_owned())),
        None => (flag, None),
    };
    let name = flag.strip_suffix("-file").filter(|name| !name.is_empty() && !OTHERS.contains(name))?;
    Some((name.replace('-', "_"), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> String {
        let words = with_secrets_named(line.split(' ').map(OsString::from));
        words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn any_secrets_file_may_be_named_by_a_flag_of_its_own() {
        for (typed, meant) in [
            (
                "p bot create telegram --token-file F --json",
                "p bot create telegram --secret-file token=F --json",
            ),
            ("p bot create x --webhook-secret-file=F", "p bot create x --secret-file webhook_secret=F"),
            ("p bot create x --admin-token-file F", "p bot create x --admin-token-file F"),
            ("p --admin-token-file F bot create x", "p --admin-token-file F bot create x"),
            ("p bot create x --secret-file a=F", "p bot create x --secret-file a=F"),
            ("p bot create x --token-file", "p bot create x --token-file"),
            ("p agent list --token-file F", "p agent list --token-file F"),
        ] {
            assert_eq!(read(typed), meant);
        }
    }
}
