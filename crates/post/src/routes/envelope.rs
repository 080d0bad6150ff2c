//! Parser of the envelope in `POST /v1/deliver`, as other runtimes of the contract write it.

use http_kit::{Fields, LONGEST_LABEL, Problem};
use posthouse_wire::delivery::{Meta, Payload, PayloadKind, PayloadOrigin, TriggerKind, is_dispatch_id};
use posthouse_wire::{CorrelationId, DispatchId};
use serde_json::Value;

use super::idempotency_key::NO_ID;
use super::notify::{KINDS, kind};
use super::problem;

/// The largest meta, in bytes. Unknown fields are passed on, and must fit into one frame with the text.
const LARGEST_META: usize = 16 * 1024;
/// The deepest nesting of the meta. It is stored inside other JSON and must stay below the parser's limit there.
const DEEPEST_META: usize = 32;

/// Takes kind, text and meta out of the body. Each kind has its own field for the text. The field of the other kind
/// stays unread and is refused as unknown.
pub(crate) fn payload(fields: &mut Fields) -> Result<Payload, Problem> {
    let kind =
        fields.optional_word("kind", kind, KINDS)?.ok_or_else(|| fields.field_error("kind", "is missing"))?;
    let text = match kind {
        PayloadKind::Augment => fields.text("content")?,
        PayloadKind::Template => fields.text("prompt")?,
    };
    let meta = fields.object("meta", "meta.")?;
    if meta.deepest(depth) > DEEPEST_META {
        return Err(problem::invalid("meta", format!("is nested deeper than {DEEPEST_META} levels")));
    }
    let meta = read(meta)?;
    if serde_json::to_vec(&meta).map_or(0, |written| written.len()) > LARGEST_META {
        return Err(problem::too_long("meta", LARGEST_META));
    }
    Ok(Payload { kind, text, meta })
}

fn read(mut fields: Fields) -> Result<Meta, Problem> {
    let dispatch_id = fields.text("dispatch_id")?;
    if !is_dispatch_id(&dispatch_id) {
        return Err(fields.field_error("dispatch_id", NO_ID));
    }
    Ok(Meta {
        dispatch_id: DispatchId::from(dispatch_id),
        sent_at: fields
            .optional_millis("sent_at")?
            .ok_or_else(|| fields.field_error("sent_at", "is missing"))?,
        origin: origin(fields.object("origin", "meta.origin.")?)?,
        event_type: fields.label_if_any("event_type", LONGEST_LABEL)?,
        correlation_id: fields.label_if_any("correlation_id", LONGEST_LABEL)?.map(CorrelationId::from),
        rest: fields.rest(),
    })
}

fn origin(mut fields: Fields) -> Result<PayloadOrigin, Problem> {
    Ok(PayloadOrigin {
        skill_name: fields.label("skill_name", LONGEST_LABEL)?,
        entry_skill_name: fields.label_if_any("entry_skill_name", LONGEST_LABEL)?,
        trigger_kind: fields
            .optional_word("trigger_kind", trigger, TRIGGERS)?
            .ok_or_else(|| fields.field_error("trigger_kind", "is missing"))?,
        caller_agent_id: fields.label_if_any("caller_agent_id", LONGEST_LABEL)?,
        rest: fields.rest(),
    })
}

/// The nesting depth of a value.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

const TRIGGERS: &str = "cron, event, webhook, agent, cli, dashboard, inline";

/// Accepts the words of older runtimes too.
fn trigger(word: &str) -> Option<TriggerKind> {
    serde_json::from_value(word.into()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body() -> Value {
        json!({
            "agent_id": "desk", "kind": "template", "prompt": "do it",
            "meta": {
                "dispatch_id": "conformance-test", "sent_at": 5,
                "origin": {
                    "skill_name": "probe", "trigger_kind": "session", "entry_skill_name": null, "owner": "perry",
                },
                "event_type": "status", "priority": { "of": 1 },
            },
        })
    }

    fn parsed(body: &Value) -> Result<Payload, Problem> {
        let mut fields = Fields::read(body.to_string().as_bytes()).unwrap();
        fields.label("agent_id", 100)?;
        let payload = payload(&mut fields)?;
        fields.end().map(|()| payload)
    }

    #[test]
    fn an_envelope_is_taken_as_it_came() {
        let payload = parsed(&body()).unwrap();
        assert_eq!((payload.kind, payload.text.as_str()), (PayloadKind::Template, "do it"));
        let mut expected = body()["meta"].clone();
        expected["origin"].as_object_mut().unwrap().remove("entry_skill_name");
        assert_eq!(serde_json::to_value(&payload.meta).unwrap(), expected);
    }

    #[test]
    fn an_error_in_an_envelope_names_the_field() {
        for (pointer, wrong, field) in [
            ("/kind", json!("binary"), "kind"),
            ("/kind", json!("augment"), "content"),
            ("/prompt", json!(7), "prompt"),
            ("/meta", json!("text"), "meta"),
            ("/meta/dispatch_id", json!("../x"), "meta.dispatch_id"),
            ("/meta/dispatch_id", json!(7), "meta.dispatch_id"),
            ("/meta/sent_at", json!("now"), "meta.sent_at"),
            ("/meta/sent_at", json!(null), "meta.sent_at"),
            ("/meta/origin", json!(null), "meta.origin"),
            ("/meta/origin/skill_name", json!(""), "meta.origin.skill_name"),
            ("/meta/origin/trigger_kind", json!("whim"), "meta.origin.trigger_kind"),
            ("/meta/event_type", json!({}), "meta.event_type"),
        ] {
            let mut body = body();
            *body.pointer_mut(pointer).unwrap() = wrong;
            let problem = format!("{:?}", parsed(&body).unwrap_err());
            assert!(problem.contains(&format!("`{field}` ")), "{pointer}: {problem}");
        }
    }

    #[test]
    fn a_text_of_the_other_kind_is_a_field_that_nobody_knows() {
        let mut both = body();
        both["content"] = json!("and this");
        assert_eq!(parsed(&both), Err(problem::invalid("content", "is unknown")));
    }

    #[test]
    fn a_time_is_any_number_and_an_empty_text_is_none() {
        let mut sloppy = body();
        sloppy["meta"]["sent_at"] = json!(1_794_813_039_507.5);
        sloppy["meta"]["event_type"] = json!("");
        let payload = parsed(&sloppy).unwrap();
        assert_eq!((payload.meta.sent_at, payload.meta.event_type), (1_794_813_039_507, None));
    }

    #[test]
    fn a_meta_that_could_not_be_read_again_is_refused() {
        let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        let mut deep = body();
        deep["meta"]["priority"] = nested(DEEPEST_META);
        assert!(parsed(&deep).is_ok());
        deep["meta"]["priority"] = nested(DEEPEST_META + 1);
        assert_eq!(parsed(&deep), Err(problem::invalid("meta", "is nested deeper than 32 levels")));
    }

    #[test]
    fn a_meta_that_would_not_fit_into_a_frame_is_too_long() {
        let mut large = body();
        large["meta"]["priority"] = json!("x".repeat(LARGEST_META));
        assert_eq!(parsed(&large), Err(problem::too_long("meta", LARGEST_META)));
    }
}
