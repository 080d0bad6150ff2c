//! Creation of Hermes agents on the chat page, with the commands to start them.

use async_trait::async_trait;
use posthouse_wire::{InstanceId, Secret, TenantId};
use serde_json::{Value, json};

use crate::Fault;

/// Creates agents for the page. The binary implements it.
#[async_trait]
pub trait Enrol: Send + Sync {
    /// Creates an agent with a credential, ready to connect.
    async fn enrol(&self, tenant: &TenantId, name: &str) -> Result<EnrolledAgent, EnrolRefused>;
}

/// A new agent and the variables it needs to connect. Shown once, never stored.
pub struct EnrolledAgent {
    pub instance: InstanceId,
    pub name: String,
    /// The variables of a stock Hermes agent, in the order to show them.
    pub env: Vec<(String, Secret)>,
}

/// The reason why no agent was created.
#[derive(Debug)]
pub enum EnrolRefused {
    /// The name breaks the rule for names.
    Unfit,
    /// The tenant already has an agent of this name.
    Taken,
    Fault(Fault),
}

/// The package of the stock agent, in the version that this server is tested with.
const PACKAGE: &str = "hermes-agent[messaging,web]==0.19.0";

impl EnrolledAgent {
    /// The JSON that the page shows once.
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

    /// The commands to start the agent. The values go through a file, because a stock agent writes its parent's command
    /// line into its log, and shells store typed commands in their history.
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
            (
                "Install Hermes into a virtual environment, if it is not installed yet",
                format!("python3 -m venv hermes && hermes/bin/pip install '{PACKAGE}'"),
            ),
            ("Save its connection settings in a file that only you can read", write),
            ("Start it", format!("set -a; . ./{file}; set +a; hermes/bin/hermes gateway run")),
        ]
    }
}

/// The value quoted as one word for a POSIX shell.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enrolled_agent() -> EnrolledAgent {
        let env = [("GATEWAY_RELAY_ID", "gw_1"), ("ODD", r#"it's {"a": "$HOME"}"#)];
        EnrolledAgent {
            instance: "inst_1".into(),
            name: "heron".to_owned(),
            env: env.map(|(name, value)| (name.to_owned(), Secret::new(value))).to_vec(),
        }
    }

    #[test]
    fn a_shell_reads_back_exactly_the_values_that_were_shown() {
        let folder = std::env::temp_dir().join(format!("posthouse-enrol-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [_, (_, write), (_, start)] = enrolled_agent().steps();
        let start =
            start.replace("hermes/bin/hermes gateway run", r#"printf '%s|%s' "$GATEWAY_RELAY_ID" "$ODD""#);
        let script = format!("{write}\n{start}");
        let ran =
            std::process::Command::new("sh").args(["-c", &script]).current_dir(&folder).output().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(String::from_utf8_lossy(&ran.stdout), r#"gw_1|it's {"a": "$HOME"}"#);
    }

    #[test]
    fn the_connect_sheet_uses_a_venv_and_prints_all_variables() {
        let [(_, install), (_, write), (_, start)] = enrolled_agent().steps();
        assert!(install.contains("python3 -m venv hermes && hermes/bin/pip install"), "{install}");
        assert!(start.contains("hermes/bin/hermes gateway run"), "{start}");
        for (name, _) in &enrolled_agent().env {
            assert!(write.contains(&format!("\n{name}=")), "{name}");
        }
    }

    #[test]
    fn no_secret_stands_on_a_command_line() {
        let [(_, install), (_, write), (_, start)] = enrolled_agent().steps();
        assert!(!install.contains("gw_1") && !start.contains("gw_1"));
        assert!(!write.lines().next().unwrap().contains("gw_1"));
    }
}
