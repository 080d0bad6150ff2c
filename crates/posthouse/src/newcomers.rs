//! Agents made from the chat page.

use async_trait::async_trait;
use edge::web::{self, Enrol, Newcomer, Turned};
use posthouse_wire::{Platform, Secret};
use relay::{Enrolment, NotEnrolled, Relay};

use crate::up::TENANT;

/// Makes agents for whoever sits at this machine, all of one tenant.
pub struct Newcomers {
    pub relay: Relay,
    pub url: String,
}

#[async_trait]
impl Enrol for Newcomers {
    async fn enrol(&self, name: &str) -> Result<Newcomer, Turned> {
        let fault = |fault: relay::Fault| Turned::Fault(fault.into());
        // Made the first time somebody asks; there already is as good.
        if self.relay.create_tenant(TENANT).await.map_err(fault)?.is_err() {
            return Err(Turned::Unfit);
        }
        let wanted = Enrolment {
            tenant: TENANT.to_owned(),
            name: name.to_owned(),
            built_in: vec![Platform::new(web::NAME)],
            ..Enrolment::default()
        };
        let enrolled = match self.relay.enrol(wanted).await.map_err(fault)? {
            Ok(enrolled) => enrolled,
            Err(NotEnrolled::Taken { .. }) => return Err(Turned::Taken),
            Err(_) => return Err(Turned::Unfit),
        };
        let env = console::env(&self.url, &enrolled.gateway, &enrolled.secret, &enrolled.bots);
        Ok(Newcomer {
            instance: enrolled.instance.id,
            name: enrolled.instance.name,
            env: env
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect::<Vec<(String, Secret)>>(),
        })
    }
}
