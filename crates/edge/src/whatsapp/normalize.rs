//! Normalization of WhatsApp's notifications: messages of people as events, delivery states as log lines.

mod attachment;

use ledger::PersonIds;
use posthouse_wire::event::Quoted;
use posthouse_wire::{DedupKey, Event, MessageId, MessageType, PromptToken, Source};

use super::payload::{
    DeliveryStatus, NumberChange, SharedContact, WhatsAppContact, WhatsAppMessage, WhatsAppNotification,
};
use super::recent_contacts::{RecentContact, RecentContacts};
use super::{PLATFORM, number_of};
use crate::bots::OpenedBot;
use crate::platform::{Arrival, PayloadText, Reading, VerifiedRequest, WebhookRefusal, location_text};

pub(super) fn normalize(
    bot: &OpenedBot,
    contacts: &RecentContacts,
    verified: &VerifiedRequest,
) -> Result<Reading, WebhookRefusal> {
    let malformed = || WebhookRefusal::malformed("malformed_body");
    let text = std::str::from_utf8(&verified.body).map_err(|_| malformed())?;
    // Only an object: serde would also fill the struct from an array.
    let is_object = text.trim_start().starts_with('{');
    let notification: WhatsAppNotification<'_> =
        serde_json::from_str(text).ok().filter(|_| is_object).ok_or_else(malformed)?;
    let mut reading = Reading::default();
    for change in notification.entry.iter().flat_map(|entry| &entry.changes) {
        if &*change.field != "messages" {
            reading.ignored.push("other_field");
            continue;
        }
        let Ok(change) = serde_json::from_str::<NumberChange<'_>>(change.value.get()) else {
            reading.ignored.push("unreadable");
            continue;
        };
        // An app has one signature for all its numbers, which may belong to bots of other tenants.
        if *change.metadata.phone_number_id != *number_of(bot) {
            reading.ignored.push("other_number");
            continue;
        }
        read_change(bot, contacts, verified, &change, &mut reading);
    }
    Ok(reading)
}

fn read_change(
    bot: &OpenedBot,
    contacts: &RecentContacts,
    verified: &VerifiedRequest,
    change: &NumberChange<'_>,
    into: &mut Reading,
) {
    for status in &change.statuses {
        into.ignored.push(read_status(bot, status.get()));
    }
    for message in &change.messages {
        let Ok(message) = serde_json::from_str::<WhatsAppMessage<'_>>(message.get()) else {
            tracing::warn!(bot.id = %bot.id, "could not parse a message from WhatsApp; it is skipped");
            into.ignored.push("unreadable");
            continue;
        };
        match event_of(bot, change, &message) {
            Ok((event, reference)) => {
                let known =
                    RecentContact { message: message.id.to_string(), name: event.source.user_name.clone() };
                let ids = [&message.from, &message.from_user_id];
                contacts.note(&bot.id, ids.into_iter().flatten().map(|id| &**id), &known);
                into.arrivals.push(arrival(bot, verified, &message, event, reference));
            }
            Err(reason) => into.ignored.push(reason),
        }
    }
}

/// Reports a message that was not delivered. Other states say nothing that an agent needs.
fn read_status(bot: &OpenedBot, status: &str) -> &'static str {
    match serde_json::from_str::<DeliveryStatus<'_>>(status) {
        Ok(status) if &*status.status == "failed" => {
            let code = status.errors.first().map_or(0, |error| error.code);
            tracing::warn!(bot.id = %bot.id, code, "WhatsApp accepted a message of a bot and could not deliver it");
            "status_failed"
        }
        _ => "status",
    }
}

/// The event of a message, with the reference of its file.
fn event_of(
    bot: &OpenedBot,
    change: &NumberChange<'_>,
    message: &WhatsAppMessage<'_>,
) -> Result<(Event, Option<String>), &'static str> {
    if message.group_id.is_some() {
        return Err("group");
    }
    let sender = message.from.as_ref().or(message.from_user_id.as_ref()).ok_or("no_sender")?;
    let own_number = change.metadata.display_phone_number.as_deref().map(digits);
    if own_number.as_deref() == Some(&digits(sender)) {
        return Err("self");
    }
    let attached = attachment::attached(bot, message);
    let (text, message_type) = match &attached {
        Some(attached) => (attached.caption.clone(), attached.message_type),
        None => words(message)?,
    };
    let name = contact_of(change, message).and_then(name_of);
    let source = Source {
        platform: PLATFORM.into(),
        chat_id: Some((&**sender).into()),
        chat_type: "dm".to_owned(),
        chat_name: name.clone(),
        user_id: Some((&**sender).into()),
        user_name: name,
        user_id_alt: message.from_user_id.as_deref().map(Into::into),
        message_id: Some((&*message.id).into()),
        ..Source::default()
    };
    let replied: Option<MessageId> =
        message.context.as_ref().and_then(|context| context.id.as_deref()).map(Into::into);
    let is_own = message.context.as_ref().and_then(|context| context.from.as_deref()).map(|from| {
        let from = digits(from);
        own_number.as_deref() == Some(&from)
    });
    let mut event = Event {
        text,
        message_type,
        message_id: source.message_id.clone(),
        reply_to: replied.as_ref().map(|_| Quoted { is_own, ..Quoted::default() }),
        reply_to_message_id: replied,
        source,
        ..Event::default()
    };
    let reference = attached.map(|attached| {
        event.media.push(attached.media);
        attached.reference
    });
    Ok((event, reference))
}

