//! Secrets of runs: values for `{{secret.NAME}}`.

use std::collections::HashMap;

use posthouse_wire::{Secret, TenantId};
use skill::{ErrorClass, HostFault, SecretText};
use vault::SkillSecrets;

/// Where a run finds its secrets.
pub enum RunSecrets {
    /// Values that the command line read from its environment.
    Given(HashMap<String, Secret>),
    /// Sealed values of one tenant.
    Sealed { secrets: SkillSecrets, tenant: TenantId },
}

impl RunSecrets {
    /// The value of a secret. An empty one counts as missing.
    pub async fn read(&self, name: &str) -> Result<SecretText, HostFault> {
        let value = match self {
            Self::Given(values) => values.get(name).map(|value| value.expose().to_owned()),
            Self::Sealed { secrets, tenant } => {
                let opened = secrets.open(tenant, name).await.map_err(|fault| {
                    tracing::error!(%fault, "a secret of a skill cannot be read");
                    missing(name)
                })?;
                opened.map(|value| value.expose().to_owned())
            }
        };
        value.filter(|value| !value.is_empty()).map(SecretText::new).ok_or_else(|| missing(name))
    }
}

fn missing(name: &str) -> HostFault {
    HostFault::new(ErrorClass::SecretNotProvisioned, format!("the secret '{name}' has no value"))
}
