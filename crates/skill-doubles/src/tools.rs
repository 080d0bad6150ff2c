//! Tools with fixed answers, and a model that repeats its prompt.

use std::time::Duration;

use skill::{HostFault, SkillObject, SkillValue};

use crate::hand_clock::HandClock;

/// A call that a tool got.
#[derive(Clone, Debug)]
pub struct PlayedCall {
    pub connector: String,
    pub tool: String,
    pub arguments: SkillValue,
    pub owner: Option<String>,
}

const ITEMS: &str = r#"[{"id":"a","n":1,"tag":"red"},{"id":"b","n":2},{"id":"c","n":30,"tag":null}]"#;
const ENVELOPE: &str = r#"{"items":[{"id":"x1","title":"First"},{"id":"x2","title":"Second"}],"total":2,"nested":{"deep":{"leaf":"green"}}}"#;
const IMAGE: &str = r#"{"content":[{"type":"image","data":"AA=="}]}"#;
const SOFT_FAIL: &str = r#"{"isError":true,"content":[{"type":"text","text":"tool said no"}]}"#;

/// The answer of one of the tools.
pub async fn answer(clock: &HandClock, tool: &str, arguments: SkillObject) -> Result<SkillValue, HostFault> {
    let fixed = |json: &str| SkillValue::from_json(json).map_err(|fault| HostFault::plain(fault.to_string()));
    let text = |name: &str| arguments.get(name).map(|value| value.to_js_string().into_owned());
    match tool {
        "echo" => Ok(arguments.into()),
        "echo_text" => Ok(text_content(&SkillValue::from(arguments).json())),
        "text" => Ok(text_content(&match arguments.get("value") {
            Some(SkillValue::Text(text)) => text.to_string(),
            Some(other) => other.json(),
            None => String::new(),
        })),
        "items" => fixed(ITEMS),
        "envelope" => fixed(ENVELOPE),
        "empty_text" => Ok("".into()),
        "blank_text" => Ok("  \n ".into()),
        "empty_list" => fixed("[]"),
        "nothing" => Ok(SkillValue::Null),
        "number" => Ok(42.0.into()),
        "yes" => Ok(true.into()),
        "image" => fixed(IMAGE),
        "fail" => Err(HostFault::plain(format!("mock failure: {}", text("why").unwrap_or_default()))),
        "soft_fail" => fixed(SOFT_FAIL),
        "slow" => {
            let Some(SkillValue::Number(millis)) = arguments.get("ms") else {
                return Err(HostFault::plain("slow needs ms"));
            };
            clock.sleep(Duration::from_secs_f64(millis.max(0.0) / 1000.0)).await;
            Ok("slow done".into())
        }
        "update_row" => {
            let mut answer = SkillObject::default();
            answer.set("updated", true);
            answer.set_some("row", arguments.get("row").cloned());
            Ok(answer.into())
        }
        "send_note" => fixed(r#"{"sent":true}"#),
        other => Err(HostFault::plain(format!("mock: no tool {other}"))),
    }
}

fn text_content(text: &str) -> SkillValue {
    let part: SkillObject = [("type", "text"), ("text", text)].into_iter().collect();
    let content: SkillObject = [("content", SkillValue::list([part.into()]))].into_iter().collect();
    content.into()
}

/// The answer of the model.
pub fn model_answer(arguments: &SkillObject) -> Result<SkillValue, HostFault> {
    let Some(prompt) =
        arguments.get("prompt").and_then(SkillValue::as_text).filter(|prompt| !prompt.is_empty())
    else {
        return Err(HostFault::plain("`prompt` is required"));
    };
    let mut answer = format!("LLM<{prompt}>");
    if let Some(tokens @ SkillValue::Number(_)) = arguments.get("maxTokens") {
        answer.push_str(&format!("|max={}", tokens.rendered()));
    }
    // `default` is the name under which the model is registered, so it is not passed on.
    if let Some(model) =
        arguments.get("model").and_then(SkillValue::as_text).filter(|model| *model != "default")
    {
        answer.push_str(&format!("|model={model}"));
    }
    Ok(answer.into())
}
