//! Local host: what a skill reaches when it runs on this machine without a server, and one run on it.
//!
//! - Nothing is opened that the run does not use: the data file at the first data tool, a tool server at its first call.
//! - The limits are those of the environment and of `.env`, as the reference runtime reads them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use errand::{Cidr, Errand};
use posthouse_time::Timepiece;
use skill::check::{CheckContext, Finding, Severity, check};
use skill::tree::SkillTree;
use skill::{
    ApprovalVerdict, ErrorClass, PreparedSkill, RunContext, RunPolicy, RunTrigger, SkillHost, SkillObject,
    SkillOutcome, TraceMode, TracedRun, run_skill, store_facts,
};
use workshop::{
    ApprovalPolicy, Commands, ConnectorsFile, DataBridge, FileAccess, LocalModel, OpenedSqlite, RefusedName,
    RunHost, RunRefusal, RunResources, RunSecrets, RunSkills, SkillStore, SqliteDataStore, SqliteSkillStore,
    ToolClientParts, ToolClients,
};

use super::{HomeEnvironment, SkillHome};
use crate::cli::skill::given_skill::GivenSkill;

/// Where the tool connectors and the model of a run come from.
pub enum ConnectorSource {
    /// There are none.
    Nowhere,
    /// `connectors.json` of the home, if it exists.
    Home,
    /// This file.
    File(PathBuf),
}

/// What runs on this machine share.
pub struct LocalHost {
    resources: Arc<RunResources>,
    store: Arc<dyn SkillStore>,
    data: Option<DataBridge>,
    approval: ApprovalPolicy,
    policy: RunPolicy,
}

/// How a skill is to run.
pub struct LocalOrder {
    pub inputs: SkillObject,
    pub is_mechanical: bool,
    /// Whether a text that is not stored needs an approval to run at all. Otherwise it runs without effects in secured
    /// mode.
    pub gates_files: bool,
    pub trace: TraceMode,
}

/// What became of a run.
pub enum LocalEnd {
    /// The skill did not run, or broke off.
    Refused(RunRefusal),
    LintErrors(Vec<Finding>),
    Ended {
        tree: Arc<SkillTree>,
        outcome: Box<SkillOutcome>,
        trace: Option<NewTrace>,
    },
}

/// The record of a run, for a trace file.
pub struct NewTrace {
    pub id: String,
    pub skill: String,
    /// The record as JSON.
    pub record: String,
}

impl LocalHost {
    pub async fn open(home: &SkillHome, connectors: ConnectorSource) -> anyhow::Result<Self> {
        let timepiece = Timepiece::wall();
        let environment = &home.environment;
        let variable = |name: &str| environment.text(name).map(str::to_owned);
        let mut file = read_connectors(home, connectors, &variable)?;
        let mut errors = std::mem::take(&mut file.errors);
        let errand = Errand::new(everywhere());
        let model = file.slot("local_model").map(|slot| {
            LocalModel::read(slot, &variable, errand.clone(), None)
                .map_err(|why| errors.push(format!("connectors.json: substrate.local_model: {why}")))
        });
        let approval = home.policy()?;
        let (store, data) = (open_store(home, &file, &timepiece).await?, open_data(home, &file, &timepiece));
        let parts = ToolClientParts {
            errand,
            tenant: None,
            child_environment: Some(environment.for_children()),
            timepiece: timepiece.clone(),
        };
        let (tools, unusable) = ToolClients::new(file.connectors, &parts);
        errors.extend(unusable);
        for error in &errors {
            eprintln!("posthouse: {error}");
        }
        let roots = environment.list("SKILLSCRIPT_FS_ALLOWLIST").unwrap_or_default();
        let folder = std::env::current_dir().context("the working directory cannot be used")?;
        let roots = roots.into_iter().map(|root| folder.join(root)).collect();
        let resources = RunResources {
            tools,
            model: model.and_then(Result::ok),
            commands: Commands::new(environment.for_children(), None, timepiece.clone()),
            files: FileAccess::new(roots, folder),
            secrets: RunSecrets::Given(environment.secrets()),
            errors,
            timepiece,
        };
        let policy = run_policy(environment, home.is_secured());
        Ok(Self { resources: Arc::new(resources), store, data, approval, policy })
    }

