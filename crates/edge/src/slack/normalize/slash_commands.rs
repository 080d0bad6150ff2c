//! Slash commands of Slack: each becomes a message of its person, which follow-ups can answer.

use posthouse_wire::{Event, MessageType, Source};

use super::{FOREIGN_WORKSPACE, SlackContext, kind_by_name};
use crate::platform::{Arrival, PlatformResponse, Reading};
use crate::slack::directory::SlackChatKind;
use crate::slack::form::SlackForm;
use crate::slack::payload::SlashCommand;
use crate::slack::readable_text::readable;

/// The answer to somebody who may not write to an agent. Only they see it.
const NOT_FOR_YOU: &str = r#"{"response_type":"ephemeral","text":"You may not use this bot here."}"#;

/// The command of a form.
pub(super) fn of_form(form: &SlackForm) -> SlashCommand {
    let text = |name: &str| form.get(name).map(str::to_owned);
    SlashCommand {
        team_id: text("team_id"),
        enterprise_id: text("enterprise_id"),
        channel_id: text("channel_id").unwrap_or_default(),
        channel_name: text("channel_name"),
        user_id: text("user_id").unwrap_or_default(),
        user_name: text("user_name"),
        command: text("command").unwrap_or_default(),
        text: text("text"),
        response_url: text("response_url"),
        trigger_id: text("trigger_id"),
    }
}

impl SlackContext<'_> {
    pub(super) fn slash_command(&self, command: SlashCommand) -> Reading {
        if !self.is_installed_in((command.team_id.as_deref(), command.enterprise_id.as_deref())) {
            return Reading::ignored(FOREIGN_WORKSPACE);
        }
        if command.channel_id.is_empty() || command.user_id.is_empty() || command.command.len() < 2 {
            return Reading::ignored("unknown");
        }
        let words = command.text.as_deref().unwrap_or_default();
        let words = readable(words, "", |person| self.slack.directory.person(&self.bot.id, person)).text;
        let kind = kind_by_name(&command.channel_id, command.channel_name.as_deref());
        let event = Event {
            text: format!("{} {words}", command.command).trim_end().to_owned(),
            message_type: MessageType::Command,
            source: Source {
                user_id: Some(command.user_id.as_str().into()),
                user_name: command.user_name.clone().filter(|name| !name.is_empty()),
                ..self.source(&command.channel_id, kind, command.team_id.as_deref())
            },
            ..Event::default()
        };
        let trigger = command.trigger_id.as_deref();
        let arrival = Arrival {
            addressed: true,
            several_people: kind == SlackChatKind::GroupDirect,
            capabilities: self.captured(command.response_url.as_deref(), trigger),
            ..Arrival::new(event, self.interaction_dedup(trigger), self.verified.received)
        };
        self.completed(Reading {
            arrivals: vec![arrival],
            reply_to_strangers: Some(PlatformResponse::json(NOT_FOR_YOU)),
            ..Reading::default()
        })
    }
}
