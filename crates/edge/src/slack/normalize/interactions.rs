//! Interactions of Slack: pressed buttons, changed lists, submitted forms and shortcuts become messages of their person.

use std::time::Duration;

use ledger::Uses;
use posthouse_wire::event::Quoted;
use posthouse_wire::{Event, PromptToken, Secret, Source};
use serde_json::Value;
use vault::CapturedCapability;

use super::{FOREIGN_WORKSPACE, MALFORMED, SlackContext, kind_by_name};
use crate::platform::{Arrival, PlatformResponse, Reading, WebhookRefusal};
use crate::slack::directory::SlackChatKind;
use crate::slack::payload::{SlackInteraction, SubmittedView};
use crate::slack::readable_text::readable;
use crate::slack::{RESPONSE_URL, TRIGGER_ID};

/// Time for which Slack accepts a response URL, and how often.
const RESPONSE_URL_LIFE: Duration = Duration::from_secs(1800);
const RESPONSE_URL_USES: u32 = 5;
/// Time for which Slack accepts a trigger, once.
const TRIGGER_LIFE: Duration = Duration::from_secs(3);
/// Most fields of a form whose values are read.
const MOST_FIELDS: usize = 100;

impl SlackContext<'_> {
    pub(super) fn interaction(&self, payload: &str) -> Result<Reading, WebhookRefusal> {
        let interaction: SlackInteraction<'_> = serde_json::from_str(payload).map_err(|_| MALFORMED)?;
        let text = match &*interaction.kind {
            "block_actions" => interaction.actions.as_ref().and_then(|actions| action_text(actions.first()?)),
            "view_submission" => interaction.view.as_ref().map(submitted_text),
            "message_action" | "shortcut" => interaction.callback_id.as_deref().map(str::to_owned),
            // Slack asks for the options of a list.
            "block_suggestion" => {
                let reply = PlatformResponse::json(r#"{"options":[]}"#);
                return Ok(Reading { reply, ..Reading::ignored("options") });
            }
            _ => None,
        };
        let (Some(text), Some(user)) = (text, &interaction.user) else {
            return Ok(Reading::ignored("unknown"));
        };
        let team = interaction.team.as_ref().and_then(|team| team.id.as_deref()).or(user.team_id.as_deref());
        let enterprise = interaction.enterprise.as_ref().and_then(|enterprise| enterprise.id.as_deref());
        if !self.is_installed_in((team, enterprise)) {
            return Ok(Reading::ignored(FOREIGN_WORKSPACE));
        }
        let arrival = self.interaction_arrival(&interaction, text, &user.id, team);
        Ok(self.completed(Reading { arrivals: vec![arrival], ..Reading::default() }))
    }

    fn interaction_arrival(
        &self,
        interaction: &SlackInteraction<'_>,
        text: String,
        user: &str,
        team: Option<&str>,
    ) -> Arrival {
        let (container, message) = (interaction.container.as_ref(), interaction.message.as_ref());
        let of_form = interaction.response_urls.iter().flatten().next();
        let place = interaction.channel.as_ref();
        let channel = place
            .map(|place| &*place.id)
            .or_else(|| container.and_then(|container| container.channel_id.as_deref()))
            .or_else(|| of_form.and_then(|url| url.channel_id.as_deref()));
        // Without a channel it is the direct message with the person, which Slack also finds by the person's id.
        let name = place.and_then(|place| place.name.as_deref());
        let kind = channel.map_or(SlackChatKind::Direct, |channel| kind_by_name(channel, name));
        let channel = channel.unwrap_or(user);
        let ts = container
            .and_then(|container| container.message_ts.as_deref())
            .or_else(|| message.and_then(|message| message.ts.as_deref()));
        let thread = message
            .and_then(|message| message.thread_ts.as_deref())
            .or_else(|| container.and_then(|container| container.thread_ts.as_deref()));
        let names = interaction.user.as_ref().map(|user| [&user.username, &user.name]);
        let name = names.into_iter().flatten().flatten().map(|name| name.to_string()).next();
        let quoted = message.and_then(|message| message.text.as_deref()).filter(|text| !text.is_empty());
        let name_of = |person: &str| self.slack.directory.person(&self.bot.id, person);
        let event = Event {
            text,
            message_id: ts.map(Into::into),
            reply_to_message_id: ts.map(Into::into),
            reply_to: message.map(|message| Quoted {
                text: quoted.map(|text| readable(text, "", name_of).text),
                author: None,
                is_own: message.user.as_deref().map(|user| user == self.own),
            }),
            source: Source {
                user_id: Some(user.into()),
                user_name: name,
                thread_id: thread.map(Into::into),
                message_id: ts.map(Into::into),
                ..self.source(channel, kind, team)
            },
            ..Event::default()
        };
        let press = PromptToken::decode(&event.text);
        if let (Some(_), Some(ts), Some(text)) = (&press, ts, quoted) {
            // The buttons are taken away by an update of the message, which needs its text.
            self.slack.prompt_texts.keep(&self.bot.id, channel, ts, text);
        }
        let trigger = interaction.trigger_id.as_deref();
        let url = interaction
            .response_url
            .as_deref()
            .or_else(|| of_form.and_then(|url| url.response_url.as_deref()));
        Arrival {
            addressed: true,
            several_people: kind == SlackChatKind::GroupDirect,
            capabilities: self.captured(url, trigger),
            press,
            ..Arrival::new(event, self.interaction_dedup(trigger), self.verified.received)
        }
    }

    /// The credentials of an interaction. A response URL at a host that is not Slack's is dropped.
    pub(super) fn captured(&self, url: Option<&str>, trigger: Option<&str>) -> Vec<CapturedCapability> {
        let capability = |kind: &str, value: &str, lifetime, uses| CapturedCapability {
            kind: kind.into(),
            value: Secret::new(value),
            lifetime: Some(lifetime),
            uses: Uses::Left(uses),
        };
        let url = url.filter(|url| self.slack.response_address(self.bot, url).is_some());
        let url = url.map(|url| capability(RESPONSE_URL, url, RESPONSE_URL_LIFE, RESPONSE_URL_USES));
        let trigger = trigger.filter(|trigger| !trigger.is_empty());
        let trigger = trigger.map(|trigger| capability(TRIGGER_ID, trigger, TRIGGER_LIFE, 1));
        url.into_iter().chain(trigger).collect()
    }
}

