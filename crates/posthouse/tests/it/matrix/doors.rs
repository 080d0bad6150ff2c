//! HTTP operations in the permission matrix: a request about an object that exists and about one that does not, sent
//! by every caller who may not have it.
//!
//! A table is a file of this folder with a function `row`. An operation without a row fails the test. To add one, say
//! in `row` what the request names, how it is written, and who sends it without permission:
//!
//! ```text
//! ("POST", "/relay/example") => asks([
//!     Probe::new(&things.name, |name| DoorRequest::to("/relay/example").json(&json!({ "name": name })))
//!         .refused_to(&strangers, |heard| heard.status == 401),
//! ]),
//! ```

use http_kit::Operation;
use serde_json::Value;

use super::actors::{Actors, Owner, RecordedResponse};
use super::{Cells, Name};

/// Somebody who sends a request, by the headers that show who it is.
#[derive(Clone)]
pub struct WrongCaller {
    pub who: String,
    pub headers: Vec<(&'static str, String)>,
}

impl WrongCaller {
    pub fn new(who: &str, headers: &[(&'static str, &str)]) -> Self {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Self { who: who.to_owned(), headers }
    }

    pub fn bearer(who: &str, token: &str) -> Self {
        Self::new(who, &[("authorization", &format!("Bearer {token}"))])
    }
}

impl From<&Owner> for WrongCaller {
    fn from(owner: &Owner) -> Self {
        let authorization = owner.authorization.iter().map(|value| ("authorization", value.clone()));
        let label = owner.label.iter().map(|label| ("x-agent-id", (*label).to_owned()));
        Self { who: owner.who.to_owned(), headers: authorization.chain(label).collect() }
    }
}

/// These owners as callers.
pub fn callers<'o>(owners: impl IntoIterator<Item = &'o Owner>) -> Vec<WrongCaller> {
    owners.into_iter().map(WrongCaller::from).collect()
}

/// A request without the headers of its caller.
#[derive(Default)]
pub struct DoorRequest {
    pub path: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Option<String>,
}

impl DoorRequest {
    pub fn to(path: &str) -> Self {
        Self { path: path.to_owned(), ..Self::default() }
    }

    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub fn json(self, body: &Value) -> Self {
        Self { body: Some(body.to_string()), ..self.with("content-type", "application/json") }
    }

    pub fn form(self, fields: &[(&str, &str)]) -> Self {
        let mut form = reqwest::Url::parse("http://form/").unwrap();
        form.query_pairs_mut().extend_pairs(fields);
        let body = form.query().unwrap().to_owned();
        Self { body: Some(body), ..self.with("content-type", "application/x-www-form-urlencoded") }
    }
}

/// Whether a response gives its caller nothing of what it asked for.
type Refusal = fn(&RecordedResponse) -> bool;

/// One way in which an operation names an object, and everybody who asks for it without permission.
pub struct Probe {
    name: Name,
    request: Box<dyn Fn(&str) -> DoorRequest>,
    wrong: Vec<(Vec<WrongCaller>, Refusal)>,
    owner: Option<WrongCaller>,
    varying: Vec<&'static str>,
}

impl Probe {
    pub fn new(name: &Name, request: impl Fn(&str) -> DoorRequest + 'static) -> Self {
        let (name, request) = (name.clone(), Box::new(request));
        Self { name, request, wrong: Vec::new(), owner: None, varying: Vec::new() }
    }

    /// These callers get this response, and the same one if the object does not exist.
    pub fn refused_to(mut self, callers: &[WrongCaller], refusal: Refusal) -> Self {
        self.wrong.push((callers.to_vec(), refusal));
        self
    }

    /// The owner gets a response that differs from the one about an absent object; otherwise the refusals would prove
    /// nothing. Only for requests that change nothing.
    pub fn exists_for(self, owner: &WrongCaller) -> Self {
        Self { owner: Some(owner.clone()), ..self }
    }

    /// A member of the JSON response that is new in every response, such as an id that was just made.
    pub fn varying(mut self, member: &'static str) -> Self {
        self.varying.push(member);
        self
    }

    async fn asked(&self, actors: &Actors, by: &WrongCaller, method: &str) -> [RecordedResponse; 2] {
        let mut heard = Vec::new();
        for is_there in [true, false] {
            let request = (self.request)(self.name.form(is_there));
            heard.push(actors.sends(by, method, &request).await);
        }
        heard.try_into().unwrap()
    }

    /// The whole response, without the name that was asked for and without what varies.
    fn comparable(&self, is_there: bool, heard: &RecordedResponse) -> String {
        let mut whole = heard.whole();
        for member in &self.varying {
            let json: Value = serde_json::from_str(&heard.body).unwrap_or_default();
            match &json[member] {
                Value::String(value) => whole = whole.replace(value, "(new)"),
                Value::Number(value) => whole = whole.replace(&value.to_string(), "(new)"),
                _ => {}
            }
        }
        self.name.without(is_there, &whole)
    }

    async fn fill(&self, actors: &Actors, cells: &mut Cells, table: &'static str, operation: &Operation) {
        let Operation { method, path, .. } = operation;
        if let Some(owner) = &self.owner {
            let [there, absent] = self.asked(actors, owner, method).await;
            let (there, absent) = (self.comparable(true, &there), self.comparable(false, &absent));
            assert_ne!(there, absent, "{method} {path}: {} gets the same for both", owner.who);
        }
        for (callers, refusal) in &self.wrong {
            assert!(!callers.is_empty(), "{method} {path}: nobody asks");
            for by in callers {
                let [there, absent] = self.asked(actors, by, method).await;
                let what = format!("{method} {path} about {} by {}", self.name.there, by.who);
                let refused = refusal(&there) && refusal(&absent);
                let (there, absent) = (self.comparable(true, &there), self.comparable(false, &absent));
                cells.cell(table, &what, refused, &there, &absent);
            }
        }
    }
}

/// The row of an operation.
pub enum DoorRow {
    Probes(Vec<Probe>),
    /// Everybody may read it, and it names nothing that has an owner.
    Public,
}

pub fn asks(probes: impl Into<Vec<Probe>>) -> Option<DoorRow> {
    Some(DoorRow::Probes(probes.into()))
}

/// Tries every operation of a list. `table` is the name of the file that has the rows.
pub async fn fill(
    actors: &Actors,
    cells: &mut Cells,
    table: &'static str,
    operations: &[Operation],
    row: impl Fn(&'static str, &'static str) -> Option<DoorRow>,
) {
    for operation in operations {
        let Operation { method, path, credential } = operation;
        match row(method, path) {
            Some(DoorRow::Probes(probes)) => {
                assert!(!probes.is_empty(), "{method} {path}: its row in matrix/{table}.rs asks for nothing");
                for probe in probes {
                    probe.fill(actors, cells, table, operation).await;
                }
            }
            Some(DoorRow::Public) => {
                assert!(!credential, "{method} {path} requires a credential, so it is not public");
            }
            None => panic!(
                "{method} {path} has no row in the permission matrix. Add the arm `(\"{method}\", \"{path}\") =>` to \
                 `row` in crates/posthouse/tests/it/matrix/{table}.rs: what the request names (a `Name` that exists \
                 and one that does not), how it is written (`DoorRequest`), and what the wrong callers get \
                 (`refused_to`). The header of matrix/doors.rs has an example."
            ),
        }
    }
}
