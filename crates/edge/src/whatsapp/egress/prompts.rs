//! Prompts on WhatsApp: up to three buttons, or a list of up to ten rows.

use posthouse_wire::action::PromptOption;
use posthouse_wire::{ChatId, MessageId, Outcome, PromptId, PromptToken};
use serde_json::{Value, json};

use super::calls::WhatsAppCalls;
use super::text_content;
use crate::split::{Unit, measure, split};

const MOST_BUTTONS: usize = 3;
const LONGEST_BUTTON: usize = 20;
const MOST_ROWS: usize = 10;
const LONGEST_ROW: usize = 24;
const LONGEST_DESCRIPTION: usize = 72;
/// The longest text above buttons.
const LONGEST_QUESTION: usize = 1024;
/// The button that opens a list.
const OPEN_LIST: &str = "Choose";

/// The part of the message with the options. `None` if there are too many, or if a payload does not fit.
fn choices(prompt: &PromptId, options: &[PromptOption]) -> Option<(&'static str, Value)> {
    let payload =
        |option: &PromptOption| PromptToken { prompt: prompt.clone(), option: option.id.clone() }.encode();
    let payloads: Vec<String> = options.iter().map(payload).collect::<Option<_>>()?;
    let labels: Vec<&str> = options.iter().map(|option| option.label.trim()).collect();
    let fits = |label: &&str| !label.is_empty() && label.chars().count() <= LONGEST_BUTTON;
    let are_different = labels.iter().enumerate().all(|(at, label)| !labels[..at].contains(label));
    if (1..=MOST_BUTTONS).contains(&labels.len()) && labels.iter().all(fits) && are_different {
        let buttons = labels.iter().zip(&payloads);
        let buttons: Vec<Value> = buttons
            .map(|(label, id)| json!({ "type": "reply", "reply": { "id": id, "title": label } }))
            .collect();
        return Some(("button", json!({ "buttons": buttons })));
    }
    if !(1..=MOST_ROWS).contains(&labels.len()) {
        return None;
    }
    let row = |(number, (label, id)): (usize, (&&str, &String))| {
        let title: String = match label.is_empty() {
            true => (number + 1).to_string(),
            false => label.chars().take(LONGEST_ROW).collect(),
        };
        let mut row = json!({ "id": id, "title": title });
        if label.chars().count() > LONGEST_ROW {
            let whole: String = label.chars().take(LONGEST_DESCRIPTION).collect();
            row["description"] = whole.into();
        }
        row
    };
    let rows: Vec<Value> = labels.iter().zip(&payloads).enumerate().map(row).collect();
    Some(("list", json!({ "button": OPEN_LIST, "sections": [{ "title": OPEN_LIST, "rows": rows }] })))
}

impl WhatsAppCalls<'_> {
    /// Sends the question. The buttons are below its last message, which the outcome names.
    pub(super) async fn prompt(
        &mut self,
        chat: &ChatId,
        (prompt, options): (&PromptId, &[PromptOption]),
        content: &str,
        reply_to: Option<&MessageId>,
    ) -> Outcome {
        let Some((kind, action)) = choices(prompt, options) else {
            return Outcome::failed(
                "malformed prompt: WhatsApp shows at most 10 options, each with a short id",
            );
        };
        let mut texts = self.chunks(content).await;
        let Some(mut question) = texts.pop() else { return Outcome::failed("message text is empty") };
        if measure(&question, Unit::Chars) > LONGEST_QUESTION {
            texts.extend(split(&question, LONGEST_QUESTION, Unit::Chars));
            question = texts.pop().unwrap_or_default();
        }
        let mut contents: Vec<Value> = texts.iter().map(|text| text_content(text)).collect();
        let interactive = json!({ "type": kind, "body": { "text": question }, "action": action });
        contents.push(json!({ "type": "interactive", "interactive": interactive }));
        self.send_all(chat, contents, reply_to).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(labels: &[&str]) -> Vec<PromptOption> {
        let made = labels.iter().enumerate();
        made.map(|(at, label)| PromptOption {
            id: format!("o{at}").as_str().into(),
            label: (*label).to_owned(),
            style: None,
        })
        .collect()
    }

    #[test]
    fn few_short_options_are_buttons_and_others_a_list() {
        let kind = |labels: &[&str]| choices(&"p1".into(), &options(labels)).map(|(kind, _)| kind);
        assert_eq!(kind(&["Yes", "No"]), Some("button"));
        assert_eq!(kind(&["Yes", "Yes"]), Some("list"), "WhatsApp refuses equal buttons");
        assert_eq!(kind(&["Yes", "a label of more than twenty letters"]), Some("list"));
        assert_eq!(kind(&["1", "2", "3", "4"]), Some("list"));
        assert_eq!(kind(&["x"; 10]), Some("list"));
        assert_eq!(kind(&["x"; 11]), None);
        assert_eq!(kind(&[]), None);
    }

    #[test]
    fn a_long_label_is_whole_in_the_description_of_its_row() {
        let label = "a label of more than twenty-four letters";
        let (_, action) = choices(&"p1".into(), &options(&[label])).unwrap();
        let row = &action["sections"][0]["rows"][0];
        assert_eq!(row["title"].as_str().unwrap().chars().count(), 24);
        assert_eq!((&row["description"], &row["id"]), (&json!(label), &json!("hp1:p1:o0")));
    }
}
