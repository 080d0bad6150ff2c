//! The button that connects a Hermes agent of one's own.

use async_trait::async_trait;
use posthouse_wire::{InstanceId, Secret};
use serde_json::{Value, json};

use crate::Fault;

/// Makes agents. The house does; the page only asks.
#[async_trait]
pub trait Enrol: Send + Sync {
    /// Makes an agent of this name, with a credential, ready to dial.
    async fn enrol(&self, name: &str) -> Result<Newcomer, Turned>;
}

/// An agent that was just made, and what it needs to dial in. Handed out once, never kept.
pub struct Newcomer {
    pub instance: InstanceId,
    pub name: String,
    /// The variables of a stock Hermes agent, in the order to show them.
    pub env: Vec<(String, Secret)>,
}

/// Why no agent was made.
#[derive(Debug)]
pub enum Turned {
    /// The name breaks the rule for names.
    Unfit,
    /// An agent of that name is here already.
    Taken,
    Fault(Fault),
}

/// The stock agent's package that the house is tried with.
const PACKAGE: &str = "hermes-agent[messaging,web]==0.19.0";

impl Newcomer {
    /// What the page shows, once.
    pub(super) fn shown(&self) -> Value {
        let env: Vec<Value> =
            self.env.iter().map(|(name, value)| json!({ "name": name, "value": value.expose() })).collect();
        let steps: Vec<Value> = self
            .steps()
            .iter()
            .map(|(about, command)| json!({ "about": about, "command": command }))
            .collect();
        json!({ "instance_id": self.instance, "name": self.name, "env": env, "steps": steps })
    }

    /// The values go through a file: a stock agent writes its parent's command line into its log, and
    /// shells keep what was typed.
    fn steps(&self) -> [(&'static str, String); 3] {
        let file = format!("{}.env", self.name);
        let mut write = format!("(umask 077; cat > {file}) <<'POSTHOUSE'\n");
        for (name, value) in &self.env {
            write.push_str(name);
            write.push('=');
            write.push_str(&quoted(value.expose()));
            write.push('\n');
        }
        write.push_str("POSTHOUSE");
        [
            ("Install the agent, if it is not there yet", format!("python3 -m pip install '{PACKAGE}'")),
            ("Keep its connection in a file that only you can read", write),
            ("Start it", format!("set -a; . ./{file}; set +a; hermes gateway run")),
        ]
    }
}

/// One word for a POSIX shell, whatever is in it.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn newcomer() -> Newcomer {
        let env = [("GATEWAY_RELAY_ID", "gw_1"), ("ODD", r#"it's {"a": "$HOME"}"#)];
        Newcomer {
            instance: "inst_1".into(),
            name: "heron".to_owned(),
            env: env.map(|(name, value)| (name.to_owned(), Secret::new(value))).to_vec(),
        }
    }

    #[test]
    fn a_shell_reads_back_exactly_the_values_that_were_shown() {
        let folder = std::env::temp_dir().join(format!("posthouse-enrol-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [_, (_, write), (_, start)] = newcomer().steps();
        let start = start.replace("hermes gateway run", r#"printf '%s|%s' "$GATEWAY_RELAY_ID" "$ODD""#);
        let script = format!("{write}\n{start}");
        let ran =
            std::process::Command::new("sh").args(["-c", &script]).current_dir(&folder).output().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(String::from_utf8_lossy(&ran.stdout), r#"gw_1|it's {"a": "$HOME"}"#);
    }

    #[test]
    fn no_secret_stands_on_a_command_line() {
        let [(_, install), (_, write), (_, start)] = newcomer().steps();
        assert!(!install.contains("gw_1") && !start.contains("gw_1"));
        assert!(!write.lines().next().unwrap().contains("gw_1"));
    }
}
