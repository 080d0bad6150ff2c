//! `posthouse bot`: accounts on chat platforms.

mod given_fields;
mod try_settings;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::bail;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};

use super::access;
use super::admin_client::AdminClient;
use super::filters::BotFilter;
use super::output::{Output, without_control_characters};
use given_fields::{ask_settings, named_file, named_setting, read_secrets, secrets};
pub use given_fields::{read_settings, with_secrets_named};
pub use try_settings::TryArgs;

#[derive(Subcommand)]
pub enum Command {
    /// Creates a bot: its secrets are tried with the platform, then stored encrypted
    #[command(
        after_help = "Secrets are never given on the command line. --SECRET-file FILE names a file that contains one \
        (--token-file F is short for --secret-file token=F); you are asked for a missing secret on a \
        terminal.\n\nExamples:\n  \
        posthouse bot create telegram --token-file token\n  \
        posthouse bot create telegram --id helpdesk --shared --mode webhook --token-file token"
    )]
    Create {
        /// The chat platform, such as telegram
        platform: String,
        /// Its id on this server; by default the platform's own id of the bot
        #[arg(long, value_name = "ID")]
        id: Option<String>,
        /// Share the bot between agents of several tenants by routes, instead of giving it to one agent
        #[arg(long)]
        shared: bool,
        /// Let everybody write to it; by default only people whom you admit (see `posthouse access`)
        #[arg(long)]
        open: bool,
        /// How events arrive; by default by webhook if the platform can reach this server, otherwise by
        /// polling
        #[arg(long, value_enum)]
        mode: Option<ReceiveMode>,
        /// Base URL of the platform's API, if it differs from the server's settings
        #[arg(long, value_name = "URL")]
        api_base_url: Option<String>,
        /// A file that contains one of its secrets; can be repeated
        #[arg(long = "secret-file", value_name = "NAME=FILE")]
        secret_files: Vec<OsString>,
        /// One of its settings, such as --set application_id=123; can be repeated
        #[arg(long = "set", value_name = "NAME=VALUE")]
        set: Vec<String>,
        /// A JSON file with further settings for the platform
        #[arg(long, value_name = "FILE")]
        settings: Option<PathBuf>,
    },
    /// Lists bots
    #[command(after_help = "Examples:\n  posthouse bot list\n  posthouse bot list --platform telegram")]
    List {
        #[command(flatten)]
        filter: BotFilter,
    },
    /// Shows one bot and the names of its secrets
    #[command(after_help = "Example:\n  posthouse bot show telegram:7001")]
    Show {
        /// Platform and id of the bot
        #[arg(value_name = "PLATFORM:ID")]
        bot: String,
    },
    /// Changes who may write to a bot and which tenants' agents may use it, or replaces its secrets and settings
    #[command(override_usage = "posthouse bot change [OPTIONS] <PLATFORM:ID>")]
    #[command(
        after_help = "A new secret is tried with the platform before it replaces the old one; --token-file F \
        is short for --secret-file token=F.\n\nExamples:\n  \
        posthouse bot change telegram:7001 --open\n  \
        posthouse bot change telegram:7001 --closed\n  \
        posthouse bot change telegram:7001 --token-file token\n  \
        posthouse bot change telegram:7001 --set business=on\n  \
        posthouse bot change telegram:helpdesk --tenant acme --tenant umbrella\n  \
        posthouse bot change telegram:helpdesk --require-address off"
    )]
    Change(BotChangeArgs),
    /// Shows which message the body of a webhook becomes, without sending it to anybody
    #[command(
        after_help = "The settings template, mask, only and events come from a file, from --set, or from an existing \
        bot.\n\nExamples:\n  \
        posthouse bot try body.json --set template='{who} did {what}'\n  \
        posthouse bot try body.json --settings settings.json --event push\n  \
        posthouse bot try body.json --bot webhook:build"
    )]
    Try(TryArgs),
    /// Removes a bot with its secrets and routes
    #[command(after_help = "Example:\n  posthouse bot remove telegram:7001")]
    Remove {
        /// Platform and id of the bot
        #[arg(value_name = "PLATFORM:ID")]
        bot: String,
    },
}

