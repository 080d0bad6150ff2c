//! Resources that the runs of one tenant share: tools, model, commands, files, secrets.

use std::path::PathBuf;

use posthouse_time::Timepiece;
use skill::check::CheckContext;

use super::commands::Commands;
use super::file_access::FileAccess;
use super::local_model::LocalModel;
use super::run_secrets::RunSecrets;
use super::tool_clients::ToolClients;

/// Tools, model and permissions of one tenant. Runs share it, so that connections stay open between them.
pub struct RunResources {
    pub tools: ToolClients,
    pub model: Option<LocalModel>,
    pub commands: Commands,
    pub files: FileAccess,
    pub secrets: RunSecrets,
    /// Entries of the configuration that could not be used.
    pub errors: Vec<String>,
    pub timepiece: Timepiece,
}

impl RunResources {
    /// Without tools, model, files and secrets. Commands get a clean environment; the policy of a run allows none.
    pub fn none(timepiece: Timepiece) -> Self {
        Self {
            tools: ToolClients::default(),
            model: None,
            commands: Commands::clean(timepiece.clone()),
            files: FileAccess::new(Vec::new(), PathBuf::from("/")),
            secrets: RunSecrets::Given(Default::default()),
            errors: Vec::new(),
            timepiece,
        }
    }

    /// Adds what lint may know about tools and models.
    pub async fn describe(&self, mut context: CheckContext, bridges: &[&str]) -> CheckContext {
        let mut connectors: std::collections::BTreeMap<_, _> =
            bridges.iter().map(|name| ((*name).to_owned(), Default::default())).collect();
        connectors.extend(self.tools.facts(&self.timepiece).await);
        context.connectors = Some(connectors);
        context.models = self.model.as_ref().map(|model| [model.default_model().to_owned()].into());
        let unknown = self.errors.iter().filter(|error| error.contains("unknown connector class"));
        context.unknown_connector_classes = unknown.cloned().collect();
        context
    }
}
