//! What an agent asks of the portal.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{FireAt, Policy};
use crate::{JobId, ScheduleId, Secret};

/// Known times after the first that one provision may carry.
const SUCCESSORS: usize = 64;

/// "Call me at this time about this job."
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provision {
    pub job: JobId,
    pub fire_at: FireAt,
    /// Absent for an agent that takes fires down its socket.
    pub callback: Option<String>,
    pub dedup: String,
    pub proof: Proof,
    pub policy: Policy,
    /// The times after `fire_at`, as far as the agent knows them.
    pub then: Vec<FireAt>,
}

/// How the agent wants a fire to prove itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// A token signed by the house, the contract's default.
    #[default]
    PortalJwt,
    /// A stamp under a key that is handed out with the arm.
    PerJobKey,
}

/// Which field of a request is missing or wrong, and how.
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

/// `cancel` and `redrive`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancel {
    pub job: JobId,
}

/// The answer to a provision.
#[derive(Clone)]
pub struct Provisioned {
    pub schedule: ScheduleId,
    /// Only for an agent that asked for a per-job key, and this is the one time it is seen.
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

    /// Nothing for an answer that names no schedule.
    pub fn read(body: &[u8]) -> Option<Self> {
        let fields = object(body).ok()?;
        Some(Self {
            schedule: text(&fields, "schedule_id").ok()?.into(),
            cron_key: text(&fields, "cron_key").ok().map(Secret::new),
        })
    }
}

/// One arm as `list` tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArmedJob {
    pub job_id: JobId,
    pub fire_at: String,
    pub schedule_id: ScheduleId,
}

/// The answer to `list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    pub armed: Vec<ArmedJob>,
}

impl Provision {
    /// Reads a request body. Unknown fields are ignored, known ones must be of their type.
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

    /// What an agent of ours sends. Whoever asks for nothing beyond the contract sends nothing beyond it.
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
        if self.proof != Proof::default() {
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

    /// The key that makes a repeat of one fire recognisable.
    pub fn dedup_key(job: &JobId, fire_at: &FireAt) -> String {
        format!("{job}:{fire_at}")
    }
}

impl Cancel {
    pub fn read(body: &[u8]) -> Result<Self, BadField> {
        Ok(Self { job: job(&object(body)?)? })
    }
}

type Fields = serde_json::Map<String, Value>;

fn object(body: &[u8]) -> Result<Fields, BadField> {
    let read = serde_json::from_slice(body).ok();
    // Lone surrogates and the like, as a stock peer may escape them.
    let read = read.or_else(|| serde_json::from_str(&crate::lenient::repaired(body)?).ok());
    match read {
        Some(Value::Object(fields)) => Ok(fields),
        _ => Err(BadField::new("body", "is not a JSON object")),
    }
}

fn text<'a>(fields: &'a Fields, name: &'static str) -> Result<&'a str, BadField> {
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

fn job(fields: &Fields) -> Result<JobId, BadField> {
    bounded(text(fields, "job_id")?, "job_id", 128).map(JobId::from)
}

fn time(text: &str, name: &'static str) -> Result<FireAt, BadField> {
    FireAt::parse(text).map_err(|why| BadField::new(name, why.to_string()))
}

fn optional<T: Default + for<'de> Deserialize<'de>>(
    fields: &Fields,
    name: &'static str,
    why: &'static str,
) -> Result<T, BadField> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(T::default()),
        Some(value) => T::deserialize(value).map_err(|_| BadField::new(name, why)),
    }
}

/// Strictly ascending, so that a list of known times is a list of times still to come.
fn then(fields: &Fields) -> Result<Vec<FireAt>, BadField> {
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
            proof: Proof::PerJobKey,
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
            let mut body: Fields = serde_json::from_str(STOCK).unwrap();
            body.insert(field.to_owned(), serde_json::from_str(value).unwrap());
            let fault = Provision::read(Value::from(body).to_string().as_bytes()).unwrap_err();
            assert_eq!((fault.field, fault.why.as_str()), (field, why));
        }
        assert_eq!(Provision::read(b"[]").unwrap_err().field, "body");
        assert_eq!(Cancel::read(b"{}").unwrap_err().field, "job_id");
    }
}