    /// A stored skill, or none.
    pub async fn find(&self, name: &str) -> anyhow::Result<Option<String>> {
        let found = self.skills().find(name, None).await;
        let found =
            found.map_err(|fault| anyhow::anyhow!("cannot read the skill {name}: {}", fault.message))?;
        Ok(found.map(|found| found.source))
    }

    fn skills(&self) -> RunSkills {
        RunSkills::in_store(Arc::clone(&self.store), self.approval.clone())
    }

    /// Runs a skill to its end. If the future is dropped, its commands are killed with their children.
    pub async fn run(&self, skill: &GivenSkill, order: &LocalOrder) -> LocalEnd {
        let host = RunHost::new(Arc::clone(&self.resources), self.skills(), self.data.clone(), None);
        let tree = Arc::new(SkillTree::parse(&skill.source));
        let refused = |class: &ErrorClass, message: String| {
            let name = match skill.is_stored {
                true => RefusedName::Known(skill.label.clone()),
                false => RefusedName::Absent,
            };
            LocalEnd::Refused(RunRefusal::new(class, message, name))
        };
        let verdict = host.skills().verdict(&skill.source);
        let has_authority = matches!(verdict, ApprovalVerdict::Approved { .. });
        if let (true, true, ApprovalVerdict::Refused(why)) =
            (self.policy.is_secured, skill.is_stored || order.gates_files, &verdict)
        {
            return refused(&ErrorClass::ApprovalRejected, format!("'{}' refused: {why}", skill.label));
        }
        let findings = self.lint(&host, &tree).await;
        if !findings.is_empty() {
            return LocalEnd::LintErrors(findings);
        }
        let prepared = match PreparedSkill::new(&host, tree, &order.inputs).await {
            Ok(prepared) => prepared,
            Err(error) => return refused(&error.class, error.message),
        };
        let name = prepared.tree.header.name.clone().unwrap_or_else(|| "(anonymous)".to_owned());
        let fired_at_ms = host.unix_millis();
        let trigger = RunTrigger { source: "inline".into(), name: "".into(), fired_at_ms, trigger_id: None };
        let context = RunContext {
            policy: Arc::new(self.policy.clone()),
            is_mechanical: order.is_mechanical,
            has_authority,
            is_traced: order.trace.includes("inline:", &name),
            ..RunContext::default()
        };
        match run_skill(&host, &prepared, &context).await {
            Ok(outcome) => {
                let trace = context.is_traced.then(|| new_trace(&host, name, trigger, &outcome));
                LocalEnd::Ended { tree: prepared.tree, outcome: Box::new(outcome), trace }
            }
            Err(error) => refused(&error.class, error.message),
        }
    }

    /// Mistakes that keep a skill from running, among them calls of tools that are not there.
    async fn lint(&self, host: &RunHost, tree: &SkillTree) -> Vec<Finding> {
        let mut connectors: std::collections::BTreeMap<String, skill::check::ConnectorFacts> =
            host.bridges().into_iter().map(|name| (name.to_owned(), Default::default())).collect();
        for (name, _, allowed) in self.resources.tools.list() {
            connectors.entry(name.to_owned()).or_default().allowed_tools = allowed.map(<[String]>::to_vec);
        }
        let unknown = self.resources.errors.iter().filter(|error| error.contains("unknown connector class"));
        let context = CheckContext {
            store: Some(store_facts(host, tree).await),
            connectors: Some(connectors),
            unknown_connector_classes: unknown.cloned().collect(),
            is_read_only: true,
            ..CheckContext::default()
        };
        let findings = check(tree, &context).into_iter();
        findings.filter(|finding| finding.severity == Severity::Error).collect()
    }
}

fn new_trace(host: &RunHost, skill: String, trigger: RunTrigger, outcome: &SkillOutcome) -> NewTrace {
    let id = host.dispatch_id();
    let traced = TracedRun {
        trace_id: id.as_str().into(),
        skill_name: skill.as_str().into(),
        skill_version: "unknown".into(),
        trigger,
        owner: None,
        completed_at_ms: host.unix_millis(),
    };
    NewTrace { id, skill, record: traced.record(outcome).json() }
}

