//! Who may use the web chat from elsewhere: one link, one person.

use axum::Json;
use axum::extract::{Path, State};
use edge::web::Person;
use serde::{Deserialize, Serialize};

use crate::audit::{Made, made};
use crate::listing::Items;
use crate::problem::Problem;
use crate::routes::{Console, Guests, Parts};
use crate::told::Told;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewInvite {
    person: String,
}

#[derive(Serialize)]
pub(crate) struct Link {
    person: String,
    /// Lets whoever holds it in; handed out once.
    url: String,
}

#[derive(Serialize)]
pub(crate) struct ShownInvite {
    person: String,
    created_at: String,
}

#[derive(Serialize)]
pub(crate) struct Withdrawn {
    person: String,
}

impl Parts {
    fn guests(&self) -> Result<&Guests, Problem> {
        let off = || Problem::conflict("web_chat_off", "the web chat is switched off: platforms.web.enabled");
        self.guests.as_ref().ok_or_else(off)
    }
}

pub(crate) async fn list(State(console): State<Console>) -> Result<Json<Items<ShownInvite>>, Problem> {
    let invites = console.guests()?.rooms.invites().await?;
    let shown = invites
        .into_iter()
        .map(|invite| ShownInvite { person: invite.person, created_at: invite.created.to_string() });
    Ok(Json(Items::all(shown.collect())))
}

pub(crate) async fn create(
    State(console): State<Console>,
    Told(new): Told<NewInvite>,
) -> Result<Made<Link>, Problem> {
    let guests = console.guests()?;
    let Some(person) = Person::read(&new.person) else {
        let detail = "a person's name is 1 to 64 characters, none of them a control character";
        return Err(Problem::unfit("bad_name", detail));
    };
    let token = guests.web.invite(&person).await?;
    let url = format!("{}/chat?invite={}", console.public_url, token.expose());
    let person = person.as_str().to_owned();
    Ok(made(person.clone(), Link { person, url }))
}

pub(crate) async fn remove(
    State(console): State<Console>,
    Path(person): Path<String>,
) -> Result<Json<Withdrawn>, Problem> {
    match console.guests()?.rooms.withdraw_invite(&person).await? {
        true => Ok(Json(Withdrawn { person })),
        false => Err(Problem::absent("no_such_invite", format!("`{person}` was not invited"))),
    }
}
