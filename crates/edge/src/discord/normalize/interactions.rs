//! Discord interactions: slash commands, pressed components and submitted forms become messages of their person.

use std::time::Duration;

use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderValue};
use ledger::Uses;
use posthouse_wire::event::Quoted;
use posthouse_wire::{Event, MessageType, PromptToken, Secret};
use serde::{Deserialize, Serialize};
use vault::CapturedCapability;

use super::attachments::attached_to_command;
use super::{DiscordContext, EventChannel};
use crate::discord::directory::{ChannelView, DIRECT, GROUP_DIRECT};
use crate::discord::payload::{
    CommandOption, DiscordUser, FormComponent, Interaction, InteractionData, OptionValue,
};
use crate::discord::{INTERACTION_CALLBACK, INTERACTION_TOKEN};
use crate::forwarding::RawInteraction;
use crate::platform::{Arrival, InteractionAck, PlatformResponse, Reading, once};

const PING: u8 = 1;
const COMMAND: u8 = 2;
const COMPONENT: u8 = 3;
const AUTOCOMPLETE: u8 = 4;
const FORM: u8 = 5;

/// Types of options that only contain further options: a sub-command, and a group of them.
const SUB_COMMANDS: [u8; 2] = [1, 2];

/// Type of an option whose value is the id of a file. The file itself is attached to the event.
const FILE: u8 = 11;

/// Time for which Discord accepts the token of an interaction.
const TOKEN_LIFE: Duration = Duration::from_secs(900);

/// Most levels of nested options and fields that are read. Discord has three.
const DEEPEST: usize = 8;

/// The answer to somebody who may not write to an agent. Only they see it.
const NOT_FOR_YOU: &str = r#"{"type":4,"data":{"content":"You may not use this bot here.","flags":64}}"#;

/// The token of an interaction with what its use needs. It is the value of the capability.
#[derive(Clone, Deserialize, Serialize)]
pub(in crate::discord) struct InteractionToken {
    pub application_id: String,
    pub interaction_id: String,
    pub token: String,
    /// The type of the first answer: 5 shows that an answer is coming, 6 shows nothing.
    pub deferred: u8,
}

/// The first answer to an interaction that came over the gateway.
#[derive(Deserialize, Serialize)]
pub(in crate::discord) struct OwedCallback {
    pub interaction_id: String,
    pub token: String,
    /// The body of the answer.
    pub body: String,
}

impl DiscordContext<'_> {
    /// An interaction that came by HTTP: the response is its first answer.
    pub(super) fn answered_interaction(&self, interaction: &Interaction<'_>) -> Reading {
        let first = first_answer(interaction.kind);
        let reading = match interaction.kind {
            PING => Reading::default(),
            _ => self.interaction(interaction, &self.verified.body, &self.verified.headers),
        };
        let to_strangers = !reading.arrivals.is_empty();
        Reading {
            reply: PlatformResponse::json(first),
            reply_to_strangers: to_strangers.then(|| PlatformResponse::json(NOT_FOR_YOU)),
            ..reading
        }
    }

    /// An interaction that came over the gateway: the first answer is a call.
    pub(super) fn gateway_interaction(&self, interaction: &Interaction<'_>, data: &str) -> Reading {
        if interaction.kind == PING {
            return Reading::ignored("unknown");
        }
        let owed = OwedCallback {
            interaction_id: interaction.id.to_string(),
            token: interaction.token.to_string(),
            body: first_answer(interaction.kind).to_owned(),
        };
        let value = serde_json::to_string(&owed).expect("it has only texts");
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Reading {
            interaction_acks: vec![InteractionAck(once(INTERACTION_CALLBACK, value))],
            ..self.interaction(interaction, data.as_bytes(), &headers)
        }
    }

    fn interaction(&self, interaction: &Interaction<'_>, body: &[u8], headers: &HeaderMap) -> Reading {
        if interaction.kind == AUTOCOMPLETE {
            return Reading::ignored("autocomplete");
        }
        let (Some(channel), Some(data)) = (&interaction.channel_id, &interaction.data) else {
            return Reading::ignored("unknown");
        };
        let by = interaction.member.as_ref().and_then(|member| member.user.as_ref());
        let Some(by) = by.or(interaction.user.as_ref()) else { return Reading::ignored("unknown") };
        let Some(text) = text_of(interaction.kind, data) else { return Reading::ignored("unknown") };
        let place = place_of(interaction, channel);
        // The names of its surroundings are left out if they are not known: Discord waits for the first answer.
        let is_placed = place.described.as_ref().is_some_and(ChannelView::is_placed);
        let incomplete =
            place.guild.is_some() && !is_placed && self.directory.channel(place.channel).is_none();
        let source = self.source(&place, &interaction.id, by, interaction.member.as_ref());
        let pressed = interaction.message.as_ref().filter(|_| interaction.kind == COMPONENT);
        let pressed_author = pressed.and_then(|pressed| pressed.author.as_ref());
        let mut event = Event {
            text,
            message_type: if interaction.kind == COMMAND { MessageType::Command } else { MessageType::Text },
            message_id: source.message_id.clone(),
            reply_to_message_id: pressed.map(|pressed| (*pressed.id).into()),
            reply_to: pressed.map(|pressed| Quoted {
                text: pressed.content.as_deref().filter(|text| !text.is_empty()).map(str::to_owned),
                author: pressed_author.and_then(DiscordUser::name),
                is_own: pressed_author.map(|author| &*author.id == self.own),
            }),
            source,
            ..Event::default()
        };
        let mut references = Vec::new();
        for file in attached_to_command(&self.bot.id, data, self.files) {
            references.push(file.reference);
            event.media.push(file.media);
        }
        let press = data.custom_id.as_deref().filter(|_| interaction.kind == COMPONENT);
        let raw = RawInteraction { on: &self.bot.bot_ref(), headers, body };
        let described = interaction.channel.as_ref();
        let arrival = Arrival {
            addressed: true,
            several_people: described.is_some_and(|channel| channel.kind == GROUP_DIRECT),
            capabilities: vec![token_of(interaction)],
            press: press.and_then(PromptToken::decode),
            forward: raw.sanitized().map(Box::new),
            references,
            ..Arrival::new(event, self.dedup(&interaction.id), self.verified.received)
        };
        Reading { arrivals: vec![arrival], incomplete, ..Reading::default() }
    }
}

