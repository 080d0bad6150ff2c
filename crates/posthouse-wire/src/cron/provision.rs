//! Cron requests of agents: provision (arm), cancel, redrive and list, with their answers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{FireAt, Policy};
use crate::{JobId, ScheduleId, Secret};

/// Most entries in `then`.
const SUCCESSORS: usize = 64;

/// Arm request: call the agent at this time for this job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provision {
    pub job: JobId,
    pub fire_at: FireAt,
    /// `None` for an agent that gets its fires over the socket.
    pub callback: Option<String>,
    pub dedup: String,
    pub proof: FireProof,
    pub policy: Policy,
    /// The times after `fire_at`, as far as the agent knows them.
    pub then: Vec<FireAt>,
}

/// Method by which a fire proves that it comes from the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FireProof {
    /// A token signed by the server; the default of the contract.
    #[default]
    PortalJwt,
    /// An HMAC ([`TimedSignature`](super::TimedSignature)) with a key that the answer to the arm request contains.
    PerJobKey,
}

/// A field of a request that is missing or wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {why}")]
pub struct BadField {
    pub field: &'static str,
    pub why: String,
}

impl BadField {
    pub fn new(field: &'static str, why: impl Into<String>) -> Self {
        Self { field, why: why.into() }
    }
}

/// Body of `cancel` and `redrive`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancel {
    pub job: JobId,
}

/// Answer to an arm request.
#[derive(Clone)]
pub struct Provisioned {
    pub schedule: ScheduleId,
    /// Only if the agent asked for a per-job key. It is shown only here.
    pub cron_key: Option<Secret>,
}

impl Provisioned {
    pub fn body(&self) -> Value {
        let mut body = serde_json::json!({ "schedule_id": self.schedule });
        if let Some(key) = &self.cron_key {
            body["cron_key"] = key.expose().into();
        }
        body
    }

    /// Reads an answer; `None` if it has no schedule.
    pub fn read(body: &[u8]) -> Option<Self> {
        let fields = object(body).ok()?;
        Some(Self {
            schedule: text(&fields, "schedule_id").ok()?.into(),
            cron_key: text(&fields, "cron_key").ok().map(Secret::new),
        })
    }
}

/// One arm in the answer to `list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArmedJob {
    pub job_id: JobId,
    pub fire_at: String,
    pub schedule_id: ScheduleId,
}

/// Answer to `list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArmList {
    pub armed: Vec<ArmedJob>,
}

impl Provision {
    /// Reads a request body. Unknown fields are ignored; known fields must have the right type.
    pub fn read(body: &[u8]) -> Result<Self, BadField> {
        let fields = object(body)?;
        let job = job(&fields)?;
        let fire_at = time(text(&fields, "fire_at")?, "fire_at")?;
        let dedup = bounded(text(&fields, "dedup_key")?, "dedup_key", 512)?.to_owned();
        let by_socket = match fields.get("deliver") {
            None | Some(Value::Null) => false,
            Some(Value::String(how)) if how == "socket" => true,
            Some(Value::String(how)) if how == "callback" => false,
            Some(_) => return Err(BadField::new("deliver", "is neither `callback` nor `socket`")),
        };
        let callback = match by_socket {
            true => None,
            false => Some(text(&fields, "agent_callback_url")?.to_owned()),
        };
        Ok(Self {
            job,
            fire_at,
            callback,
            dedup,
            proof: optional(&fields, "verifier", "is neither `portal_jwt` nor `per_job_key`")?,
            policy: optional(&fields, "policy", "is not an object")?,
            then: then(&fields)?,
        })
    }

    /// Request body of an SDK agent. Extensions of the contract are written only if they are used.
    pub fn body(&self) -> Value {
        let mut body = serde_json::json!({
            "job_id": self.job,
            "fire_at": self.fire_at,
            "dedup_key": self.dedup,
        });
        match &self.callback {
            Some(url) => body["agent_callback_url"] = url.as_str().into(),
            None => body["deliver"] = "socket".into(),
        }
        if self.proof != FireProof::default() {
            body["verifier"] = serde_json::to_value(self.proof).unwrap_or_default();
        }
        if self.policy != Policy::default() {
            body["policy"] = serde_json::to_value(&self.policy).unwrap_or_default();
        }
        if !self.then.is_empty() {
            body["then"] = self.then.iter().map(FireAt::text).collect();
        }
        body
    }

    /// The dedup key of a fire, by which a repeated request is recognised.
    pub fn dedup_key(job: &JobId, fire_at: &FireAt) -> String {
        format!("{job}:{fire_at}")
    }
}

impl Cancel {
    pub fn read(body: &[u8]) -> Result<Self, BadField> {
        Ok(Self { job: job(&object(body)?)? })
    }
}

type JsonObject = serde_json::Map<String, Value>;