/// New settings of a bot.
#[derive(Args)]
#[group(skip)]
#[command(group = ArgGroup::new("what").required(true).multiple(true))]
pub struct BotChangeArgs {
    /// Platform and id of the bot
    #[arg(value_name = "PLATFORM:ID")]
    bot: String,
    /// Let everybody write to it, except people who were denied
    #[arg(long, group = "what", conflicts_with = "closed")]
    open: bool,
    /// Let only people whom you admit write to it
    #[arg(long, group = "what")]
    closed: bool,
    /// Whether agents that declared nothing get only messages of groups that are addressed to the bot
    #[arg(long, value_name = "on|off", group = "what", value_parser = ["on", "off"])]
    require_address: Option<String>,
    /// Let the agents of this tenant use the shared bot; can be repeated
    #[arg(long = "tenant", value_name = "TENANT", group = "what")]
    tenants: Vec<String>,
    /// Let the agents of every tenant use the shared bot
    #[arg(long, group = "what", conflicts_with = "no_all_tenants")]
    all_tenants: bool,
    /// Take the bot from the agents of this tenant, with their claims on it; can be repeated
    #[arg(long = "no-tenant", value_name = "TENANT", group = "what")]
    no_tenants: Vec<String>,
    /// Take the bot from the agents of all tenants that are not named by --tenant
    #[arg(long, group = "what")]
    no_all_tenants: bool,
    /// A file that contains a new value of one of its secrets; can be repeated
    #[arg(long = "secret-file", value_name = "NAME=FILE", group = "what")]
    secret_files: Vec<OsString>,
    /// A new value of one of its optional settings, such as --set business=on; can be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", group = "what")]
    set: Vec<String>,
}

