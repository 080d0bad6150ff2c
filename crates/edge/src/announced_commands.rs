//! Announced commands: registers the commands that agents announce with the platforms of their bots.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use std::vec::IntoIter;

use dashmap::DashMap;
use ledger::{AgentManifest, BotRef, EventFeeds};
use posthouse_time::Timepiece;
use posthouse_wire::TenantId;
use posthouse_wire::frame::{CommandEntry, CommandManifest};
use serde_json::value::RawValue;
use tokio::sync::Notify;

use crate::Fault;
use crate::bots::OpenedBot;
use crate::platform::{BotTrouble, Platform};

/// Pause after a registration that failed. It doubles up to `LONGEST_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// Shortest time between two registrations of one bot. Agents can announce other commands as often as they like.
const PERIOD: Duration = Duration::from_secs(60);
/// The most agents of a bot whose commands are registered. No platform offers more commands than this.
const MOST_AGENTS: u32 = 100;

/// Keeps the commands of bots registered with their platforms. Clones share one state.
#[derive(Clone)]
pub(crate) struct AnnouncedCommands {
    records: Arc<dyn EventFeeds>,
    timepiece: Timepiece,
    /// The bots whose commands are kept registered, with the signal for a change.
    changes: Arc<DashMap<BotRef, Arc<Notify>>>,
}

impl AnnouncedCommands {
    pub fn new(records: Arc<dyn EventFeeds>, timepiece: Timepiece) -> Self {
        Self { records, timepiece, changes: Arc::default() }
    }

    /// To be called when an agent may have announced other commands for this bot.
    pub fn may_have_changed(&self, on: &BotRef) {
        if let Some(changed) = self.changes.get(on) {
            changed.notify_one();
        }
    }

    /// Registers the announced commands of a bot with its platform, now and after each change, at most once
    /// in `PERIOD`.
    pub async fn follow(&self, platform: &dyn Platform, bot: &OpenedBot) {
        let changed = Arc::new(Notify::new());
        let guard = FollowGuard { all: self, on: bot.bot_ref(), changed: Arc::clone(&changed) };
        self.changes.insert(guard.on.clone(), Arc::clone(&changed));
        let (mut registered, mut pause) = (self.registered_before(&guard.on).await, FIRST_PAUSE);
        let mut next = self.timepiece.instant();
        loop {
            self.timepiece.sleep_until(next).await;
            match self.announced(&guard.on).await {
                Ok(announced) if registered.as_ref() == Some(&announced) => {}
                Ok(announced) => {
                    next = self.timepiece.instant() + PERIOD;
                    match self.register(platform, bot, &announced).await {
                        Ok(()) => (registered, pause) = (Some(announced), FIRST_PAUSE),
                        Err(trouble) => {
                            tracing::warn!(bot.id = %bot.id, platform = platform.name(), %trouble, "could not register the commands of a bot; trying again");
                            next = self.timepiece.instant() + pause;
                            pause = (pause * 2).min(LONGEST_PAUSE);
                            continue;
                        }
                    }
                }
                Err(fault) => {
                    tracing::error!(%fault, bot.id = %bot.id, "could not read the commands of a bot")
                }
            }
            changed.notified().await;
        }
    }

    /// The commands of the bot at its platform when the server starts, if they are known: none of an agent, so that those
    /// stay that the operator set there. `None` after commands of agents were registered, which may have been withdrawn
    /// meanwhile.
    async fn registered_before(&self, on: &BotRef) -> Option<CommandManifest> {
        match self.records.has_registered_commands(on).await {
            Ok(registered) => (!registered).then(CommandManifest::default),
            Err(fault) => {
                tracing::error!(%fault, bot.id = %on.bot, "could not read whether a bot has commands of agents");
                None
            }
        }
    }

