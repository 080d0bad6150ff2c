//! Run settings and resources of all tenants. Resources are built at the first run and kept while the settings stay.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use errand::Errand;
use ledger::TenantFileThreads;
use moka::sync::Cache;
use posthouse_time::Timepiece;
use posthouse_wire::{Secret, TenantId};
use regex::Regex;
use serde_json::Value;
use vault::{NewSecret, SkillSecrets};

use super::commands::{CLEAN_PATH, Commands};
use super::connectors_file::ConnectorsFile;
use super::file_access::FileAccess;
use super::local_model::LocalModel;
use super::run_resources::RunResources;
use super::run_secrets::RunSecrets;
use super::run_settings::RunSettings;
use super::tool_clients::{ToolClientParts, ToolClients};
use crate::config::Config;
use crate::fault::Fault;

/// Tenants whose tools stay connected.
const TENANTS: u64 = 1000;
/// Tools that are not used for this long are disconnected.
const IDLE: Duration = Duration::from_secs(600);
/// Largest run settings, as JSON.
const SETTINGS_BYTES: usize = 256 * 1024;

/// Stands for every secret while settings are checked. It can be a URL and a header.
const PLACEHOLDER: &str = "https://unset.invalid";

/// Run settings, secrets and resources of all tenants.
pub struct TenantResources {
    config: Config,
    secrets: SkillSecrets,
    errand: Errand,
    timepiece: Timepiece,
    files: TenantFileThreads,
    built: Cache<TenantId, Arc<BuiltResources>>,
}

struct BuiltResources {
    /// Of the settings and of the secrets that they name.
    fingerprint: Vec<u8>,
    tenant: Arc<TenantRunSetup>,
}

/// What the runs of a tenant use now.
pub struct TenantRunSetup {
    pub settings: RunSettings,
    pub resources: Arc<RunResources>,
}

/// Why run settings were not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunSettingsRefusal {
    Invalid(String),
    NoTenant,
}

impl TenantResources {
    pub fn new(config: Config, secrets: SkillSecrets, errand: Errand, timepiece: Timepiece) -> Self {
        let built = Cache::builder().max_capacity(TENANTS).time_to_idle(IDLE).build();
        Self { config, secrets, errand, timepiece, files: TenantFileThreads::default(), built }
    }

    /// Bytes that all running skills may hold: of one tenant, and of the server.
    pub(super) fn memory(&self) -> (usize, usize) {
        (self.config.tenant_run_memory_bytes, self.config.run_memory_bytes)
    }

    /// The names of the secrets of a tenant, in order.
    pub async fn secret_names(&self, tenant: &TenantId) -> Result<Vec<String>, Fault> {
        Ok(self.secrets.names(tenant).await?)
    }

    /// Stores a secret and replaces the earlier one of this name. The next call of a skill uses it.
    pub async fn set_secret(
        &self,
        tenant: &TenantId,
        name: &str,
        value: &Secret,
    ) -> Result<NewSecret, Fault> {
        Ok(self.secrets.set(tenant, name, value).await?)
    }

    /// False if there is no such secret.
    pub async fn remove_secret(&self, tenant: &TenantId, name: &str) -> Result<bool, Fault> {
        Ok(self.secrets.remove(tenant, name).await?)
    }

    /// The stored settings of a tenant, as far as they are allowed now.
    pub async fn settings(&self, tenant: &TenantId) -> Result<RunSettings, Fault> {
        let stored = self.secrets.run_settings(tenant).await?;
        Ok(read(stored.as_ref()).allowed_by(&self.config))
    }

    /// Replaces the settings of a tenant. The next run uses them.
    pub async fn change_settings(
        &self,
        tenant: &TenantId,
        settings: &RunSettings,
    ) -> Result<Result<(), RunSettingsRefusal>, Fault> {
        if let Err(why) = settings.check(&self.config) {
            return Ok(Err(RunSettingsRefusal::Invalid(why)));
        }
        let text = serde_json::to_string(settings).unwrap_or_default();
        if text.len() > SETTINGS_BYTES {
            let why = format!("the settings are larger than {SETTINGS_BYTES} bytes");
            return Ok(Err(RunSettingsRefusal::Invalid(why)));
        }
        // Names that no secret has are reported at the first run, because the secret can be stored later.
        let mut read = ConnectorsFile::of(&settings.connectors, &|_| Some(PLACEHOLDER.to_owned()));
        let mut errors = std::mem::take(&mut read.errors);
        errors.extend(self.clients(tenant, settings, read).1);
        if let Some(why) = errors.into_iter().next() {
            return Ok(Err(RunSettingsRefusal::Invalid(why)));
        }
        Ok(match self.secrets.set_run_settings(tenant, &Secret::new(text)).await? {
            NewSecret::Stored => Ok(()),
            _ => Err(RunSettingsRefusal::NoTenant),
        })
    }

