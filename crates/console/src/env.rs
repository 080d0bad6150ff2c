//! Environment variables with which a stock agent connects.

use ledger::BotRef;
use posthouse_wire::{GatewayId, Secret};
use serde_json::{Map, Value, json};

/// The variables of a stock Hermes agent, in display order. One of them is the secret.
pub type Env = Vec<(&'static str, Secret)>;

/// The exact environment for a stock agent: URL, credential and bots. Built-in platforms are left out,
/// because stock agents do not know their names and do not need them.
pub fn env(public_url: &str, gateway: &GatewayId, secret: &Secret, bots: &[BotRef]) -> Env {
    let mut platforms: Vec<&str> = Vec::new();
    let mut bot_ids = Map::new();
    for BotRef { platform, bot } in bots {
        // A stock agent sends one hello per platform, so only the first bot of each is named.
        if !platforms.contains(&platform.as_str()) {
            platforms.push(platform.as_str());
            bot_ids.insert(platform.to_string(), json!({ "botId": bot }));
        }
    }
    vec![
        ("GATEWAY_RELAY_URL", Secret::new(public_url)),
        ("GATEWAY_RELAY_ID", Secret::new(gateway.as_str())),
        ("GATEWAY_RELAY_SECRET", secret.clone()),
        ("GATEWAY_RELAY_PLATFORMS", Secret::new(platforms.join(","))),
        ("GATEWAY_RELAY_BOT_IDS", Secret::new(Value::Object(bot_ids).to_string())),
        // A stock agent that interrupts a turn sends a notice from inside its own reader, and handles
        // nothing else until that notice has timed out. With `queue` it joins new messages into the next
        // turn, as it does on the platforms it knows.
        ("HERMES_GATEWAY_BUSY_INPUT_MODE", Secret::new("queue")),
        // Otherwise the agent answers the first message on an unknown platform with a notice.
        ("RELAY_HOME_CHANNEL", Secret::new("none")),
    ]
}

/// The URL where a stock agent with our login refreshes its tokens. Without it, the agent would ask its
/// vendor. An agent with a login of its vendor must not get it.
pub(crate) fn portal(public_url: &str) -> (&'static str, Secret) {
    ("HERMES_PORTAL_BASE_URL", Secret::new(public_url))
}

/// As an object of an answer.
pub(crate) fn shown(env: &Env) -> Value {
    env.iter()
        .map(|(name, value)| ((*name).to_owned(), Value::from(value.expose())))
        .collect::<Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bots_of_a_stock_agent_are_grouped_by_platform() {
        let bots = [("telegram", "7001"), ("discord", "db"), ("telegram", "7002")]
            .map(|(platform, bot)| BotRef { platform: platform.into(), bot: bot.into() });
        let shown = shown(&env("https://h/base", &"gw_1".into(), &Secret::new("s"), &bots));
        let bot_ids: Value = serde_json::from_str(shown["GATEWAY_RELAY_BOT_IDS"].as_str().unwrap()).unwrap();
        assert_eq!(shown["GATEWAY_RELAY_URL"], "https://h/base");
        assert_eq!(shown["GATEWAY_RELAY_PLATFORMS"], "telegram,discord");
        assert_eq!(bot_ids, json!({ "telegram": { "botId": "7001" }, "discord": { "botId": "db" } }));
    }

    #[test]
    fn an_agent_without_bots_gets_empty_values() {
        let shown = shown(&env("http://h", &"gw_1".into(), &Secret::new("s"), &[]));
        assert_eq!(shown["GATEWAY_RELAY_PLATFORMS"], "");
        assert_eq!(shown["GATEWAY_RELAY_BOT_IDS"], "{}");
    }
}
