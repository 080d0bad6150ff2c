//! Admin API: bots. Their secrets can be set but never read.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Path, State};
use edge::platform::{EventDelivery, FieldPresence};
use edge::{BotDraft, BotNotChanged, Credentials, MissingField};
use http_kit::Page;
use ledger::{AdmittedTenant, Bot, BotRef, Discriminator, Removed, Route};
use posthouse_time::Moment;
use posthouse_wire::{BotId, Platform, Secret};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::audit::{CreatedResponse, made};
use crate::extract::{JsonBody, PAGE, QueryParams};
use crate::problem::AdminProblem;
use crate::routes::{Console, Parts};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewBot {
    platform: String,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    shared: bool,
    /// Everybody may write to it. Otherwise only people whom the operator admits.
    #[serde(default)]
    open: bool,
    #[serde(default)]
    mode: Option<Mode>,
    #[serde(default)]
    api_base_url: Option<String>,
    #[serde(default)]
    settings: Map<String, Value>,
    #[serde(default)]
    secrets: HashMap<String, Secret>,
}

/// How events arrive, where a platform offers several ways.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Webhook,
    Poll,
    Socket,
}

impl Mode {
    fn as_str(self) -> &'static str {
        match self {
            Mode::Webhook => "webhook",
            Mode::Poll => "poll",
            Mode::Socket => "socket",
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BotsQuery {
    /// Can also name a built-in platform, whose bots are not listed otherwise.
    platform: Option<Platform>,
    after: Option<String>,
    limit: Option<usize>,
}

#[derive(Serialize)]
pub(crate) struct ShownBot {
    platform: Platform,
    id: BotId,
    shared: bool,
    /// Everybody may write to it; otherwise only people whom the operator admits.
    open: bool,
    /// Agents without a policy of their own get only addressed messages of groups.
    require_address: bool,
    /// The tenants whose agents may use a shared bot; `*` for every tenant.
    tenants: Vec<String>,
    settings: Value,
    /// The names of its secrets, never their values.
    secrets: Vec<String>,
    /// Webhook URL for the platform; null if the platform cannot reach this server.
    door: Option<String>,
    /// The server polls the platform for events, by choice or because there is no webhook URL.
    polls: bool,
    /// How events arrive: `webhook`, `polling`, `socket` or `built_in`.
    delivery: &'static str,
    /// What the operator must do at the platform, one sentence each.
    setup_steps: Vec<String>,
    /// The agent that an owned bot belongs to.
    instance_id: Option<String>,
    routes: usize,
    /// `working`; `dead`: the platform does not accept its credential; `displaced`: another program has its connection.
    health: &'static str,
    dead_since: Option<String>,
    /// Why it does not work.
    trouble: Option<String>,
    created_at: String,
}

fn delivery_word(delivery: Option<EventDelivery>) -> &'static str {
    match delivery {
        Some(EventDelivery::Webhook) => "webhook",
        Some(EventDelivery::Polling) | None => "polling",
        Some(EventDelivery::Socket) => "socket",
        Some(EventDelivery::BuiltIn) => "built_in",
    }
}

fn displaced_words(since: Moment) -> String {
    format!("another program has connected as this bot at {since}; the server tries again after an hour")
}

impl Parts {
    pub(crate) async fn shown_bot(&self, record: Bot, routes: &[Route]) -> Result<ShownBot, AdminProblem> {
        let bot_ref = BotRef { platform: record.platform, bot: record.id };
        let open = self.edge.bots().find(&bot_ref).await?;
        let dead = self.edge.health().dead(&bot_ref);
        let displaced = self.edge.health().displaced(&bot_ref).filter(|_| dead.is_none());
        let mut secrets: Vec<String> =
            open.iter().flat_map(|bot| bot.credentials.names().map(str::to_owned)).collect();
        secrets.sort();
        let own: Vec<&Route> = routes
            .iter()
            .filter(|route| route.platform == bot_ref.platform && route.bot == bot_ref.bot)
            .collect();
        let owner = own.iter().find(|route| route.discriminator == Discriminator::Any);
        let delivery = open.as_ref().and_then(|bot| self.edge.delivery(bot));
        let polls = delivery.is_none_or(|delivery| delivery == EventDelivery::Polling);
        let door = open.as_ref().filter(|_| !polls).and_then(|bot| self.edge.door(bot));
        let setup_steps = open.as_ref().map(|bot| self.edge.setup_steps(bot)).unwrap_or_default();
        let require_address = self.identity.gate.claims().shared_bots().require_address(&bot_ref).await?;
        Ok(ShownBot {
            require_address,
            tenants: self.tenants_of(&bot_ref).await?,
            shared: record.shared,
            open: record.principals.is_open(),
            settings: serde_json::from_str(&record.settings).unwrap_or_default(),
            secrets,
            polls,
            delivery: delivery_word(delivery),
            setup_steps,
            door,
            instance_id: owner.map(|route| route.instance.to_string()),
            routes: own.len(),
            health: match (&dead, displaced) {
                (Some(_), _) => "dead",
                (None, Some(_)) => "displaced",
                (None, None) => "working",
            },
            dead_since: dead.as_ref().map(|dead| dead.since.to_string()),
            trouble: dead.map(|dead| dead.why).or_else(|| displaced.map(displaced_words)),
            created_at: record.created.to_string(),
            platform: bot_ref.platform,
            id: bot_ref.bot,
        })
    }

