//! Admin API: invitations to the chat page, one link per person.

use axum::Json;
use axum::extract::{Path, State};
use edge::web::{self, NewInvitation, PersonName};
use http_kit::Page;
use ledger::Invitation;
use posthouse_wire::{InstanceId, InvitationId};
use serde::{Deserialize, Serialize};

use crate::audit::{CreatedResponse, made};
use crate::extract::JsonBody;
use crate::problem::AdminProblem;
use crate::routes::{ChatPageParts, Console, Parts};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewInvite {
    person: String,
    tenant: String,
    /// Names or ids of agents of that tenant; none means every agent.
    #[serde(default)]
    agents: Vec<String>,
    /// May create agents on the page.
    #[serde(default)]
    owner: bool,
}

#[derive(Serialize)]
pub(crate) struct Link {
    id: InvitationId,
    person: String,
    /// Signs in the first browser that opens it; shown once.
    url: String,
}

#[derive(Serialize)]
pub(crate) struct ShownInvite {
    id: InvitationId,
    person: String,
    tenant: String,
    /// Null means every agent of the tenant.
    agents: Option<Vec<InstanceId>>,
    owner: bool,
    created_at: String,
}

#[derive(Serialize)]
pub(crate) struct RemovedInvite {
    id: InvitationId,
    person: String,
}

impl Parts {
    fn chat_page(&self) -> Result<&ChatPageParts, AdminProblem> {
        let off = || {
            AdminProblem::conflict("page_off", "the chat page is switched off: set platforms.web.page = true")
        };
        self.chat_page.as_ref().ok_or_else(off)
    }

    /// Finds an invitation by id, or by a person's name if only one invitation has it.
    async fn invitation(&self, name_or_id: &str) -> Result<Invitation, AdminProblem> {
        let absent =
            || AdminProblem::absent("no_such_invite", format!("there is no invitation `{name_or_id}`"));
        let mut all = self.chat_page()?.invitations.invitations().await?;
        if let Some(found) = all.iter().position(|invitation| invitation.id == name_or_id) {
            return Ok(all.swap_remove(found));
        }
        all.retain(|invitation| invitation.person == name_or_id);
        if all.len() > 1 {
            let detail = format!("several invitations are for `{name_or_id}`: use the id from the list");
            return Err(AdminProblem::conflict("ambiguous", detail));
        }
        all.pop().ok_or_else(absent)
    }

    fn link(&self, invitation: InvitationId, person: String, secret: &posthouse_wire::Secret) -> Link {
        Link { id: invitation, person, url: web::link(&self.public_url, secret) }
    }
}

pub(crate) async fn list(State(console): State<Console>) -> Result<Json<Page<ShownInvite>>, AdminProblem> {
    let invitations = console.chat_page()?.invitations.invitations().await?;
    let (names, _) = console.tenant_names(None).await?;
    let shown = invitations.into_iter().map(|invitation| ShownInvite {
        tenant: names.get(&invitation.tenant).cloned().unwrap_or_default(),
        id: invitation.id,
        person: invitation.person,
        agents: invitation.agents,
        owner: invitation.owner,
        created_at: invitation.created.to_string(),
    });
    Ok(Json(Page::all(shown.collect())))
}

pub(crate) async fn create(
    State(console): State<Console>,
    JsonBody(new): JsonBody<NewInvite>,
) -> Result<CreatedResponse<Link>, AdminProblem> {
    let chat_page = console.chat_page()?;
    let Some(person) = PersonName::read(&new.person) else {
        let detail = "a person's name is 1 to 64 characters, none of them a control character";
        return Err(AdminProblem::unfit("bad_name", detail));
    };
    if new.owner && !new.agents.is_empty() {
        let detail = "an owner's invitation is for every agent of the tenant: leave `agents` out";
        return Err(AdminProblem::unfit("bad_invite", detail));
    }
    let tenant = console.tenant(&new.tenant).await?;
    let mut agents = Vec::with_capacity(new.agents.len());
    for agent in &new.agents {
        agents.push(console.agent(agent, Some(&new.tenant)).await?.1.id);
    }
    let agents = (!agents.is_empty()).then_some(agents);
    let name = person.as_str().to_owned();
    let wanted = NewInvitation { tenant: tenant.id, agents, person, owner: new.owner };
    let (id, secret) = chat_page.web.invite(wanted).await?;
    let about = format!("{id} for {name} in {}{}", tenant.name, if new.owner { ", as owner" } else { "" });
    Ok(made(about, console.link(id, name, &secret)))
}

/// A new link for an invitation, for another device or a lost cookie.
pub(crate) async fn renew(
    State(console): State<Console>,
    Path(invite): Path<String>,
) -> Result<CreatedResponse<Link>, AdminProblem> {
    let found = console.invitation(&invite).await?;
    let Some(secret) = console.chat_page()?.web.renew_link(&found.id).await? else {
        return Err(AdminProblem::absent("no_such_invite", format!("there is no invitation `{invite}`")));
    };
    let about = format!("{} for {}", found.id, found.person);
    Ok(made(about, console.link(found.id, found.person, &secret)))
}

/// Removes the invitation and ends every stream that is open with it.
pub(crate) async fn remove(
    State(console): State<Console>,
    Path(invite): Path<String>,
) -> Result<Json<RemovedInvite>, AdminProblem> {
    let Invitation { id, person, .. } = console.invitation(&invite).await?;
    console.chat_page()?.web.withdraw(&id).await?;
    Ok(Json(RemovedInvite { id, person }))
}