fn first_answer(kind: u8) -> &'static str {
    match kind {
        PING => r#"{"type":1}"#,
        COMPONENT => r#"{"type":6}"#,
        AUTOCOMPLETE => r#"{"type":8,"data":{"choices":[]}}"#,
        _ => r#"{"type":5}"#,
    }
}

fn token_of(interaction: &Interaction<'_>) -> CapturedCapability {
    let token = InteractionToken {
        application_id: interaction.application_id.to_string(),
        interaction_id: interaction.id.to_string(),
        token: interaction.token.to_string(),
        deferred: if interaction.kind == COMPONENT { 6 } else { 5 },
    };
    let value = serde_json::to_string(&token).expect("it has only texts and a number");
    CapturedCapability {
        kind: INTERACTION_TOKEN.into(),
        value: Secret::new(value),
        lifetime: Some(TOKEN_LIFE),
        uses: Uses::Many,
    }
}

/// The place of an interaction, which itself describes its channel.
fn place_of<'a>(interaction: &'a Interaction<'a>, channel: &'a str) -> EventChannel<'a> {
    let described = interaction.channel.as_ref().map(|described| ChannelView {
        kind: Some(described.kind),
        name: described.name.as_deref().map(str::to_owned),
        topic: described.topic.as_deref().map(str::to_owned),
        parent: described.parent_id.as_deref().map(str::to_owned),
    });
    let direct =
        described.as_ref().is_some_and(|described| matches!(described.kind, Some(DIRECT | GROUP_DIRECT)));
    EventChannel { guild: interaction.guild_id.as_deref().filter(|_| !direct), channel, described }
}

/// The text of an interaction. `None` if it has nothing that could be one.
fn text_of(kind: u8, data: &InteractionData<'_>) -> Option<String> {
    match kind {
        COMMAND => {
            let mut words = vec![format!("/{}", data.name.as_deref()?)];
            option_words(&data.options, &mut words, 0);
            Some(words.join(" "))
        }
        COMPONENT if !data.values.is_empty() => {
            Some(data.values.iter().map(|value| &**value).collect::<Vec<_>>().join(" "))
        }
        COMPONENT => data.custom_id.as_deref().map(str::to_owned),
        FORM => {
            let mut lines = Vec::new();
            form_lines(&data.components, &mut lines, 0);
            Some(lines.join("\n"))
        }
        _ => None,
    }
}

/// The names of sub-commands and the values of options, in order.
fn option_words(options: &[CommandOption<'_>], words: &mut Vec<String>, depth: usize) {
    for option in options.iter().filter(|_| depth < DEEPEST) {
        if SUB_COMMANDS.contains(&option.kind) {
            words.push(option.name.to_string());
        }
        match option.value.as_ref().filter(|_| option.kind != FILE) {
            Some(OptionValue::Text(text)) => words.push(text.clone()),
            Some(OptionValue::Number(number)) => words.push(number.to_string()),
            Some(OptionValue::Switch(on)) => words.push(on.to_string()),
            None => {}
        }
        option_words(&option.options, words, depth + 1);
    }
}

fn form_lines(components: &[FormComponent<'_>], lines: &mut Vec<String>, depth: usize) {
    for component in components.iter().filter(|_| depth < DEEPEST) {
        lines.extend(component.value.as_deref().map(str::to_owned));
        lines.extend(component.values.iter().map(|value| value.to_string()));
        form_lines(&component.components, lines, depth + 1);
        if let Some(inner) = &component.component {
            form_lines(std::slice::from_ref(inner), lines, depth + 1);
        }
    }
}
