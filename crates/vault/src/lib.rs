//! Sealed secrets: the only code that can decrypt one.
//!
//! Values are encrypted with AES-256-GCM under a key that is stored outside the database. Each value is bound to
//! its owner and name, and the key's id is stored beside it. Each plane gets only what it needs:
//! - `edge` gets the [`Vault`];
//! - `identity` gets a [`Keyring`], which checks credentials and never reveals them;
//! - the clock gets a [`Signer`], which signs and never reveals its keys;
//! - the post gets [`WebhookSigner`], which make the headers for the body of one webhook;
//! - the workshop gets [`SkillSecrets`]: values that operators store for the skills of one tenant, and nothing else.

mod capability;
mod credential;
mod enrolment;
mod fault;
mod keyring;
mod seal;
mod signer;
mod skill_secrets;
mod tokens;
mod webhook_signer;

use std::sync::Arc;

use ledger::{ServerFacts, Tokens, VaultRecords};
use posthouse_time::Timepiece;

pub use capability::{BotUse, CapturedCapability, Granted, Redemption};
pub use credential::Credentials;
pub use fault::Fault;
pub use keyring::{CredentialCheck, GatewayOwner, Keyring};
pub use ledger::{ClientRecord, EndedCredentials, LoginRecord, Owner, WhichCredentials};
pub use seal::{MasterKeys, random_hex};
pub use signer::{Algorithm, Jwks, SchedulerSecretStatus, Signer, SigningKeyStatus};
pub use skill_secrets::{NewSecret, SkillSecrets};
pub use tokens::{AccessGrant, BOOTSTRAP_CLIENT, ClientOwner, HttpDraft, Login, Refreshed, SHORTEST_ACCESS};
pub use webhook_signer::{SecretPresence, StoreAuthentication, WebhookSigner};

/// The whole vault: credentials of bots and captured capabilities.
#[derive(Clone)]
pub struct Vault {
    records: Arc<dyn VaultRecords>,
    tokens: Arc<dyn Tokens>,
    keys: Arc<MasterKeys>,
    timepiece: Timepiece,
}

/// Name of the ledger fact that proves which key this ledger was sealed with.
const PROOF: &str = "vault.proof";

impl Vault {
    /// Opens the vault. A key that does not fit the sealed values is refused here, not at the first message.
    pub async fn unlock(
        keys: MasterKeys,
        records: Arc<dyn VaultRecords>,
        tokens: Arc<dyn Tokens>,
        facts: &dyn ServerFacts,
        timepiece: Timepiece,
    ) -> Result<Self, Fault> {
        let proof = facts.fact(PROOF).await?;
        let proved = proof.map(|proof| keys.check_proof(&proof)).transpose()?;
        let vault = Self { records, tokens, keys: Arc::new(keys), timepiece };
        vault.reseal().await?;
        // The proof comes last, and also when nothing was resealed: from here on the operator may remove older keys.
        if proved.as_deref() != Some(vault.keys.current_id()) {
            facts.set_fact(PROOF, &vault.keys.proof()?).await?;
        }
        Ok(vault)
    }

    /// The part for `identity`: it can issue, check and revoke the credentials that agents present.
    pub fn keyring(&self) -> Keyring {
        Keyring {
            records: Arc::clone(&self.records),
            tokens: Arc::clone(&self.tokens),
            access: tokens::ACCESS,
            keys: Arc::clone(&self.keys),
            timepiece: self.timepiece.clone(),
        }
    }

    /// Reseals every value that is still under an older key, after a key rotation.
    async fn reseal(&self) -> Result<(), Fault> {
        loop {
            let others = self.records.sealed_under_other_keys(self.keys.current_id(), 100).await?;
            if others.is_empty() {
                return Ok(());
            }
            for (place, old) in others {
                let context = place.rsplit_once('#').map_or(place.as_str(), |(context, _)| context);
                let new = self.keys.seal(context, &self.keys.open(context, &old)?)?;
                self.records.reseal(&place, &old, new).await?;
            }
        }
    }
}