    /// Settings and resources of a tenant. Tools stay connected until the settings or their secrets change.
    pub async fn of(&self, tenant: &TenantId) -> Result<Arc<TenantRunSetup>, Fault> {
        let stored = self.secrets.run_settings(tenant).await?;
        let settings = read(stored.as_ref()).allowed_by(&self.config);
        let variables = self.variables(tenant, &settings).await?;
        let fingerprint = fingerprint(stored.as_ref(), &variables);
        if let Some(built) = self.built.get(tenant).filter(|built| built.fingerprint == fingerprint) {
            return Ok(Arc::clone(&built.tenant));
        }
        let resources = Arc::new(self.build(tenant, &settings, &variables));
        let setup = Arc::new(TenantRunSetup { settings, resources });
        let built = BuiltResources { fingerprint, tenant: Arc::clone(&setup) };
        self.built.insert(tenant.clone(), Arc::new(built));
        Ok(setup)
    }

    fn build(
        &self,
        tenant: &TenantId,
        settings: &RunSettings,
        variables: &HashMap<String, Secret>,
    ) -> RunResources {
        let variable = |name: &str| variables.get(name).map(|value| value.expose().to_owned());
        let mut file = ConnectorsFile::of(&settings.connectors, &variable);
        let mut errors = std::mem::take(&mut file.errors);
        let model = file.slot("local_model").map(|slot| {
            LocalModel::read(slot, &variable, self.errand.clone(), Some(tenant.as_str().into()))
                .map_err(|why| format!("connectors.json: substrate.local_model: {why}"))
        });
        let model = model.and_then(|model| model.map_err(|error| errors.push(error)).ok());
        let (tools, unusable) = self.clients(tenant, settings, file);
        errors.extend(unusable);
        for error in &errors {
            tracing::warn!(%tenant, %error, "a connector of skills cannot be used");
        }
        RunResources {
            tools,
            model,
            commands: Commands::clean(self.timepiece.clone()),
            files: FileAccess::new(settings.file_roots.clone(), PathBuf::from("/")).on(self.files.of(tenant)),
            secrets: RunSecrets::Sealed { secrets: self.secrets.clone(), tenant: tenant.clone() },
            errors,
            timepiece: self.timepiece.clone(),
        }
    }

    fn clients(
        &self,
        tenant: &TenantId,
        settings: &RunSettings,
        file: ConnectorsFile,
    ) -> (ToolClients, Vec<String>) {
        let environment: Vec<(OsString, OsString)> = vec![("PATH".into(), CLEAN_PATH.into())];
        let parts = ToolClientParts {
            errand: self.errand.clone(),
            tenant: Some(tenant.as_str().into()),
            child_environment: settings.child_processes.then_some(environment),
            timepiece: self.timepiece.clone(),
        };
        ToolClients::new(file.connectors, &parts)
    }

    /// The secrets that the connectors name as `${NAME}`. The environment of the server is never used.
    async fn variables(
        &self,
        tenant: &TenantId,
        settings: &RunSettings,
    ) -> Result<HashMap<String, Secret>, Fault> {
        let mut variables = HashMap::new();
        if settings.connectors.is_empty() {
            return Ok(variables);
        }
        let text = Value::Object(settings.connectors.clone()).to_string();
        let Ok(pattern) = Regex::new(r"\$\{([A-Z_][A-Z0-9_]*)\}") else { return Ok(variables) };
        for found in pattern.captures_iter(&text) {
            let name = &found[1];
            if !variables.contains_key(name)
                && let Some(value) = self.secrets.open(tenant, name).await?
            {
                variables.insert(name.to_owned(), value);
            }
        }
        Ok(variables)
    }
}

/// Stored settings. Those of a later version that cannot be read allow nothing.
fn read(stored: Option<&Secret>) -> RunSettings {
    let Some(stored) = stored else { return RunSettings::default() };
    serde_json::from_str(stored.expose()).unwrap_or_else(|_| {
        tracing::error!("stored run settings cannot be read; the defaults are used");
        RunSettings::default()
    })
}

fn fingerprint(stored: Option<&Secret>, variables: &HashMap<String, Secret>) -> Vec<u8> {
    let mut texts: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    texts.sort_unstable();
    texts.push(("", stored.map_or("", Secret::expose)));
    let mut hashed = zeroize::Zeroizing::new(Vec::new());
    for (name, value) in texts {
        for text in [name, value] {
            hashed.extend_from_slice(&(text.len() as u64).to_be_bytes());
            hashed.extend_from_slice(text.as_bytes());
        }
    }
    digest(&SHA256, &hashed).as_ref().to_vec()
}
