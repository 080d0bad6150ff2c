//! The built-in web chat: platform `web`, where the house itself plays the platform.
//!
//! A room is one person's conversation with one agent. What is said is written down before anybody is
//! shown it, so a page that reloads finds exactly what it saw. Nothing comes in at `/door/web`: people
//! speak through the page's own routes, which know who they are talking to (`auth`).

mod auth;
mod carry;
mod enrol;
mod hub;
mod page;
mod person;
mod problem;
mod routes;
mod stream;

use std::sync::Arc;

use async_trait::async_trait;
use http::StatusCode;
use ledger::{Identity, Invite, Room, Rooms};
use posthouse_time::Timepiece;
use posthouse_wire::descriptor::LenUnit;
use posthouse_wire::{Action, ChatId, Descriptor, InstanceId, Secret};
use relay::{Carried, Order};
use tokio_util::sync::CancellationToken;

use crate::Fault;
use crate::bots::Bot;
use crate::intake::Intake;
use crate::platform::{Courtesy, Met, Need, Platform, Raw, Reading, Refusal, Settled, Trouble, Verified};

pub use enrol::{Enrol, Newcomer, Turned};
pub use person::Person;
pub use routes::{Chat, routes};

use hub::Hub;

/// The platform's name on the wire.
pub const NAME: &str = "web";

/// The longest message, in Unicode scalar values, either way.
pub const LIMIT: usize = 32_000;

/// The house as a chat platform.
pub struct Web {
    rooms: Arc<dyn Rooms>,
    timepiece: Timepiece,
    hub: Hub,
}

impl Web {
    pub fn new(rooms: Arc<dyn Rooms>, timepiece: Timepiece) -> Self {
        Self { rooms, timepiece, hub: Hub::default() }
    }

    /// Lets one person in from outside. The token is for the link `…/chat?invite=TOKEN` and cannot be
    /// had again; an earlier link of the same person stops working.
    pub async fn invite(&self, person: &Person) -> Result<Secret, Fault> {
        let token = vault::random_hex(32)?;
        let invite = Invite {
            hash: auth::fingerprint(token.expose()),
            person: person.as_str().to_owned(),
            created: self.timepiece.now(),
        };
        self.rooms.invite(invite).await?;
        Ok(token)
    }

    /// Finds the room of this person with this agent, or opens it.
    async fn enter(&self, instance: InstanceId, person: &Person) -> Result<Room, Fault> {
        let id = ChatId::from(format!("web-{}", vault::random_hex(16)?.expose()));
        let created = self.timepiece.now();
        Ok(self.rooms.enter(Room { id, instance, person: person.as_str().to_owned(), created }).await?)
    }
}

/// The web bot of an agent: every agent has one, and it is called like the agent.
fn identity(of: &InstanceId) -> Identity {
    Identity { platform: NAME.into(), bot: of.as_str().into() }
}

#[async_trait]
impl Platform for Web {
    fn name(&self) -> &'static str {
        NAME
    }

    fn descriptor(&self, _bot: &Bot) -> Descriptor {
        Descriptor {
            max_message_length: u32::try_from(LIMIT).expect("the limit is small"),
            supports_edit: true,
            markdown_dialect: "markdown".to_owned(),
            len_unit: LenUnit::Chars,
            emoji: "💬".to_owned(),
            supported_ops: Action::OPS.map(str::to_owned).to_vec(),
            ..Descriptor::new(NAME, "Web chat")
        }
    }

    fn needs(&self) -> &'static [Need] {
        &[]
    }

    async fn meet(&self, _draft: &Bot) -> Result<Met, Trouble> {
        Err(Trouble("every agent has its own place in the web chat from the start".to_owned()))
    }

    fn verify(&self, _bot: &Bot, _raw: Raw) -> Result<Verified, Refusal> {
        Err(no_door())
    }

    fn normalize(&self, _bot: &Bot, _verified: Verified) -> Result<Reading, Refusal> {
        Err(no_door())
    }

    async fn be_courteous(&self, _bot: &Bot, _courtesy: Courtesy) {}

    async fn carry(&self, _bot: &Bot, order: Order) -> Carried {
        self.carry_out(order).await
    }

    async fn settle_in(&self, _bot: &Bot, _door: Option<&str>) -> Result<Settled, Trouble> {
        Ok(Settled::Called)
    }

    async fn fetch(&self, _bot: Arc<Bot>, _intake: Intake, _stop: CancellationToken) {}
}

/// Nobody outside delivers for this platform, so its door looks like one that is not there.
fn no_door() -> Refusal {
    Refusal { reason: "no_door", status: StatusCode::NOT_FOUND }
}
