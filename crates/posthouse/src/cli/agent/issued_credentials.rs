//! New credentials of an agent, printed for its environment, its home and programs that act for it.

use serde_json::Value;

use super::cron;
use crate::cli::output::{Output, cell, for_a_shell};

/// Prints a new credential, with the environment variables for a stock agent.
pub fn print(output: &Output, made: &Value, what: &str) -> anyhow::Result<()> {
    if output.json {
        return output.value(made);
    }
    let (name, tenant, id) = (cell(&made["name"]), cell(&made["tenant"]), cell(&made["instance_id"]));
    let mut text = format!("agent {name} of tenant {tenant} ({id}) {what}.\n\n");
    text.push_str("Its environment; the secret is shown only once:\n\n");
    let env = made["env"].as_object().cloned().unwrap_or_default();
    // The most important variables first, in a fixed order; then all others.
    let first = ["URL", "ID", "SECRET", "PLATFORMS", "BOT_IDS"].map(|name| format!("GATEWAY_RELAY_{name}"));
    let rest = env.keys().filter(|name| !first.contains(name));
    for name in first.iter().chain(rest) {
        if let Some(value) = env.get(name).and_then(Value::as_str) {
            text.push_str(&format!("{name}={}\n", for_a_shell(value)));
        }
    }
    text.push_str(OTHER_PLATFORMS);
    if made["auth"].is_object() {
        text.push_str(&login_and_client(made)?);
    }
    output.text(&text)
}

/// Login, cron settings and client credential, as text: for the home of a stock agent, and for programs
/// that act for it.
fn login_and_client(made: &Value) -> anyhow::Result<String> {
    let auth = &made["auth"];
    let mut text = format!("\nIts login, for auth.json in its home; shown only once:\n\n{auth:#}\n");
    text.push('\n');
    let named = made["env"]["GATEWAY_RELAY_PLATFORMS"].as_str().unwrap_or_default();
    let platforms: Vec<&str> = named.split(',').filter(|platform| !platform.is_empty()).collect();
    text.push_str(&cron::printed(&cell(&made["name"]), &made["cron"], &platforms)?);
    let (client, secret) = (cell(&made["client_id"]), cell(&made["client_secret"]));
    text.push_str(CLIENT);
    text.push_str(&format!("client_id={client}\nclient_secret={secret}\n"));
    Ok(text)
}

/// Title of the client credential.
const CLIENT: &str = "
Its client credential, for programs that act for it and for gateways that provision themselves; the secret is shown
only once:

";

/// Effect of GATEWAY_RELAY_URL on later stock agents (relay contract section 22, item 23).
const OTHER_PLATFORMS: &str = "
# With GATEWAY_RELAY_URL set, hermes-agent 0.20 and later switches off every messaging platform of its own.
# To keep them, set GATEWAY_RELAY_ALLOW_DIRECT_PLATFORMS=true as well.
";