/// The arrival of an event, with what is not for the agent.
fn arrival(
    bot: &OpenedBot,
    verified: &VerifiedRequest,
    message: &WhatsAppMessage<'_>,
    event: Event,
    reference: Option<String>,
) -> Arrival {
    let key: DedupKey = [PLATFORM, ":", bot.id.as_str(), ":", &message.id].concat().into();
    let id = |text: &PayloadText<'_>| (&**text).into();
    Arrival {
        addressed: true,
        references: reference.into_iter().collect(),
        press: pressed(message).and_then(PromptToken::decode),
        person: Some(PersonIds {
            lasting: message.from_user_id.as_ref().map(id),
            shown: message.from.as_ref().map(id),
        }),
        ..Arrival::new(event, key, verified.received)
    }
}

/// The text of a message without a file, or the reason why it is no turn.
fn words(message: &WhatsAppMessage<'_>) -> Result<(String, MessageType), &'static str> {
    let said = match &*message.kind {
        "text" => message.text.as_ref().map(|text| text.body.to_string()),
        "button" | "interactive" => pressed(message).map(str::to_owned),
        "location" => {
            let place = message.location.as_ref().ok_or("unreadable")?;
            let text = location_text(place.name.as_deref(), place.latitude, place.longitude);
            return Ok((text, MessageType::Location));
        }
        "contacts" => message
            .contacts
            .as_ref()
            .map(|shared| shared.iter().map(contact_text).collect::<Vec<_>>().join(" ")),
        "reaction" => return Err("reaction"),
        "system" => return Err("system"),
        _ => None,
    };
    let said = said.filter(|said| !said.trim().is_empty()).ok_or("unsupported")?;
    let is_command = &*message.kind == "text" && said.starts_with('/');
    Ok((said, if is_command { MessageType::Command } else { MessageType::Text }))
}

/// The payload of a pressed button.
fn pressed<'m>(message: &'m WhatsAppMessage<'_>) -> Option<&'m str> {
    if let Some(button) = &message.button {
        return button.payload.as_deref().or(button.text.as_deref());
    }
    let answer = message.interactive.as_ref()?;
    answer.button_reply.as_ref().or(answer.list_reply.as_ref()).map(|chosen| &*chosen.id)
}

fn contact_text(shared: &SharedContact<'_>) -> String {
    let name = shared.name.as_ref().and_then(|name| name.formatted_name.as_deref()).unwrap_or_default();
    match shared.phones.iter().find_map(|phone| phone.phone.as_deref()) {
        Some(phone) => format!("[contact: {name}, {phone}]"),
        None => format!("[contact: {name}]"),
    }
}

/// The contact of the sender. The business-scoped id counts first, because a number may be hidden.
fn contact_of<'c, 'a>(
    change: &'c NumberChange<'a>,
    message: &WhatsAppMessage<'_>,
) -> Option<&'c WhatsAppContact<'a>> {
    let same = |left: &Option<PayloadText<'_>>, right: &Option<PayloadText<'_>>| {
        left.as_deref().is_some_and(|left| right.as_deref() == Some(left))
    };
    let by_id = change.contacts.iter().find(|contact| same(&contact.user_id, &message.from_user_id));
    by_id.or_else(|| change.contacts.iter().find(|contact| same(&contact.wa_id, &message.from)))
}

fn name_of(contact: &WhatsAppContact<'_>) -> Option<String> {
    let profile = contact.profile.as_ref()?;
    let named = |name: &Option<PayloadText<'_>>| {
        name.as_deref().map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned)
    };
    named(&profile.name).or_else(|| named(&profile.username))
}

/// The digits of a phone number, as WhatsApp writes numbers in ids.
fn digits(number: &str) -> String {
    number.chars().filter(char::is_ascii_digit).collect()
}
