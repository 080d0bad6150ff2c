//! `posthouse agent cron`: settings with which a stock agent hands its cron jobs to this server.

use std::fmt::Write;

use anyhow::Context;
use serde_json::{Map, Value};

/// Default port of the API server of a stock gateway.
const DEFAULT_PORT: u16 = 8642;
/// Stands for an address that only the owner of the agent knows.
const PLACEHOLDER: &str = "https://AGENT.EXAMPLE";
const CALLBACK: &str = "cron.chronos.callback_url";

/// The text for the configuration and environment of a stock agent, from settings by their dotted names. It
/// turns on the gateway's API server: reminders that people set in chat arrive only if the gateway process
/// itself takes the calls, because no other process of the agent is connected to this server. `platforms`
/// are the platforms of its bots.
pub fn printed(agent: &str, settings: &Value, platforms: &[&str]) -> anyhow::Result<String> {
    let mut settings = settings.as_object().cloned().unwrap_or_default();
    let callback = settings.entry(CALLBACK).or_insert_with(|| PLACEHOLDER.into()).clone();
    let callback = callback.as_str().unwrap_or(PLACEHOLDER);
    let is_open = callback == PLACEHOLDER;
    let mut text = String::from("For cron jobs that run while it sleeps, add this to its config.yaml:\n\n");
    text.push_str(&nested(&settings));
    text.push_str("\nThe API server of its gateway accepts these calls. To turn it on, add this to its environment:\n\n");
    let key = random_key()?;
    let comment = if is_open { "# " } else { "" };
    for (name, value) in
        [("ENABLED", "true"), ("PORT", &port_of(callback).to_string()), ("KEY", key.as_str())]
    {
        let _ = writeln!(text, "{comment}API_SERVER_{name}={value}");
    }
    if !platforms.is_empty() {
        let named = platforms.join(",");
        let _ = writeln!(text, "{comment}GATEWAY_RELAY_PLATFORMS={named},relay");
        text.push_str("\n# `relay` stands for the chat page: 0.20 and later sends a reminder there only if it is named.\n");
    }
    if is_open {
        let _ = write!(
            text,
            "\nReplace {PLACEHOLDER} by the address at which this server reaches that API server. This command prints\n\
             all of these settings again, with the address:\n\n  posthouse agent cron {agent} --callback-url URL\n"
        );
    }
    Ok(text)
}

/// The platforms of these bots, each once.
pub fn platforms(bots: &Value) -> Vec<&str> {
    let mut platforms: Vec<&str> = Vec::new();
    for platform in bots.as_array().into_iter().flatten().filter_map(|bot| bot["platform"].as_str()) {
        if !platforms.contains(&platform) {
            platforms.push(platform);
        }
    }
    platforms
}

/// The port at which a call to this URL arrives, if the URL tells. A proxy (https) is assumed to forward to
/// the default port.
fn port_of(url: &str) -> u16 {
    let Some(authority) = url.strip_prefix("http://").and_then(|rest| rest.split('/').next()) else {
        return DEFAULT_PORT;
    };
    authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(DEFAULT_PORT)
}

/// The stock API server does not start without a key that is hard to guess. Nobody needs to know the key,
/// because fires carry their own proof.
fn random_key() -> anyhow::Result<String> {
    let mut bytes = [0_u8; 32];
    aws_lc_rs::rand::fill(&mut bytes).ok().context("the system returned no random bytes")?;
    Ok(bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    }))
}

/// Settings with dotted names as nested YAML, ready to paste.
fn nested(settings: &Map<String, Value>) -> String {
    let mut root = Map::new();
    for (path, value) in settings {
        let mut section = &mut root;
        let mut parts = path.split('.').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                section.insert(part.to_owned(), value.clone());
                break;
            }
            let inner = section.entry(part).or_insert_with(|| Value::Object(Map::new()));
            let Some(inner) = inner.as_object_mut() else { break };
            section = inner;
        }
    }
    let mut text = String::new();
    write_section(&mut text, &root, 0);
    text
}

fn write_section(text: &mut String, section: &Map<String, Value>, depth: usize) {
    let indent = "  ".repeat(depth);
    for (name, value) in section {
        match value {
            Value::Object(inner) => {
                let _ = writeln!(text, "{indent}{name}:");
                write_section(text, inner, depth + 1);
            }
            // Every JSON scalar is a YAML scalar.
            scalar => {
                let _ = writeln!(text, "{indent}{name}: {scalar}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cron_settings_are_printed_as_nested_yaml_with_the_gateways_own_api_server() {
        let settings = json!({"cron.provider": "chronos", "cron.chronos.portal_url": "http://127.0.0.1:7678",
            "cron.chronos.callback_url": "http://127.0.0.1:9001/"});
        let text = printed("heron", &settings, &["telegram", "discord"]).unwrap();
        let yaml = [
            "cron:\n",
            "  chronos:\n",
            "    portal_url: \"http://127.0.0.1:7678\"\n",
            "  provider: \"chronos\"\n",
        ];
        for line in yaml {
            assert!(text.contains(line), "{line:?} in {text}");
        }
        assert!(text.contains("\nAPI_SERVER_ENABLED=true\nAPI_SERVER_PORT=9001\nAPI_SERVER_KEY="), "{text}");
        assert!(text.contains("\nGATEWAY_RELAY_PLATFORMS=telegram,discord,relay\n"), "{text}");
        assert!(!text.contains(PLACEHOLDER));
    }

    #[test]
    fn without_an_address_nothing_is_turned_on_and_the_command_that_prints_it_again_is_named() {
        let text = printed("heron", &json!({"cron.provider": "chronos"}), &[]).unwrap();
        assert!(text.contains("callback_url: \"https://AGENT.EXAMPLE\""), "{text}");
        assert!(text.contains("# API_SERVER_ENABLED=true") && !text.contains("\nAPI_SERVER_"), "{text}");
        assert!(text.contains("posthouse agent cron heron --callback-url URL"), "{text}");
    }

    #[test]
    fn behind_a_proxy_the_default_port_is_forwarded_to() {
        assert_eq!(port_of("https://heron.example:444"), DEFAULT_PORT);
        assert_eq!(port_of("http://10.0.0.7"), DEFAULT_PORT);
        assert_eq!(port_of("http://[::1]:9001/p"), 9001);
    }
}