/// The text of a pressed button or a changed list.
fn action_text(action: &Value) -> Option<String> {
    chosen(action).or_else(|| action["action_id"].as_str().map(str::to_owned))
}

/// The values of a form, one per line.
fn submitted_text(view: &SubmittedView) -> String {
    let values = view.state.as_ref().map(|state| &state.values);
    let blocks = values.and_then(Value::as_object).into_iter().flat_map(|blocks| blocks.values());
    let fields = blocks.filter_map(Value::as_object).flat_map(|fields| fields.values());
    fields.take(MOST_FIELDS).filter_map(chosen).collect::<Vec<_>>().join("\n")
}

/// What a person entered or chose in an element.
fn chosen(element: &Value) -> Option<String> {
    const SINGLE: [&str; 7] = [
        "value",
        "selected_date",
        "selected_time",
        "selected_user",
        "selected_channel",
        "selected_conversation",
        "selected_date_time",
    ];
    const SEVERAL: [&str; 3] = ["selected_users", "selected_channels", "selected_conversations"];
    let scalar = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    if let Some(text) = SINGLE.iter().find_map(|name| scalar(&element[*name])) {
        return Some(text);
    }
    if let Some(option) = element["selected_option"]["value"].as_str() {
        return Some(option.to_owned());
    }
    let options = element["selected_options"].as_array().into_iter().flatten();
    let options = options.filter_map(|option| scalar(&option["value"]));
    let lists = SEVERAL.iter().filter_map(|name| element[*name].as_array()).flatten();
    let all: Vec<String> = options.chain(lists.filter_map(scalar)).collect();
    (!all.is_empty()).then(|| all.join(" "))
}
