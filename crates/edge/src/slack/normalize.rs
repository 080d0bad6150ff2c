//! Normalization of Slack's events, slash commands and interactions: turns them into events for the agent, and captures
//! what must not reach the agent.

mod files;
mod interactions;
mod slash_commands;

use aws_lc_rs::digest;
use posthouse_wire::event::Quoted;
use posthouse_wire::{Event, MessageType, Source};

use crate::bots::OpenedBot;
use crate::platform::{Arrival, Moved, PlatformResponse, Reading, VerifiedRequest, WebhookRefusal};

use super::directory::SlackChatKind;
use super::form::SlackForm;
use super::payload::{ChannelIdChange, EventEnvelope, EventKind, MessageEvent};
use super::readable_text::readable;
use super::{
    APP_ID, BOT_ID, BOT_USER_ID, COMMANDS_DOOR, ENTERPRISE_ID, INTERACTIONS_DOOR, PLATFORM, Slack, TEAM_ID,
};

/// Reason for which messages of other bots are ignored unless an agent wants them.
const BOT_AUTHOR: &str = "bot_author";
/// Reason for which events of workspaces are ignored in which this bot is not installed.
const FOREIGN_WORKSPACE: &str = "foreign_workspace";
/// Slack's own notices are messages of this user.
const SLACKBOT: &str = "USLACKBOT";
const MALFORMED: WebhookRefusal = WebhookRefusal::malformed("malformed_body");

pub(super) fn normalize(
    slack: &Slack,
    bot: &OpenedBot,
    verified: &VerifiedRequest,
) -> Result<Reading, WebhookRefusal> {
    let context = SlackContext { slack, bot, verified, own: bot.setting(BOT_USER_ID).unwrap_or_default() };
    // The body is checked as UTF-8 once, so that serde need not check every string.
    let text = std::str::from_utf8(&verified.body).map_err(|_| MALFORMED)?;
    // A form never begins with a brace, which its sender would have to escape.
    if !text.trim_ascii_start().starts_with('{') {
        return context.form(&SlackForm::read(&verified.body).ok_or(MALFORMED)?);
    }
    match verified.door.as_str() {
        // By HTTP these are forms. As JSON they come over a socket.
        INTERACTIONS_DOOR => context.interaction(text),
        COMMANDS_DOOR => {
            let command = serde_json::from_str(text).map_err(|_| MALFORMED)?;
            Ok(context.slash_command(command))
        }
        _ => context.event(text),
    }
}

/// What is known about a payload besides its own object.
struct SlackContext<'a> {
    slack: &'a Slack,
    bot: &'a OpenedBot,
    verified: &'a VerifiedRequest,
    /// The user id of the bot. Empty if it is not known.
    own: &'a str,
}

