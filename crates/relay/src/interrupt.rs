//! Stop exactly one turn.

use bus::Word;
use posthouse_wire::{ChatId, InstanceId, SessionKey, Source, ToGateway, session_key};
use vault::Holder;

use crate::desk::Role;
use crate::{Fault, Relay};

impl Relay {
    /// A gateway asks for a stop. The key is looked up among its own instance's sessions; an unknown
    /// one is ignored, whoever else may know it.
    pub(crate) async fn interrupt_from(&self, holder: &Holder, key: SessionKey) -> Result<(), Fault> {
        if let Some((_, chat)) = self.0.roster.chat_of_session(&holder.instance, &key).await? {
            self.tell_stop(&holder.instance, &key, &chat);
        }
        Ok(())
    }

    /// A person asks for a stop on their platform. Keys the agent does not know are harmless, so when
    /// its generation is unknown every plausible one is sent.
    pub fn interrupt(&self, instance: &InstanceId, source: &Source) {
        let Some(chat) = &source.chat_id else { return };
        for key in session_key::plausible(source) {
            self.tell_stop(instance, &key, chat);
        }
    }

    fn tell_stop(&self, instance: &InstanceId, key: &SessionKey, chat: &ChatId) {
        self.0.bus.tell(Word::Interrupt {
            instance: instance.to_string(),
            session_key: key.to_string(),
            chat: chat.to_string(),
        });
    }

    /// Sends the stop down the seat that runs the session, if it is here. Never kept: a stop that comes
    /// late would end the wrong turn.
    pub(crate) fn stop_turn(&self, instance: &InstanceId, key: &SessionKey, chat: &ChatId) {
        let Some(desk) = self.0.desks.get(instance).map(|desk| desk.clone()) else { return };
        let frame = ToGateway::InterruptInbound { session_key: key.clone(), chat_id: chat.clone() };
        if let Some(live) = desk.state.lock().seats.iter_mut().find(|seat| seat.role == Role::Live) {
            let _ = live.stop(frame.line());
        }
    }
}