    pub(crate) async fn bot(&self, platform: &str, bot: &str) -> Result<Bot, AdminProblem> {
        let found = self.identity.roster.records().bot(&platform.into(), &bot.into()).await?;
        found.ok_or_else(|| AdminProblem::absent("no_such_bot", format!("there is no bot {platform}:{bot}")))
    }

    /// The names of the tenants whose agents may use a bot.
    async fn tenants_of(&self, on: &BotRef) -> Result<Vec<String>, AdminProblem> {
        let mut names = Vec::new();
        for tenant in self.identity.gate.claims().shared_bots().admitted_tenants(on).await? {
            names.push(match tenant {
                AdmittedTenant::Every => "*".to_owned(),
                AdmittedTenant::One(id) => self.tenant(id.as_str()).await?.name,
            });
        }
        Ok(names)
    }
}

pub(crate) async fn list(
    State(console): State<Console>,
    QueryParams(which): QueryParams<BotsQuery>,
) -> Result<Json<Page<ShownBot>>, AdminProblem> {
    let mut bots = console.identity.roster.records().bots().await?;
    bots.retain(|bot| match &which.platform {
        Some(platform) => bot.platform == *platform,
        None => !console.is_built_in(&bot.platform),
    });
    let key = |bot: &Bot| format!("{}:{}", bot.platform, bot.id);
    let page = Page::of_sorted(bots, key, which.after.as_deref(), PAGE.clamp(which.limit));
    let routes = console.identity.roster.records().routes().await?;
    let mut items = Vec::with_capacity(page.items.len());
    for bot in page.items {
        items.push(console.shown_bot(bot, &routes).await?);
    }
    Ok(Json(Page { items, next: page.next }))
}

#[derive(Serialize)]
pub(crate) struct ShownPlatform {
    platform: String,
    secrets: Vec<ShownField>,
    /// Texts among the settings of a bot.
    settings: Vec<ShownField>,
}

#[derive(Serialize)]
struct ShownField {
    name: &'static str,
    about: &'static str,
    /// Generated by the server if it is not given.
    generated: bool,
    optional: bool,
    /// Needed only if a setting of the bot, a list separated by commas, has this word.
    #[serde(skip_serializing_if = "Option::is_none")]
    needed_with: Option<NeededWith>,
}

#[derive(Serialize)]
struct NeededWith {
    setting: &'static str,
    word: &'static str,
}

/// The secrets and settings that a bot of this platform has.
pub(crate) async fn platform(
    State(console): State<Console>,
    Path(platform): Path<String>,
) -> Result<Json<ShownPlatform>, AdminProblem> {
    let Some(known) = console.edge.platform(&platform) else {
        return Err(not_kept(console.edge.unknown_platform(&platform)));
    };
    let shown = |secret: bool| -> Vec<ShownField> {
        let fields = known.fields().iter().filter(|field| field.secret == secret);
        let shown = fields.map(|field| ShownField {
            name: field.name,
            about: field.about,
            generated: field.presence == FieldPresence::Generated,
            optional: field.presence == FieldPresence::Optional,
            needed_with: match field.presence {
                FieldPresence::NeededWith { setting, word } => Some(NeededWith { setting, word }),
                _ => None,
            },
        });
        shown.collect()
    };
    Ok(Json(ShownPlatform { secrets: shown(true), settings: shown(false), platform }))
}

pub(crate) async fn create(
    State(console): State<Console>,
    JsonBody(new): JsonBody<NewBot>,
) -> Result<CreatedResponse<ShownBot>, AdminProblem> {
    let draft = drafted(&console, new)?;
    let kept = console.edge.keep_bot(draft).await?.map_err(not_kept)?;
    let record = console.bot(kept.platform.as_str(), kept.id.as_str()).await?;
    let about = format!("{}:{}", record.platform, record.id);
    Ok(made(about, console.shown_bot(record, &[]).await?))
}

fn drafted(console: &Parts, new: NewBot) -> Result<BotDraft, AdminProblem> {
    let mut settings = new.settings;
    for (name, value) in [("mode", new.mode.map(Mode::as_str)), ("api_base_url", new.api_base_url.as_deref())]
    {
        let Some(value) = value else { continue };
        if settings.insert(name.to_owned(), value.into()).is_some_and(|other| other != value) {
            return Err(AdminProblem::unfit(
                "contradiction",
                format!("settings.{name} contradicts the field {name}"),
            ));
        }
    }
    Ok(BotDraft {
        credentials: named_secrets(console, &new.platform, &new.secrets)?,
        platform: new.platform,
        id: new.id,
        shared: new.shared,
        open: new.open,
        settings,
    })
}

/// The secrets of a request, if the platform knows their names.
pub(crate) fn named_secrets(
    console: &Parts,
    platform: &str,
    secrets: &HashMap<String, Secret>,
) -> Result<Credentials, AdminProblem> {
    let mut credentials = Credentials::default();
    for (name, secret) in secrets {
        let known = console
            .edge
            .platform(platform)
            .is_none_or(|platform| platform.fields().iter().any(|field| field.secret && field.name == name));
        if !known {
            let detail = format!("a bot of platform `{platform}` has no secret `{name}`");
            return Err(AdminProblem::unfit("unknown_secret", detail));
        }
        credentials.insert(name, secret.clone());
    }
    Ok(credentials)
}

pub(crate) fn not_kept(refusal: BotNotChanged) -> AdminProblem {
    let detail = refusal.to_string();
    match refusal {
        BotNotChanged::UnknownPlatform(..) => AdminProblem::unfit("unknown_platform", detail),
        BotNotChanged::BadId(_) => AdminProblem::unfit("bad_id", detail),
        BotNotChanged::Missing(MissingField { secret: true, .. }) => {
            AdminProblem::unfit("missing_secret", detail)
        }
        BotNotChanged::Missing(_) => AdminProblem::unfit("missing_setting", detail),
        BotNotChanged::Placeholder(_) => AdminProblem::unfit("placeholder", detail),
        BotNotChanged::Refused(_) => AdminProblem::unfit("platform_refused", detail),
        BotNotChanged::Taken(..) => AdminProblem::conflict("taken", detail),
        BotNotChanged::Absent(..) => AdminProblem::absent("no_such_bot", detail),
    }
}

pub(crate) async fn show(
    State(console): State<Console>,
    Path((platform, bot)): Path<(String, String)>,
) -> Result<Json<ShownBot>, AdminProblem> {
    let record = console.bot(&platform, &bot).await?;
    let routes = console.identity.roster.records().routes().await?;
    Ok(Json(console.shown_bot(record, &routes).await?))
}

#[derive(Serialize)]
pub(crate) struct RemovedBot {
    platform: Platform,
    id: BotId,
}

pub(crate) async fn remove(
    State(console): State<Console>,
    Path((platform, bot)): Path<(String, String)>,
) -> Result<Json<RemovedBot>, AdminProblem> {
    let record = console.bot(&platform, &bot).await?;
    if console.is_built_in(&record.platform) {
        let detail = format!("bots of platform `{platform}` are removed with their agents");
        return Err(AdminProblem::conflict("built_in", detail));
    }
    let bot_ref = BotRef { platform: record.platform, bot: record.id };
    match console.edge.release_bot(&bot_ref).await? {
        Removed::Gone | Removed::Absent => {
            Ok(Json(RemovedBot { platform: bot_ref.platform, id: bot_ref.bot }))
        }
        Removed::InUse => Err(AdminProblem::conflict("in_use", format!("bot {platform}:{bot} is in use"))),
    }
}
