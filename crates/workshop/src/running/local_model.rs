//! Language models for `$ llm`: an Ollama server, or any server with an OpenAI-compatible API.

use std::fmt::{self, Formatter};
use std::sync::Arc;
use std::time::Duration;

use errand::{Errand, Fault, OutgoingCall};
use http::HeaderValue;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use posthouse_wire::Secret;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use skill::{ErrorClass, HostFault, RunMemory};

use super::tool_clients::AnswerMemory;

/// Where Ollama listens if nothing else is configured.
const OLLAMA: &str = "http://127.0.0.1:11434";
const LARGEST_ANSWER: usize = 20 * 1024 * 1024;
const FAILED: &str = "ModelError";

/// A model that skills can ask. It may hold a key, so it cannot be printed.
pub struct LocalModel {
    errand: Errand,
    tenant: Option<Arc<str>>,
    api: ModelApi,
    base_url: String,
    default_model: String,
    key: Option<Secret>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModelApi {
    Ollama,
    OpenAi,
}

impl LocalModel {
    /// Reads the slot `local_model` of `connectors.json`.
    pub fn read(
        slot: &Map<String, Value>,
        variable: &dyn Fn(&str) -> Option<String>,
        errand: Errand,
        tenant: Option<Arc<str>>,
    ) -> Result<Self, String> {
        let config = slot.get("config").and_then(Value::as_object).cloned().unwrap_or_default();
        let text = |name: &str| config.get(name).and_then(Value::as_str).map(str::to_owned);
        let (api, base_url) = match slot.get("type").and_then(Value::as_str) {
            Some("ollama") => {
                let base = text("baseUrl").or_else(|| variable("OLLAMA_BASE_URL"));
                (ModelApi::Ollama, base.unwrap_or_else(|| OLLAMA.to_owned()))
            }
            Some("openai") => (ModelApi::OpenAi, text("baseUrl").ok_or("`baseUrl` is missing")?),
            _ => return Err("this type of model is not built in; use ollama or openai".to_owned()),
        };
        errand.check_base(&base_url).map_err(|refusal| format!("`baseUrl`: {refusal}"))?;
        Ok(Self {
            errand,
            tenant,
            api,
            base_url: base_url.trim_end_matches('/').to_owned(),
            default_model: text("defaultModelTag").ok_or("`defaultModelTag` is missing")?,
            key: text("apiKey").map(Secret::new),
        })
    }

    pub fn default_model(&self) -> &str {
        &self.default_model
    }

    /// Asks the model for one answer. The whole answer must arrive within the time and size limits. It counts in `memory`
    /// as it arrives.
    pub async fn generate(
        &self,
        prompt: &str,
        model: Option<&str>,
        max_tokens: Option<u64>,
        timeout: Duration,
        memory: Option<Arc<dyn RunMemory>>,
    ) -> Result<String, HostFault> {
        let model = model.unwrap_or(&self.default_model);
        let (path, body) = match self.api {
            ModelApi::Ollama => {
                let mut body = json!({ "model": model, "prompt": prompt, "stream": false });
                if let Some(most) = max_tokens {
                    body["options"] = json!({ "num_predict": most });
                }
                ("/api/generate", body)
            }
            ModelApi::OpenAi => {
                let messages = json!([{ "role": "user", "content": prompt }]);
                let mut body = json!({ "model": model, "messages": messages, "stream": false });
                if let Some(most) = max_tokens {
                    body["max_tokens"] = most.into();
                }
                ("/chat/completions", body)
            }
        };
        let mut call = OutgoingCall::post(format!("{}{path}", self.base_url), body.to_string())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .timeout(timeout)
            .max_answer(LARGEST_ANSWER);
        call.tenant.clone_from(&self.tenant);
        if let Some(key) = &self.key {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose()))
                .map_err(|_| failed("the key of the model cannot be sent"))?;
            value.set_sensitive(true);
            call = call.header(AUTHORIZATION, value);
        }
        let no_answer = |fault| match fault {
            Fault::TimedOut => failed("the model did not answer in time"),
            fault => failed(format!("the model did not answer: {fault}")),
        };
        let mut response = self.errand.open(call).await.map_err(no_answer)?;
        if !response.status().is_success() {
            return Err(failed(format!("the model answered with status {}", response.status())));
        }
        let (mut body, mut memory) = (Vec::new(), AnswerMemory::new(memory));
        while let Some(piece) = response.piece().await.map_err(no_answer)? {
            if body.len() + piece.len() > LARGEST_ANSWER {
                return Err(failed("the answer of the model did not end within its limits of time and size"));
            }
            body.extend_from_slice(&piece);
            // What arrives, and the text in it.
            memory.hold(2 * body.len())?;
        }
        let answer: ModelAnswer = serde_json::from_slice(&body)
            .map_err(|_| failed("the model answered with something that is not an answer of its API"))?;
        let text = match self.api {
            ModelApi::Ollama => answer.response.text(),
            ModelApi::OpenAi => answer.choices.0.message.content.text(),
        };
        text.ok_or_else(|| failed("the answer of the model has no text"))
    }
}

/// The parts of an answer that are used. All others are skipped, because values take many times the memory of their text.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ModelAnswer {
    response: AnswerText,
    choices: FirstChoice,
}

/// The first item of a list. The others are skipped.
#[derive(Default)]
struct FirstChoice(ModelChoice);

#[derive(Default, Deserialize)]
#[serde(default)]
struct ModelChoice {
    message: ModelMessage,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ModelMessage {
    content: AnswerText,
}

/// A text, or any other value, which counts as none.
#[derive(Default)]
struct AnswerText(Option<Box<RawValue>>);

impl AnswerText {
    fn text(self) -> Option<String> {
        serde_json::from_str(self.0?.get()).ok()
    }
}

impl<'de> Deserialize<'de> for AnswerText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(from).map(|text| Self(Some(text)))
    }
}

impl<'de> Deserialize<'de> for FirstChoice {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Items;

        impl<'de> Visitor<'de> for Items {
            type Value = FirstChoice;

            fn expecting(&self, out: &mut Formatter<'_>) -> fmt::Result {
                out.write_str("a list of choices")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<FirstChoice, A::Error> {
                let first = items.next_element()?.unwrap_or_default();
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(FirstChoice(first))
            }
        }

        from.deserialize_seq(Items)
    }
}

fn failed(message: impl Into<String>) -> HostFault {
    HostFault::new(ErrorClass::Other(FAILED.into()), message)
}
