//! Secrets: the only code that can open a sealed value.
//!
//! Values are sealed with AES-256-GCM under a key that lies outside the database, bound to the place
//! they belong to, with the key's id beside the blob. Only `edge` is handed the [`Vault`]; the relay
//! gets a [`Keyring`], which answers whether a credential is good and never what it is, the clock a
//! [`Signer`], which signs and never shows what with, and the post its [`Stamps`], which make the headers of
//! one webhook's bytes.

mod bearer;
mod capability;
mod credential;
mod fault;
mod keyring;
mod seal;
mod signer;
mod stamps;
mod tokens;

use std::sync::Arc;

use ledger::{House, Tokens, VaultRecords};
use posthouse_time::Timepiece;

use bearer::Bearers;

pub use bearer::Bearer;
pub use capability::{Captured, Granted, Redemption};
pub use credential::Credentials;
pub use fault::Fault;
pub use keyring::{Holder, Keyring, Standing};
pub use ledger::{ClientRecord, LoginRecord, Owner};
pub use seal::{Keys, random_hex};
pub use signer::{Algorithm, Jwks, KeyStanding, SchedulerStanding, Signer};
pub use stamps::{Held, Stamps};
pub use tokens::{AccessGrant, BOOTSTRAP_CLIENT, Client, Login, Refreshed, SHORTEST_ACCESS};

/// The whole vault: bots' credentials and captured capabilities.
#[derive(Clone)]
pub struct Vault {
    records: Arc<dyn VaultRecords>,
    tokens: Arc<dyn Tokens>,
    bearers: Bearers,
    keys: Arc<Keys>,
    timepiece: Timepiece,
}

/// The name of the fact that proves which key this ledger was sealed with.
const PROOF: &str = "vault.proof";

impl Vault {
    /// Opens the vault. A key that cannot open what was sealed here before is refused now, not at the
    /// first message.
    pub async fn unlock(
        keys: Keys,
        records: Arc<dyn VaultRecords>,
        tokens: Arc<dyn Tokens>,
        house: &dyn House,
        timepiece: Timepiece,
    ) -> Result<Self, Fault> {
        let proof = house.fact(PROOF).await?;
        let proved = proof.map(|proof| keys.check_proof(&proof)).transpose()?;
        let vault = Self { records, tokens, bearers: Bearers::new(), keys: Arc::new(keys), timepiece };
        vault.reseal().await?;
        // Last, and even if nothing was sealed anew: from here on the older keys may go.
        if proved.as_deref() != Some(vault.keys.current_id()) {
            house.set_fact(PROOF, &vault.keys.proof()?).await?;
        }
        Ok(vault)
    }

    /// What the relay may hold: secrets that agents present can be issued, checked and revoked.
    pub fn keyring(&self) -> Keyring {
        Keyring {
            records: Arc::clone(&self.records),
            tokens: Arc::clone(&self.tokens),
            bearers: self.bearers.clone(),
            access: tokens::ACCESS,
            keys: Arc::clone(&self.keys),
            timepiece: self.timepiece.clone(),
        }
    }

    /// Brings everything under the current key after a rotation.
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