fn object(body: &[u8]) -> Result<JsonObject, BadField> {
    let read = serde_json::from_slice(body).ok();
    // A stock peer may write lone surrogates and other text that a strict parser rejects.
    let read = read.or_else(|| serde_json::from_str(&crate::lenient::repaired(body)?).ok());
    match read {
        Some(Value::Object(fields)) => Ok(fields),
        _ => Err(BadField::new("body", "is not a JSON object")),
    }
}

fn text<'a>(fields: &'a JsonObject, name: &'static str) -> Result<&'a str, BadField> {
    match fields.get(name) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        None | Some(Value::Null) => Err(BadField::new(name, "is missing")),
        Some(Value::String(_)) => Err(BadField::new(name, "is empty")),
        Some(_) => Err(BadField::new(name, "is not a string")),
    }
}

fn bounded<'a>(text: &'a str, name: &'static str, longest: usize) -> Result<&'a str, BadField> {
    if text.chars().count() > longest {
        return Err(BadField::new(name, format!("is longer than {longest} characters")));
    }
    if text.chars().any(char::is_control) {
        return Err(BadField::new(name, "holds a control character"));
    }
    Ok(text)
}

fn job(fields: &JsonObject) -> Result<JobId, BadField> {
    bounded(text(fields, "job_id")?, "job_id", 128).map(JobId::from)
}

fn time(text: &str, name: &'static str) -> Result<FireAt, BadField> {
    FireAt::parse(text).map_err(|why| BadField::new(name, why.to_string()))
}

fn optional<T: Default + for<'de> Deserialize<'de>>(
    fields: &JsonObject,
    name: &'static str,
    why: &'static str,
) -> Result<T, BadField> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(T::default()),
        Some(value) => T::deserialize(value).map_err(|_| BadField::new(name, why)),
    }
}

/// Reads `then`. It must be strictly ascending, because the clock goes through it in order.
fn then(fields: &JsonObject) -> Result<Vec<FireAt>, BadField> {
    let texts: Vec<String> = optional(fields, "then", "is not a list of times")?;
    if texts.len() > SUCCESSORS {
        return Err(BadField::new("then", format!("holds more than {SUCCESSORS} times")));
    }
    let times: Vec<FireAt> = texts.iter().map(|text| time(text, "then")).collect::<Result<_, _>>()?;
    if times.windows(2).any(|pair| pair[0].due_us() >= pair[1].due_us()) {
        return Err(BadField::new("then", "is not in ascending order"));
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cron::{Missed, Overlap};

    const STOCK: &str = r#"{"job_id":"ab12cd34ef56","fire_at":"2026-06-18T12:34:56.123456+00:00",
        "agent_callback_url":"https://agent.example","dedup_key":"ab12cd34ef56:2026-06-18T12:34:56.123456+00:00"}"#;

    #[test]
    fn what_stock_sends_is_read_and_what_we_send_is_no_more_than_that() {
        let provision = Provision::read(STOCK.as_bytes()).unwrap();
        assert_eq!(provision.job, "ab12cd34ef56");
        assert_eq!(provision.policy, Policy::default());
        assert_eq!(provision.dedup, Provision::dedup_key(&provision.job, &provision.fire_at));
        let stock: Value = serde_json::from_str(STOCK).unwrap();
        assert_eq!(provision.body(), stock);
    }

    #[test]
    fn the_wishes_of_an_sdk_agent_survive_the_round_trip() {
        let provision = Provision {
            callback: None,
            proof: FireProof::PerJobKey,
            policy: Policy { missed: Missed::All, window: Some(60), overlap: Overlap::Queue, jitter: 5 },
            then: vec![FireAt::parse("2026-06-18T13:00:00Z").unwrap()],
            ..Provision::read(STOCK.as_bytes()).unwrap()
        };
        assert_eq!(Provision::read(provision.body().to_string().as_bytes()), Ok(provision));
    }

    #[test]
    fn a_wrong_field_is_named() {
        for (field, value, why) in [
            ("job_id", r#""""#, "is empty"),
            ("job_id", "7", "is not a string"),
            ("job_id", "\"a\\u0000b\"", "holds a control character"),
            ("fire_at", "\"2026-06-18T12:34:56\"", "is not an ISO 8601 date and time with an offset"),
            ("agent_callback_url", "null", "is missing"),
            ("dedup_key", "[]", "is not a string"),
            ("verifier", "\"trust me\"", "is neither `portal_jwt` nor `per_job_key`"),
            ("deliver", "\"pigeon\"", "is neither `callback` nor `socket`"),
            ("then", "[\"2026-06-18T13:00:00Z\",\"2026-06-18T13:00:00Z\"]", "is not in ascending order"),
        ] {
            let mut body: JsonObject = serde_json::from_str(STOCK).unwrap();
            body.insert(field.to_owned(), serde_json::from_str(value).unwrap());
            let fault = Provision::read(Value::from(body).to_string().as_bytes()).unwrap_err();
            assert_eq!((fault.field, fault.why.as_str()), (field, why));
        }
        assert_eq!(Provision::read(b"[]").unwrap_err().field, "body");
        assert_eq!(Cancel::read(b"{}").unwrap_err().field, "job_id");
    }
}