impl BotChangeArgs {
    fn body(&self) -> anyhow::Result<Value> {
        let mut body = Map::new();
        if !self.secret_files.is_empty() {
            let given = self.secret_files.iter().map(named_file).collect::<anyhow::Result<_>>()?;
            body.insert("secrets".to_owned(), read_secrets(&given)?.into());
        }
        if !self.set.is_empty() {
            let settings: BTreeMap<&str, &str> =
                self.set.iter().map(|word| named_setting(word)).collect::<anyhow::Result<_>>()?;
            body.insert("settings".to_owned(), json!(settings));
        }
        if self.open || self.closed {
            body.insert("open".to_owned(), json!(self.open));
        }
        if let Some(required) = &self.require_address {
            body.insert("require_address".to_owned(), json!(required == "on"));
        }
        for (name, tenants, all) in [
            ("admit_tenants", &self.tenants, self.all_tenants),
            ("withdraw_tenants", &self.no_tenants, self.no_all_tenants),
        ] {
            let every = all.then_some("*");
            let named: Vec<&str> = tenants.iter().map(String::as_str).chain(every).collect();
            if !named.is_empty() {
                body.insert(name.to_owned(), json!(named));
            }
        }
        Ok(Value::Object(body))
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub enum ReceiveMode {
    /// The platform calls the server
    Webhook,
    /// The server asks the platform
    Poll,
    /// The server opens a socket to the platform
    Socket,
}

impl ReceiveMode {
    fn as_str(self) -> &'static str {
        match self {
            ReceiveMode::Webhook => "webhook",
            ReceiveMode::Poll => "poll",
            ReceiveMode::Socket => "socket",
        }
    }
}

impl Command {
    pub async fn act(self, output: &Output, client: &AdminClient) -> anyhow::Result<()> {
        match self {
            Command::Create {
                platform,
                id,
                shared,
                open,
                mode,
                api_base_url,
                secret_files,
                set,
                settings,
            } => {
                let given = secret_files.iter().map(named_file).collect::<anyhow::Result<_>>()?;
                let mut settings = settings.as_deref().map(read_settings).transpose()?.unwrap_or_default();
                for word in &set {
                    let (name, value) = named_setting(word)?;
                    settings.insert(name.to_owned(), value.into());
                }
                let known = client.get(&["platforms", &platform], &[]).await?;
                ask_settings(&platform, &known, &mut settings)?;
                let secrets = secrets(&platform, &known, &settings, given)?;
                let body = json!({
                    "platform": platform,
                    "id": id,
                    "shared": shared,
                    "open": open,
                    "mode": mode.map(ReceiveMode::as_str),
                    "api_base_url": api_base_url,
                    "settings": settings,
                    "secrets": secrets,
                });
                let made = client.post(&["bots"], &[], &body).await?;
                show(output, &made)?;
                if !output.json {
                    for step in made["setup_steps"].as_array().into_iter().flatten() {
                        output.text(&format!(
                            "- {}\n",
                            without_control_characters(step.as_str().unwrap_or_default())
                        ))?;
                    }
                }
                access::offer_first_pairing(output, client, &made).await
            }
            Command::List { filter } => {
                let (platform, _) = filter.parts()?;
                let mut bots = client.list(&["bots"], &[("platform", platform)]).await?;
                filter.retain(&mut bots, "id")?;
                let columns = [
                    ("PLATFORM", "platform"),
                    ("ID", "id"),
                    ("SHARED", "shared"),
                    ("OPEN", "open"),
                    ("AGENT", "instance_id"),
                    ("ROUTES", "routes"),
                    ("HEALTH", "health"),
                    ("WEBHOOK URL", "door"),
                ];
                output.list(bots, &columns, "there are no bots")
            }
            Command::Show { bot } => {
                let (platform, id) = split(&bot)?;
                show(output, &client.get(&["bots", platform, id], &[]).await?)
            }
            Command::Change(args) => {
                let (platform, id) = split(&args.bot)?;
                show(output, &client.patch(&["bots", platform, id], &[], &args.body()?).await?)
            }
            Command::Try(args) => args.act(output, Some(client)).await,
            Command::Remove { bot } => {
                let (platform, id) = split(&bot)?;
                let removed = client.delete(&["bots", platform, id], &[]).await?;
                output.done(&removed, &format!("removed bot {bot}"))
            }
        }
    }
}

/// `PLATFORM:ID`
pub fn split(bot: &str) -> anyhow::Result<(&str, &str)> {
    match bot.split_once(':') {
        Some((platform, id)) if !platform.is_empty() && !id.is_empty() => Ok((platform, id)),
        _ => bail!("`{bot}` is not a bot: use PLATFORM:ID, such as telegram:7001"),
    }
}

/// How the events of a bot arrive, and why. The Telegram guide quotes these texts.
fn events(bot: &Value) -> &'static str {
    if bot["delivery"] == "socket" {
        return "over a socket that this server opens";
    }
    match (bot["polls"].as_bool(), bot["settings"]["mode"].as_str()) {
        (Some(true), Some("poll")) => "by polling (mode = poll)",
        (Some(true), _) => {
            "by polling: the platform cannot call this server, which has no public https address"
        }
        _ => "by webhook",
    }
}

fn show(output: &Output, bot: &Value) -> anyhow::Result<()> {
    let mut bot = bot.clone();
    if !output.json {
        bot["events"] = events(&bot).into();
    }
    let parts = [
        ("platform", "platform"),
        ("id", "id"),
        ("shared", "shared"),
        ("open to all", "open"),
        ("requires address", "require_address"),
        ("tenants", "tenants"),
        ("agent", "instance_id"),
        ("routes", "routes"),
        ("health", "health"),
        ("dead since", "dead_since"),
        ("trouble", "trouble"),
        ("webhook url", "door"),
        ("events", "events"),
        ("secrets", "secrets"),
        ("settings", "settings"),
        ("created", "created_at"),
    ];
    output.card(&bot, &parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bot_show_and_the_guide_agree_on_polling() {
        const GUIDE: &str =
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/telegram.md"));
        for (bot, said) in [
            (json!({ "polls": false, "settings": {} }), "by webhook"),
            (json!({ "polls": false, "settings": { "mode": "webhook" } }), "by webhook"),
            (json!({ "polls": true, "settings": { "mode": "poll" } }), "by polling (mode = poll)"),
            (json!({ "polls": true, "settings": {} }), "by polling: the platform cannot call this server"),
            (
                json!({ "polls": true, "settings": { "mode": "webhook" } }),
                "by polling: the platform cannot call",
            ),
        ] {
            assert!(events(&bot).starts_with(said), "{bot}");
            assert!(
                GUIDE.contains(&format!("- `{}`", events(&bot))),
                "the guide says it in the same words: {bot}"
            );
        }
    }
}
