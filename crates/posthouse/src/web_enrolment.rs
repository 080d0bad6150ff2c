//! Web enrolment: agents created from the chat page.

use async_trait::async_trait;
use edge::web::{self, Enrol, EnrolRefused, EnrolledAgent};
use identity::{Accounts, Enrolment, NotEnrolled};
use posthouse_wire::{Platform, Secret, TenantId};

/// Creates agents for people with an owner's invitation, in the tenant of that invitation.
pub struct WebEnrolment {
    pub accounts: Accounts,
    pub url: String,
}

#[async_trait]
impl Enrol for WebEnrolment {
    async fn enrol(&self, tenant: &TenantId, name: &str) -> Result<EnrolledAgent, EnrolRefused> {
        let fault = |fault: identity::Fault| EnrolRefused::Fault(fault.into());
        let wanted = Enrolment {
            tenant: tenant.to_string(),
            name: name.to_owned(),
            built_in: vec![Platform::new(web::NAME)],
            ..Enrolment::default()
        };
        let enrolled = match self.accounts.enrol(wanted).await.map_err(fault)? {
            Ok(enrolled) => enrolled,
            Err(NotEnrolled::Taken { .. }) => return Err(EnrolRefused::Taken),
            Err(_) => return Err(EnrolRefused::Unfit),
        };
        let env = console::env(&self.url, &enrolled.gateway, &enrolled.secret, &enrolled.bots);
        Ok(EnrolledAgent {
            instance: enrolled.instance.id,
            name: enrolled.instance.name,
            env: env
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect::<Vec<(String, Secret)>>(),
        })
    }
}