/// A user's own machine may call every address, as the user may.
fn everywhere() -> errand::Config {
    let all = ["0.0.0.0/0", "::/0"].map(|all| all.parse::<Cidr>().expect("the ranges are constant"));
    errand::Config { allow_cidrs: all.to_vec(), allow_http: true, ..errand::Config::default() }
}

fn read_connectors(
    home: &SkillHome,
    connectors: ConnectorSource,
    variable: &dyn Fn(&str) -> Option<String>,
) -> anyhow::Result<ConnectorsFile> {
    let (file, must_exist) = match connectors {
        ConnectorSource::Nowhere => return Ok(ConnectorsFile::default()),
        ConnectorSource::Home => (home.folder().join("connectors.json"), false),
        ConnectorSource::File(file) => (file, true),
    };
    match std::fs::read_to_string(&file) {
        Ok(text) => Ok(ConnectorsFile::read(&text, variable)),
        Err(error) if !must_exist && error.kind() == std::io::ErrorKind::NotFound => {
            Ok(ConnectorsFile::default())
        }
        Err(error) => bail!("cannot read {}: {error}", file.display()),
    }
}

/// The file that a slot of `connectors.json` names, or the usual one.
fn database_file(file: &ConnectorsFile, slot: &str, usual: &Path) -> PathBuf {
    let named = file.slot(slot).and_then(|slot| slot.get("config")?.get("dbPath")?.as_str());
    named.map_or_else(|| usual.to_owned(), PathBuf::from)
}

async fn open_store(
    home: &SkillHome,
    file: &ConnectorsFile,
    timepiece: &Timepiece,
) -> anyhow::Result<Arc<dyn SkillStore>> {
    let kind = file.slot("skill_store").and_then(|slot| slot.get("type")?.as_str());
    match kind {
        Some("sqlite") => {
            let path = database_file(file, "skill_store", &home.skills().join("skills.db"));
            let opened = SqliteSkillStore::open(path.clone(), Arc::default(), timepiece.clone()).await;
            match opened.with_context(|| format!("cannot open {}", path.display()))? {
                OpenedSqlite::Opened(store) => Ok(Arc::new(store.under(home.policy()?))),
                OpenedSqlite::OtherShape(why) => bail!("{} is no store of skills: {why}", path.display()),
            }
        }
        Some("custom") => {
            bail!("the skill store of connectors.json is a JavaScript module; it cannot be used here")
        }
        _ => Ok(Arc::new(home.store()?)),
    }
}

/// The data of the home, if the folder of the file exists. The file is opened by the first data tool.
fn open_data(home: &SkillHome, file: &ConnectorsFile, timepiece: &Timepiece) -> Option<DataBridge> {
    let path = database_file(file, "data_store", &home.folder().join("data.db"));
    let has_folder = path.parent().is_some_and(Path::is_dir);
    has_folder.then(|| {
        DataBridge::new(Arc::new(SqliteDataStore::at_first_use(path, Arc::default(), timepiece.clone())))
    })
}

fn run_policy(environment: &HomeEnvironment, is_secured: bool) -> RunPolicy {
    let usual = RunPolicy::default();
    let timeout = environment.number("SKILLSCRIPT_ABSOLUTE_TIMEOUT_MS").map(Duration::from_millis);
    let depth = environment.number("SKILLSCRIPT_MAX_RECURSION_DEPTH");
    RunPolicy {
        default_timeout: timeout.unwrap_or(usual.default_timeout),
        max_duration: environment.number("SKILLSCRIPT_MAX_DEADLINE_SECONDS").map(Duration::from_secs),
        max_depth: depth.and_then(|depth| usize::try_from(depth).ok()).unwrap_or(usual.max_depth),
        shell_programs: environment.list("SKILLSCRIPT_SHELL_ALLOWLIST"),
        allows_unsafe_shell: environment.is_on("SKILLSCRIPT_ENABLE_UNSAFE_SHELL"),
        is_secured,
        ..usual
    }
}