    /// Registers commands. It is noted first, so that commands that a crash left behind are withdrawn later.
    async fn register(
        &self,
        platform: &dyn Platform,
        bot: &OpenedBot,
        commands: &CommandManifest,
    ) -> Result<(), BotTrouble> {
        let on = bot.bot_ref();
        let note = async |registered| {
            let noted = self.records.note_registered_commands(&on, registered).await;
            noted.map_err(|fault| BotTrouble::Other(format!("the server could not record it: {fault}")))
        };
        if !commands.0.is_empty() {
            note(true).await?;
        }
        platform.register_commands(bot, commands).await?;
        if commands.0.is_empty() {
            note(false).await?;
        }
        Ok(())
    }

    /// The commands of the agents of a bot, in the order in which a platform with a limit takes them.
    async fn announced(&self, on: &BotRef) -> Result<CommandManifest, Fault> {
        Ok(in_turns(self.records.announced_commands(on, MOST_AGENTS).await?))
    }
}

/// Tenants take turns, and so do the agents of a tenant: each gives one command at a time. So an agent with many commands
/// cannot take the places of others. Of commands with the same name the first counts.
fn in_turns(announced: Vec<AgentManifest>) -> CommandManifest {
    let mut tenants: Vec<(TenantId, VecDeque<IntoIter<CommandEntry>>)> = Vec::new();
    for AgentManifest { tenant, manifest } in announced {
        let written: Option<&RawValue> = serde_json::from_str(&manifest).ok();
        let Some(manifest) = CommandManifest::read(written) else { continue };
        let commands = manifest.0.into_iter();
        match tenants.iter_mut().find(|(known, _)| *known == tenant) {
            Some((_, agents)) => agents.push_back(commands),
            None => tenants.push((tenant, VecDeque::from([commands]))),
        }
    }
    let (mut names, mut chosen) = (HashSet::new(), Vec::new());
    while !tenants.is_empty() {
        tenants.retain_mut(|(_, agents)| {
            while let Some(mut agent) = agents.pop_front() {
                if let Some(command) = agent.find(|command| names.insert(command.name.clone())) {
                    chosen.push(command);
                    agents.push_back(agent);
                    return true;
                }
            }
            false
        });
    }
    CommandManifest(chosen)
}

/// Removes the bot from `changes` when it is dropped.
struct FollowGuard<'a> {
    all: &'a AnnouncedCommands,
    on: BotRef,
    changed: Arc<Notify>,
}

impl Drop for FollowGuard<'_> {
    fn drop(&mut self) {
        // A newer `follow` may have replaced the entry.
        self.all.changes.remove_if(&self.on, |_, other| Arc::ptr_eq(other, &self.changed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announces(tenant: &str, names: &[String]) -> AgentManifest {
        let entries = names.iter().map(|name| format!(r#"{{"name":"{name}","description":"x"}}"#));
        let manifest = format!("[{}]", entries.collect::<Vec<_>>().join(","));
        AgentManifest { tenant: tenant.into(), manifest }
    }

    fn numbered(agent: &str, count: usize) -> Vec<String> {
        (0..count).map(|number| format!("{agent}{number}")).collect()
    }

    fn names(manifest: CommandManifest) -> Vec<String> {
        manifest.0.into_iter().map(|command| command.name).collect()
    }

    #[test]
    fn tenants_and_their_agents_take_turns_with_their_commands() {
        let chosen = names(in_turns(vec![
            announces("acme", &numbered("a", 100)),
            announces("rival", &numbered("r", 2)),
            announces("acme", &numbered("b", 3)),
        ]));
        assert_eq!(chosen[..7], ["a0", "r0", "b0", "r1", "a1", "b1", "a2"]);
        assert_eq!(chosen.len(), 105);
    }

    #[test]
    fn a_name_that_is_taken_costs_no_turn_and_junk_nothing() {
        let junk = AgentManifest { tenant: "acme".into(), manifest: "{".to_owned() };
        let rival = announces("rival", &["ask".to_owned(), "help".to_owned()]);
        let chosen = in_turns(vec![junk, announces("acme", &["ask".to_owned()]), rival]);
        assert_eq!(names(chosen), ["ask", "help"]);
    }
}
