//! The handshake (contract section 7): one hello per identity, one descriptor per accepted hello.

use ledger::{Generation, Identity, Instance};
use posthouse_wire::ToGateway;
use posthouse_wire::frame::Hello;

use super::delivery::Delivery;
use super::{Ending, Seated, Socket};
use crate::Fault;
use crate::desk::Role;
use crate::seats::UNAUTHORIZED;

/// The name under which a gateway says hello when no platform was configured.
const UNNAMED: &str = "relay";
/// The most entries that an agent may have outstanding.
const WIDEST: u16 = 64;
/// A result is of use to a gateway for as long as it waits for it.
const WAITS: std::time::Duration = std::time::Duration::from_secs(30);

impl Socket {
    pub(super) async fn hello(&mut self, hello: Hello) -> Result<(), Ending> {
        let accepted = match self.accept(&hello).await {
            Ok(Some(identity)) => identity,
            // Not provisioned: no descriptor, and the socket stays.
            Ok(None) => return Ok(()),
            Err(fault) => {
                tracing::error!(%fault, "could not look up an agent's identities");
                return Err(Ending::Close { code: 1013, reason: "try again" });
            }
        };
        let Some(descriptor) = self.egress.descriptor(&accepted).await else { return Ok(()) };
        // The descriptor goes first: nothing may reach the agent before it.
        self.send(&ToGateway::Descriptor(Box::new(descriptor)).line()).await?;
        match &mut self.seated {
            Some(seated) => {
                if !seated.advertised.contains(&accepted) {
                    seated.advertised.push(accepted);
                }
                Ok(())
            }
            None => self.sit_down(hello, accepted).await,
        }
    }

    /// The first accepted hello makes the session live.
    async fn sit_down(&mut self, hello: Hello, default: Identity) -> Result<(), Ending> {
        let is_ours = hello.client.is_some();
        let window = if is_ours { hello.window.unwrap_or(1).clamp(1, WIDEST) } else { 1 };
        let turn = self.relay.sit(&self.desk, &self.holder, self.id);
        let now = self.now();
        self.asked = now;
        self.seated = Some(Box::new(Seated {
            role: Role::Live,
            advertised: vec![default],
            is_ours,
            delivery: Delivery::new(window, now, turn),
        }));
        // Looked up only now: whatever ends a credential from here on finds this socket at its desk.
        let instance = match self.still_good().await {
            Ok(Some(instance)) => instance,
            Ok(None) => return Err(Ending::Close { code: UNAUTHORIZED.0, reason: UNAUTHORIZED.1 }),
            Err(fault) => {
                tracing::error!(%fault, "could not look up an agent");
                return Err(Ending::Close { code: 1013, reason: "try again" });
            }
        };
        let shows_newer = hello.has_command_manifest && instance.generation == Generation::Auto;
        if shows_newer {
            self.relay.saw_newer(&self.desk);
        }
        // A stock process drops, though it acknowledges, what reaches it while it starts up.
        if !is_ours && !shows_newer && instance.generation != Generation::Newer {
            let settled = now + self.relay.0.config.settle.0;
            if let Some(seated) = &mut self.seated {
                seated.delivery.settle(settled);
            }
            if let Some(seat) = self.desk.state.lock().seat(self.id) {
                seat.settled = settled;
            }
        }
        if instance.idle
            && let Err(fault) = self.relay.0.roster.set_idle(&instance.id, false).await
        {
            tracing::error!(%fault, "could not note that an agent is back");
        }
        tracing::info!(instance.id = %self.holder.instance, gateway.id = %self.holder.gateway, "an agent is on the line");
        let mut state = self.desk.state.lock();
        if let Some(seat) = state.seat(self.id) {
            seat.takes_fires = is_ours && hello.fires;
        }
        for line in state.owed_to(&self.holder.gateway, now - WAITS) {
            state.answer(self.id, &self.holder.gateway, line, now);
        }
        Ok(())
    }

    /// The agent, if it and this socket's credential are still there.
    async fn still_good(&mut self) -> Result<Option<Instance>, Fault> {
        let held = self.relay.0.keyring.of(&self.holder.instance).await?;
        let ours = held.iter().find(|(gateway, ..)| *gateway == self.holder.gateway);
        if ours.is_none_or(|(_, _, revoked)| revoked.is_some()) {
            return Ok(None);
        }
        Ok(self.relay.0.roster.instance(&self.holder.instance).await?)
    }

    /// Which identity a hello is for, if this agent has it.
    async fn accept(&mut self, hello: &Hello) -> Result<Option<Identity>, Fault> {
        let everyones = self.egress.everyones();
        let mut identities = self.relay.0.roster.identities(&self.holder.instance).await?;
        identities.extend(everyones.clone());
        if !hello.bot_id.is_empty() {
            let named = Identity { platform: hello.platform.clone(), bot: hello.bot_id.clone() };
            return Ok(identities.into_iter().find(|identity| *identity == named));
        }
        let unnamed = hello.platform == UNNAMED;
        let candidates: Vec<Identity> = identities
            .into_iter()
            .filter(|identity| unnamed || identity.platform == hello.platform)
            .collect();
        // "Its only bot"; the house's own conversations count only where there is nothing else, and the one
        // that needs no route at all comes last.
        let rank = |identity: &Identity| match identity {
            own if Some(own) == everyones.as_ref() => 2,
            own if self.egress.is_built_in(own) => 1,
            _ => 0,
        };
        let first = candidates.iter().map(rank).min();
        let mut eligible = candidates.into_iter().filter(|identity| Some(rank(identity)) == first);
        Ok(eligible.next().filter(|_| eligible.next().is_none()))
    }
}
