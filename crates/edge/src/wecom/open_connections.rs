//! Open long connections of AI bots, as those who send see them: a command, and the answer to it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use posthouse_time::Timepiece;
use posthouse_wire::BotId;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::api::{explained, kind_of};
use crate::platform_calls::{CallFailure, CallRefusal};

/// Most commands that wait for a connection, and that wait for an answer on it.
const MOST_WAITING: usize = 100;
pub(super) const MOST_UNANSWERED: usize = 100;

/// A command for the platform.
pub(super) struct SocketCommand {
    pub name: &'static str,
    pub request: String,
    pub body: Value,
    pub answered: oneshot::Sender<CommandResult>,
}

/// The answer of WeCom to a command.
#[derive(Debug, Deserialize)]
pub(super) struct CommandAnswer {
    #[serde(default)]
    pub errcode: i64,
    #[serde(default)]
    pub errmsg: String,
}

pub(super) enum CommandResult {
    Answered(CommandAnswer),
    /// The connection ended before it was sent.
    NotSent,
}

/// The connections by bot. Clones share one state.
#[derive(Clone)]
pub(super) struct LongConnections {
    timepiece: Timepiece,
    open: Arc<DashMap<BotId, mpsc::Sender<SocketCommand>>>,
}

/// A connection that accepts commands. It stops to do so when this is dropped.
pub(super) struct ConnectionGuard<'a> {
    all: &'a LongConnections,
    bot: BotId,
    own: mpsc::Sender<SocketCommand>,
    pub commands: mpsc::Receiver<SocketCommand>,
}

impl LongConnections {
    pub fn new(timepiece: Timepiece) -> Self {
        Self { timepiece, open: Arc::default() }
    }

    /// Lets a bot's commands go over this connection.
    pub fn opened(&self, bot: &BotId) -> ConnectionGuard<'_> {
        let (own, commands) = mpsc::channel(MOST_WAITING);
        self.open.insert(bot.clone(), own.clone());
        ConnectionGuard { all: self, bot: bot.clone(), own, commands }
    }

    pub fn is_open(&self, bot: &BotId) -> bool {
        self.open.contains_key(bot)
    }

    /// Sends a command, and waits at most `limit` for its answer.
    pub async fn command(
        &self,
        bot: &BotId,
        name: &'static str,
        body: Value,
        limit: Duration,
    ) -> Result<(), CallFailure> {
        let unreached = |why: &str| CallFailure::Unreached(why.to_owned());
        let connection = self.open.get(bot).map(|connection| connection.value().clone());
        let connection = connection.ok_or_else(|| unreached("the long connection is not open"))?;
        let (answered, answer) = oneshot::channel();
        let command = SocketCommand { name, request: request_id(name), body, answered };
        let begun = self.timepiece.instant();
        let queued = self.timepiece.within(limit, connection.send(command)).await;
        if !queued.is_ok_and(|queued| queued.is_ok()) {
            return Err(unreached("the long connection takes no messages"));
        }
        let left = limit.saturating_sub(self.timepiece.instant().since(begun));
        match self.timepiece.within(left, answer).await {
            Ok(Ok(CommandResult::Answered(answer))) if answer.errcode == 0 => Ok(()),
            Ok(Ok(CommandResult::Answered(CommandAnswer { errcode, errmsg }))) => Err(CallFailure::Refused(
                CallRefusal::new(kind_of(errcode), errcode, explained(errcode, &errmsg)),
            )),
            Ok(Ok(CommandResult::NotSent)) => Err(unreached("the long connection has ended")),
            Ok(Err(_)) | Err(_) => Err(CallFailure::Lost),
        }
    }
}

/// A new id of a command. The answer to it names the id.
pub(super) fn request_id(name: &str) -> String {
    let mut random = [0; 12];
    // Without random bytes the id is not unique, and the answer may be given to another command.
    let _ = aws_lc_rs::rand::fill(&mut random);
    format!("{name}_{}", hex::encode(random))
}

/// A command as a frame.
pub(super) fn frame(name: &str, request: &str, body: &Value) -> String {
    match body {
        Value::Null => json!({ "cmd": name, "headers": { "req_id": request } }),
        body => json!({ "cmd": name, "headers": { "req_id": request }, "body": body }),
    }
    .to_string()
}

impl Drop for ConnectionGuard<'_> {
    fn drop(&mut self) {
        // A newer connection may have taken the place.
        self.all.open.remove_if(&self.bot, |_, other| other.same_channel(&self.own));
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            let _ = command.answered.send(CommandResult::NotSent);
        }
    }
}

/// Commands of one connection that were sent and not answered.
#[derive(Default)]
pub(super) struct UnansweredCommands(HashMap<String, oneshot::Sender<CommandResult>>);

impl UnansweredCommands {
    /// Whether too many commands wait for an answer. Those for which nobody waits any more do not count.
    pub fn is_full(&mut self) -> bool {
        if self.0.len() >= MOST_UNANSWERED {
            self.0.retain(|_, waiting| !waiting.is_closed());
        }
        self.0.len() >= MOST_UNANSWERED
    }

    /// Notes a command, unless nobody waits for it any more.
    pub fn note(&mut self, request: String, answered: oneshot::Sender<CommandResult>) {
        self.0.retain(|_, waiting| !waiting.is_closed());
        if let Entry::Vacant(vacant) = self.0.entry(request) {
            vacant.insert(answered);
        }
    }

    pub fn answer(&mut self, request: &str, answer: CommandAnswer) {
        if let Some(waiting) = self.0.remove(request) {
            let _ = waiting.send(CommandResult::Answered(answer));
        }
    }
}
