//! Facts for lint: the connectors, models and stored skills of the standard environment.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;
use serde_json::Value;
use skill::check::{
    CheckContext, ConnectorFacts, StoreFacts, StoredSkillFacts, ToolSchema, skills_to_look_up,
};
use skill::tree::SkillTree;

use super::CaseFault;
use super::case_options::{PROGRAMS, texts};

/// The facts that a case gives, or those of the standard environment, changed by the options of the case.
pub fn context(case: &Value, tree: &SkillTree) -> Result<CheckContext, CaseFault> {
    let options = &case["options"];
    let store = (options["lint_no_store"] != true).then(|| store(case, tree));
    if options["lint_facts"].is_object() {
        let given = CheckContext::deserialize(&options["lint_facts"]);
        return given
            .map(|given| CheckContext { store, ..given })
            .map_err(|_| CaseFault::BadOption("lint_facts"));
    }
    Ok(CheckContext {
        store,
        connectors: Some(connectors(options)),
        has_agent_connectors: Some(
            options["agents"] != "none" && options["agents"] != Value::Array(Vec::new()),
        ),
        models: Some(["default", "tiny"].map(str::to_owned).into()),
        capabilities: Some(BTreeSet::from(["local_model.supports_max_tokens".to_owned()])),
        shell_programs: (options["lint_shell"] != false).then(|| shell_programs(options)).flatten(),
        allows_unsafe_shell: options["lint_unsafe"].as_bool(),
        ..CheckContext::default()
    })
}

fn store(case: &Value, tree: &SkillTree) -> StoreFacts {
    let wanted = skills_to_look_up(tree);
    let stored = case["stored_skills"].as_object().into_iter().flatten();
    let facts = stored.filter(|(name, _)| wanted.contains(*name)).map(|(name, body)| {
        let body = body.as_str().unwrap_or_default();
        let header = SkillTree::parse(body).header;
        let facts = StoredSkillFacts {
            status: header.status,
            returns: header.returns,
            is_same_text: body == tree.source(),
        };
        (name.clone(), facts)
    });
    let same_name = case["options"]["same_name"].as_u64().and_then(|count| usize::try_from(count).ok());
    StoreFacts { skills: facts.collect::<HashMap<_, _>>(), same_name: same_name.unwrap_or(1) }
}

fn connectors(options: &Value) -> BTreeMap<String, ConnectorFacts> {
    if options["connectors"] == "none" {
        return BTreeMap::new();
    }
    let declares = |tools: &[&str]| ConnectorFacts {
        declared_tools: Some(tools.iter().map(|tool| (*tool).to_owned()).collect()),
        ..ConnectorFacts::default()
    };
    let schema = ToolSchema {
        arguments: Some(vec!["a".to_owned(), "b".to_owned()]),
        required: vec!["a".to_owned()],
        is_open: false,
    };
    let allowed_tools = texts(&options["allowed_tools"], "allowed_tools").ok().flatten();
    let tools = ConnectorFacts { allowed_tools, ..ConnectorFacts::default() };
    let typed = ConnectorFacts { schemas: [("echo".to_owned(), schema)].into(), ..ConnectorFacts::default() };
    let mut connectors = vec![
        ("tools", tools),
        ("typed", typed),
        ("fixed", declares(&["echo", "text"])),
        ("llm", declares(&["prompt"])),
        ("skill_read", declares(&["skill_read", "skill_write"])),
        ("skill_write", declares(&["skill_read", "skill_write"])),
    ];
    connectors.extend(["echo", "items", "text", "fail"].map(|name| (name, ConnectorFacts::default())));
    if !options["data"].is_null() {
        connectors.extend(["data_read", "data_write"].map(|name| (name, declares(&["query", "data_write"]))));
    }
    connectors.into_iter().map(|(name, facts)| (name.to_owned(), facts)).collect()
}

fn shell_programs(options: &Value) -> Option<BTreeSet<String>> {
    match &options["shell_allowlist"] {
        Value::Null => Some(PROGRAMS.iter().map(|program| (*program).to_owned()).collect()),
        listed => texts(listed, "shell_allowlist").ok().flatten().map(|names| names.into_iter().collect()),
    }
}
