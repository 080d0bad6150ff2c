//! The tool `runtime_capabilities`: the stores and connectors of a tenant, in the shape of the reference runtime.

use post::Caller;
use serde_json::{Map, Value, json};

use super::data_tools;
use super::skill_tools;
use super::tool_failure::ToolFailure;
use super::tool_list::{ToolList, ToolSurface};
use super::toolbox::Toolbox;
use crate::running::{ConnectorClass, LocalModel, TenantRunSetup};

const CONTRACT: &str = "1.0.0";
const BRIDGED: [(&str, &str); 4] = [
    ("data_read", "DataStoreMcpConnector"),
    ("data_write", "DataStoreMcpConnector"),
    ("skill_read", "SkillStoreMcpConnector"),
    ("skill_write", "SkillStoreMcpConnector"),
];

/// The capabilities, or only the parts that `include` names. `tool` adds the input schema of one tool.
pub async fn show(
    tools: &Toolbox,
    by: &Caller,
    arguments: &Map<String, Value>,
) -> Result<Value, ToolFailure> {
    let mut shown = all(tools, by).await?;
    if let Some(Value::Array(included)) = arguments.get("include") {
        shown.retain(|part, _| included.iter().any(|name| name == part.as_str()));
    }
    if let Some(tool) = arguments.get("tool").and_then(Value::as_str) {
        let schema = ToolList::of(ToolSurface::Rpc).input_schema(tool).cloned().unwrap_or_default();
        shown.insert("toolSchema".to_owned(), schema);
    }
    Ok(Value::Object(shown))
}

async fn all(tools: &Toolbox, by: &Caller) -> Result<Map<String, Value>, ToolFailure> {
    let skills = skill_tools::answered(tools.workshop.skills().describe(by).await)?;
    let bridge = data_tools::answered(tools.data.bridge(&by.tenant).await)?;
    let data = data_tools::answered(bridge.store().manifest().await)?;
    let settings = tools.workshop.approval_keys().settings(&by.tenant).await;
    let (settings, keys) = settings.map_err(|fault| ToolFailure::fault(&fault))?;
    let connectors = tools.post.directory().connectors(&by.tenant).await;
    let connectors: Vec<Value> = connectors
        .map_err(|fault| ToolFailure::fault(&fault))?
        .into_iter()
        .map(|(name, capabilities)| {
            let mut shown = json!(capabilities);
            shown["name"] = name.into();
            shown
        })
        .collect();
    let bridged = BRIDGED.map(|(name, implementation)| {
        let (kind, wraps) = match implementation {
            "DataStoreMcpConnector" => ("data-store-bridge", &data.manifest),
            _ => ("skill-store-bridge", &skills.manifest.manifest),
        };
        json!({
            "name": name,
            "implementation": implementation,
            "contract_version": CONTRACT,
            "connector_type": "mcp_connector",
            "features": {
                "supports_identity_propagation": false,
                "supports_streaming_responses": false,
                "supports_batch": false,
            },
            "manifest": { "capabilities_version": "1", "manifest": { "kind": kind, "wraps": wraps } },
            "allowed_tools": null,
        })
    });
    let setup = tools.runner.resources().of(&by.tenant).await.map_err(|fault| ToolFailure::fault(&fault))?;
    let bridged = bridged.into_iter().chain(configured(&setup)).collect::<Vec<Value>>();
    let models: Vec<Value> = setup.resources.model.iter().map(model).collect();
    let shown = json!({
        "runtimeVersion": env!("CARGO_PKG_VERSION"),
        "runtimeMode": "posthouse",
        "triggersFilePath": null,
        "supervisor": null,
        "skillStores": [{
            "name": "primary",
            "implementation": skills.implementation,
            "contract_version": CONTRACT,
            "connector_type": "skill_store",
            "features": skills.features,
            "manifest": skills.manifest,
        }],
        "dataStores": [{
            "name": "primary",
            "implementation": bridge.store().implementation(),
            "contract_version": CONTRACT,
            "connector_type": "data_store",
            "features": bridge.store().features(),
            "manifest": data,
        }],
        "localModels": models,
        "mcpConnectors": bridged,
        "mcpConnectorClasses": [
            "DataStoreMcpConnector",
            "SkillStoreMcpConnector",
            ConnectorClass::Http.word(),
            ConnectorClass::Stdio.word(),
        ],
        "agentConnectors": connectors,
        "securedApproval": {
            "enabled": settings.signed,
            "public_key_present": keys.iter().any(|key| key.revoked.is_none()),
        },
        "shellExecution": {
            "mode": "structural-spawn",
            "unsafe_enabled": setup.settings.unsafe_shell,
            "allowlist": setup.settings.shell_programs,
            "description": "Programs that the operator allows for this tenant.",
        },
        "fsExecution": {
            "allowlist": setup.settings.file_roots,
            "description": "Folders that the operator allows for this tenant.",
        },
    });
    match shown {
        Value::Object(shown) => Ok(shown),
        _ => Ok(Map::new()),
    }
}

/// The tool connectors that the operator configured.
fn configured(setup: &TenantRunSetup) -> Vec<Value> {
    let shown = setup.resources.tools.list().into_iter().map(|(name, class, allowed_tools)| {
        json!({
            "name": name,
            "implementation": class.word(),
            "contract_version": CONTRACT,
            "connector_type": "mcp_connector",
            "features": {
                "supports_identity_propagation": class == ConnectorClass::Http,
                "supports_streaming_responses": false,
                "supports_batch": false,
            },
            "manifest": { "capabilities_version": "1", "manifest": { "kind": "configured" } },
            "allowed_tools": allowed_tools,
        })
    });
    shown.collect()
}

fn model(of: &LocalModel) -> Value {
    json!({
        "name": "default",
        "implementation": "LocalModel",
        "contract_version": CONTRACT,
        "connector_type": "local_model",
        "default_model": of.default_model(),
    })
}
