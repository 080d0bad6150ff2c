//! Custom stores: Rust types that a custom build of the server registers under a name.
//!
//! `posthouse tenant change T --skill-store custom:NAME` then uses the type for a tenant. A skill store implements
//! [`SkillBackend`] and gets the rules of all skill stores from the server. A data store implements [`DataStore`].

use std::collections::HashMap;
use std::sync::Arc;

use posthouse_time::Timepiece;
use posthouse_wire::TenantId;

use crate::backend::{BackendStore, SkillBackend};
use crate::data_stores::DataStore;
use crate::tenant_stores::PolicyStore;

type SkillOpener = Arc<dyn Fn(&TenantId, Timepiece) -> Arc<dyn PolicyStore> + Send + Sync>;
type DataOpener = Arc<dyn Fn(&TenantId) -> Arc<dyn DataStore> + Send + Sync>;

/// The types of stores that a build adds. Empty by default.
#[derive(Clone, Default)]
pub struct CustomStores {
    skills: HashMap<String, SkillOpener>,
    data: HashMap<String, DataOpener>,
}

impl CustomStores {
    /// Adds a skill store. `open` is called once for each tenant that uses it.
    #[must_use]
    pub fn with_skills<B: SkillBackend>(
        mut self,
        name: &str,
        open: impl Fn(&TenantId) -> B + Send + Sync + 'static,
    ) -> Self {
        let opener = move |tenant: &TenantId, timepiece| -> Arc<dyn PolicyStore> {
            Arc::new(BackendStore::new(open(tenant), timepiece))
        };
        self.skills.insert(name.to_owned(), Arc::new(opener));
        self
    }

    /// Adds a data store. `open` is called once for each tenant that uses it.
    #[must_use]
    pub fn with_data<D: DataStore + 'static>(
        mut self,
        name: &str,
        open: impl Fn(&TenantId) -> D + Send + Sync + 'static,
    ) -> Self {
        let opener = move |tenant: &TenantId| -> Arc<dyn DataStore> { Arc::new(open(tenant)) };
        self.data.insert(name.to_owned(), Arc::new(opener));
        self
    }

    pub(crate) fn skills(&self, name: &str) -> Result<&SkillOpener, String> {
        self.skills.get(name).ok_or_else(|| unknown(name))
    }

    pub(crate) fn data(&self, name: &str) -> Result<&DataOpener, String> {
        self.data.get(name).ok_or_else(|| unknown(name))
    }
}

fn unknown(name: &str) -> String {
    format!("this build of the server has no such store `{name}`")
}
