//! Threads that agents created, and the conditions under which an agent may rename one.

use std::sync::Arc;

use ledger::{BotRef, MadeThread, Threads};
use posthouse_wire::{Action, Outcome};
use relay::PermittedAction;

use crate::Fault;
use crate::platform::{Platform, RenamedThread};

/// The threads of all agents.
#[derive(Clone)]
pub(crate) struct OwnThreads(Arc<dyn Threads>);

impl OwnThreads {
    pub fn new(records: Arc<dyn Threads>) -> Self {
        Self(records)
    }

    /// The refusal of a rename whose conditions do not hold. `None` for every other order.
    pub async fn refusal(
        &self,
        platform: &dyn Platform,
        permitted: &PermittedAction,
    ) -> Result<Option<Outcome>, Fault> {
        let Action::ThreadRename { chat_id, thread_id, guard, .. } = &permitted.action else {
            return Ok(None);
        };
        if !guard.only_if_connector_created && guard.only_if_current_name.is_none() {
            return Ok(None);
        }
        let made = self.0.thread(&permitted.on, chat_id, thread_id).await?;
        let made = made.filter(|thread| thread.instance == permitted.instance);
        if guard.only_if_connector_created && made.as_ref().is_none_or(|thread| thread.renamed) {
            return Ok(Some(Outcome::failed(
                "not renamed: the thread was not created here, or has another name now",
            )));
        }
        let Some(expected) = &guard.only_if_current_name else { return Ok(None) };
        // The name is read from the records only where nobody else can change it.
        let current = made.filter(|_| platform.knows_thread_names()).map(|thread| thread.name);
        Ok(match current {
            Some(current) if current == *expected => None,
            Some(_) => Some(Outcome::failed("not renamed: the thread has another name")),
            None => Some(Outcome::failed("not renamed: the name of the thread cannot be read")),
        })
    }

    /// The thread of an action that creates or renames one, without its id if it does not exist yet.
    pub fn of(permitted: &PermittedAction) -> Option<MadeThread> {
        let (chat, thread, name) = match &permitted.action {
            Action::ThreadCreate { chat_id, thread_name, .. } => (chat_id, None, thread_name),
            Action::ThreadRename { chat_id, thread_id, thread_name, .. } => {
                (chat_id, Some(thread_id.clone()), thread_name)
            }
            _ => return None,
        };
        Some(MadeThread {
            on: permitted.on.clone(),
            chat: chat.clone(),
            thread: thread.unwrap_or_else(|| "".into()),
            instance: permitted.instance.clone(),
            name: name.clone(),
            renamed: false,
        })
    }

    /// Records a created or renamed thread. A renamed thread that an agent did not create stays unknown.
    pub async fn done(&self, mut thread: MadeThread, outcome: &Outcome) -> Result<(), Fault> {
        if let Some(created) = &outcome.thread_id {
            thread.thread = created.clone();
        } else if self.0.thread(&thread.on, &thread.chat, &thread.thread).await?.is_none() {
            return Ok(());
        }
        Ok(self.0.made_thread(thread).await?)
    }

    /// Records that somebody on the platform named a thread.
    pub async fn named(&self, on: &BotRef, renamed: &RenamedThread) -> Result<(), Fault> {
        // Most threads that people name are not from an agent. They cost no commit.
        let Some(made) = self.0.thread(on, &renamed.chat, &renamed.thread).await? else { return Ok(()) };
        Ok(self.0.thread_named(&made, &renamed.name).await?)
    }
}