impl SlackContext<'_> {
    fn form(&self, form: &SlackForm) -> Result<Reading, WebhookRefusal> {
        if let Some(payload) = form.get("payload") {
            return self.interaction(payload);
        }
        match form.get("command") {
            Some(_) => Ok(self.slash_command(slash_commands::of_form(form))),
            // Slack checks from time to time whether the certificate of the server is valid.
            None if form.get("ssl_check").is_some() => Ok(Reading::ignored("ssl_check")),
            None => Err(MALFORMED),
        }
    }

    fn event(&self, text: &str) -> Result<Reading, WebhookRefusal> {
        let envelope: EventEnvelope<'_> = serde_json::from_str(text).map_err(|_| MALFORMED)?;
        match envelope.kind.as_deref() {
            Some("url_verification") => {
                let challenge = envelope.challenge.ok_or(MALFORMED)?;
                let body = challenge.to_string().into();
                let reply = PlatformResponse {
                    content_type: Some("text/plain"),
                    body,
                    ..PlatformResponse::default()
                };
                return Ok(Reading { reply, ..Reading::default() });
            }
            Some("event_callback") => {}
            Some("app_rate_limited") => {
                tracing::warn!(bot.id = %self.bot.id, "Slack does not deliver all events of this bot: there are too many");
                return Ok(Reading::ignored("rate_limited"));
            }
            _ => return Ok(Reading::ignored("unknown")),
        }
        let Some(event) = envelope.event else { return Ok(Reading::ignored("unknown")) };
        let authorized = envelope.authorizations.iter().flatten();
        let mut installed = authorized.map(|one| (one.team_id.as_deref(), one.enterprise_id.as_deref()));
        let here = (envelope.team_id.as_deref(), envelope.enterprise_id.as_deref());
        if !self.is_installed_in(here) && !installed.any(|place| self.is_installed_in(place)) {
            return Ok(Reading::ignored(FOREIGN_WORKSPACE));
        }
        let kind: EventKind<'_> = serde_json::from_str(event.get()).map_err(|_| MALFORMED)?;
        Ok(match (&*kind.kind, kind.subtype.as_deref()) {
            ("message", Some("message_changed")) => Reading::ignored("edit"),
            ("message", Some("message_deleted")) => Reading::ignored("delete"),
            (
                "message" | "app_mention",
                None | Some("bot_message" | "file_share" | "thread_broadcast" | "me_message"),
            ) => {
                let message = serde_json::from_str(event.get()).map_err(|_| MALFORMED)?;
                self.message(&envelope, &message, &kind)
            }
            ("message" | "app_mention", Some(_)) => Reading::ignored("system"),
            ("reaction_added" | "reaction_removed", _) => Reading::ignored("reaction"),
            ("channel_id_changed", _) => {
                let change: ChannelIdChange = serde_json::from_str(event.get()).map_err(|_| MALFORMED)?;
                let moved = Moved { from: change.old_channel_id.into(), to: change.new_channel_id.into() };
                Reading { moved: vec![moved], ..Reading::ignored("service") }
            }
            ("tokens_revoked" | "app_uninstalled", _) => {
                // The server checks the token, and marks the bot as dead if Slack refuses it.
                self.slack.refused.report(&self.bot.id);
                Reading::ignored("service")
            }
            _ => Reading::ignored("unknown"),
        })
    }

    /// Whether this bot is installed in a workspace, or in the organization of it. The signing secret is that of the
    /// app, which may be installed elsewhere too.
    fn is_installed_in(&self, (team, enterprise): (Option<&str>, Option<&str>)) -> bool {
        match (self.bot.setting(ENTERPRISE_ID), self.bot.setting(TEAM_ID)) {
            (Some(known), _) => enterprise == Some(known),
            (None, Some(known)) => team == Some(known),
            (None, None) => true,
        }
    }

    fn message(
        &self,
        envelope: &EventEnvelope<'_>,
        message: &MessageEvent<'_>,
        kind: &EventKind<'_>,
    ) -> Reading {
        if self.is_own(message) {
            return Reading::ignored("self");
        }
        let Some(arrival) = self.arrival(envelope, message, &kind.kind) else {
            return Reading::ignored("empty");
        };
        let is_slackbot = message.user.as_deref() == Some(SLACKBOT);
        if message.bot_id.is_some() || is_slackbot || kind.subtype.as_deref() == Some("bot_message") {
            return self.completed(Reading { from_bots: vec![arrival], ..Reading::ignored(BOT_AUTHOR) });
        }
        self.completed(Reading { arrivals: vec![arrival], ..Reading::default() })
    }

    /// Whether the bot or its app wrote a message. One of the three ids is missing in some of its messages.
    fn is_own(&self, message: &MessageEvent<'_>) -> bool {
        let is = |id: Option<&str>, setting: &str| {
            id.is_some_and(|id| !id.is_empty() && self.bot.setting(setting) == Some(id))
        };
        is(message.user.as_deref(), BOT_USER_ID)
            || is(message.bot_id.as_deref(), BOT_ID)
            || is(message.app_id.as_deref(), APP_ID)
    }

    /// The message as an arrival. `None` if it has neither a text nor a file.
    fn arrival(
        &self,
        envelope: &EventEnvelope<'_>,
        message: &MessageEvent<'_>,
        kind: &str,
    ) -> Option<Arrival> {
        let raw = message.text.as_deref().unwrap_or_default();
        // The workspace in which the bot is installed. `event.team` is that of the author, which is another one in a
        // channel that two workspaces share.
        let authorized = envelope.authorizations.iter().flatten().find_map(|one| one.team_id.as_deref());
        let team = envelope.team_id.as_deref().or(authorized).or(message.team.as_deref());
        let attached =
            files::attached(message.files.as_deref().unwrap_or_default(), team.unwrap_or_default());
        if raw.is_empty() && attached.is_empty() {
            return None;
        }
        let text = readable(raw, self.own, |person| self.slack.directory.person(&self.bot.id, person));
        let chat = match message.channel_type.as_deref() {
            Some("im") => SlackChatKind::Direct,
            Some("mpim") => SlackChatKind::GroupDirect,
            None if message.channel.starts_with('D') => SlackChatKind::Direct,
            _ => SlackChatKind::Channel,
        };
        let thread = message.thread_ts.as_deref().filter(|thread| **thread != *message.ts);
        let replies_to_us =
            thread.is_some() && !self.own.is_empty() && message.parent_user_id.as_deref() == Some(self.own);
        let joined = thread
            .is_some_and(|thread| self.slack.joined_threads.has(&self.bot.id, &message.channel, thread));
        let author = message.user.as_deref().or(message.bot_id.as_deref());
        let mut event = Event {
            text: text.text,
            message_id: Some((*message.ts).into()),
            reply_to_message_id: thread.map(Into::into),
            reply_to: replies_to_us.then(|| Quoted { is_own: Some(true), ..Quoted::default() }),
            message_type: attached.first().map_or(MessageType::Text, |file| file.message_type),
            source: Source {
                // A message outside of a thread begins one: the answer goes below it.
                thread_id: Some(thread.unwrap_or(&message.ts).into()),
                message_id: Some((*message.ts).into()),
                user_id: author.map(Into::into),
                ..self.source(&message.channel, chat, team)
            },
            ..Event::default()
        };
        if attached.is_empty() && event.command().is_some_and(|name| !name.is_empty()) {
            event.message_type = MessageType::Command;
        }
        let is_direct = chat == SlackChatKind::Direct;
        let addressed = is_direct || kind == "app_mention" || text.mentions_bot || replies_to_us || joined;
        let mut references = Vec::with_capacity(attached.len());
        for file in attached {
            references.push(file.reference);
            event.media.push(file.media);
        }
        // One message comes in several events: repeated, and as a mention too. All of them have its time, which
        // identifies it in its channel, so that the id of the event is not needed.
        let key = format!("{}/{}/{}", team.unwrap_or_default(), &*message.channel, &*message.ts);
        Some(Arrival {
            addressed,
            several_people: chat == SlackChatKind::GroupDirect,
            references,
            ..Arrival::new(event, self.dedup(&key), self.verified.received)
        })
    }

    fn source(&self, channel: &str, kind: SlackChatKind, team: Option<&str>) -> Source {
        Source {
            platform: PLATFORM.into(),
            chat_id: Some(channel.into()),
            chat_type: if kind == SlackChatKind::Channel { "group" } else { "dm" }.to_owned(),
            // The id, until the name is known.
            chat_name: Some(channel.to_owned()),
            scope_id: team.map(Into::into),
            ..Source::default()
        }
    }

    /// Writes the known names into the events, and marks a reading that lacks some.
    fn completed(&self, mut reading: Reading) -> Reading {
        for arrival in reading.arrivals.iter_mut().chain(&mut reading.from_bots) {
            let missing = self.slack.directory.fill(&self.bot.id, arrival);
            reading.incomplete |= !missing.is_empty();
        }
        reading
    }

    fn dedup(&self, key: &str) -> String {
        format!("{PLATFORM}:{}:{key}", self.bot.id)
    }

    /// The key of an interaction or a slash command, which have no id. The trigger is different for each, but it is a
    /// secret, so that only its hash is stored.
    fn interaction_dedup(&self, trigger: Option<&str>) -> String {
        let unique =
            trigger.filter(|trigger| !trigger.is_empty()).map_or(&*self.verified.body, str::as_bytes);
        let hash = digest::digest(&digest::SHA256, unique);
        self.dedup(&format!("interaction:{}", hex::encode(&hash.as_ref()[..16])))
    }
}

/// The kind of a channel by the name that Slack gives it in an interaction, which does not say its type.
fn kind_by_name(id: &str, name: Option<&str>) -> SlackChatKind {
    match name {
        Some(name) if name.starts_with("mpdm-") => SlackChatKind::GroupDirect,
        Some("directmessage") => SlackChatKind::Direct,
        _ if id.starts_with('D') => SlackChatKind::Direct,
        _ => SlackChatKind::Channel,
    }
}
