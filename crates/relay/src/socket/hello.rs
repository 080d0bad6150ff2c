//! The handshake (contract section 7): one hello per bot, one descriptor per accepted hello.

use ledger::BotRef;
use posthouse_wire::ToGateway;
use posthouse_wire::frame::{CommandManifest, Hello};

use super::delivery::Delivery;
use super::{Ending, Seated, Socket};
use crate::Fault;
use crate::agent_connections::{ResultLine, Role};
use crate::connections::UNAUTHORIZED;
use crate::generation::Proof;

/// Platform name in the hello of a gateway without a configured platform.
const UNNAMED: &str = "relay";
/// Largest window: the maximum number of unacknowledged entries of an agent.
const WIDEST: u16 = 64;
/// Time for which a gateway waits for a result. Older results are useless to it.
const WAITS: std::time::Duration = std::time::Duration::from_secs(30);

impl Socket {
    pub(super) async fn hello(&mut self, hello: Hello) -> Result<(), Ending> {
        self.prove(Proof::of(&hello));
        let accepted = match self.accept(&hello).await {
            Ok(Some(bot)) => bot,
            // The bot is not the agent's: no descriptor is sent, and the socket stays open.
            Ok(None) => return Ok(()),
            Err(fault) => {
                tracing::error!(%fault, "could not look up an agent's bots");
                return Err(Ending::Close { code: 1013, reason: "try again" });
            }
        };
        let Some(descriptor) = self.egress.descriptor(&accepted).await else { return Ok(()) };
        // Nothing may reach the agent before the descriptor.
        self.send(&ToGateway::Descriptor(Box::new(descriptor)).line()).await?;
        let (on, manifest) = (accepted.clone(), hello.command_manifest.clone());
        match &mut self.seated {
            Some(seated) => {
                if !seated.advertised.contains(&accepted) {
                    seated.advertised.push(accepted);
                }
            }
            None => self.sit_down(hello, accepted).await?,
        }
        if let Some(manifest) = manifest {
            self.keep_manifest(&on, &manifest).await;
        }
        Ok(())
    }

    /// Stores the commands that the gateway announced. A failure has no consequences for the handshake.
    async fn keep_manifest(&mut self, on: &BotRef, manifest: &CommandManifest) {
        let kept = self.components.gateway_records.keep_manifest(&self.holder, on, manifest).await;
        if let Err(fault) = kept {
            tracing::error!(%fault, instance.id = %self.holder.instance, "could not store the commands of an agent");
        }
    }

    /// The first accepted hello makes the session live.
    async fn sit_down(&mut self, hello: Hello, default: BotRef) -> Result<(), Ending> {
        let is_ours = hello.client.is_some();
        let window = if is_ours { hello.window.unwrap_or(1).clamp(1, WIDEST) } else { 1 };
        let turn = self.components.seats.make_live(&self.connections, &self.holder, self.id);
        let now = self.now();
        self.seated = Some(Box::new(Seated {
            role: Role::Live,
            advertised: vec![default],
            delivery: Delivery::new(window, now, turn),
        }));
        // The check comes after taking the seat, so that a revocation from here on finds this socket.
        let settings = match self.components.gateway_records.settings(&self.holder).await {
            Ok(Some(found)) => found,
            Ok(None) => return Err(Ending::Close { code: UNAUTHORIZED.0, reason: UNAUTHORIZED.1 }),
            Err(fault) => {
                tracing::error!(%fault, "could not look up an agent");
                return Err(Ending::Close { code: 1013, reason: "try again" });
            }
        };
        // A starting stock process acknowledges messages and then drops them.
        let settled = match self.proof.settles(settings.pinned) {
            true => now + self.components.config.settle.0,
            false => now,
        };
        if let Some(seated) = &mut self.seated {
            seated.delivery.settle(settled);
        }
        if let Some(seat) = self.connections.state.lock().seat(self.id) {
            (seat.settled, seat.proof, seat.pinned) = (settled, self.proof, settings.pinned);
            (seat.hold_back, seat.interactions) = (settings.hold_back, settings.interactions);
        }
        if settings.is_idle
            && let Err(fault) = self.components.seats.came_back(&self.holder.instance).await
        {
            tracing::error!(%fault, "could not record that an agent is no longer idle");
        }
        tracing::info!(instance.id = %self.holder.instance, gateway.id = %self.holder.gateway, "an agent has connected");
        let mut state = self.connections.state.lock();
        if let Some(seat) = state.seat(self.id) {
            seat.takes_fires = is_ours && hello.fires;
        }
        for line in state.take_results_for(&self.holder.gateway, now - WAITS) {
            state.answer(self.id, &self.holder.gateway, ResultLine { line, chat: None }, now);
        }
        Ok(())
    }

    /// Records what a hello proves about the gateway's version. A gateway sends one hello per bot, all at once,
    /// and only the hello for the platform of its commands carries them. So a later hello can end the settle time that
    /// an earlier one began. After the settle time a hello changes nothing.
    fn prove(&mut self, proof: Proof) {
        if proof == Proof::Unproven || self.proof != Proof::Unproven {
            return;
        }
        let now = self.now();
        if let Some(seated) = &mut self.seated {
            let mut state = self.connections.state.lock();
            let Some(seat) = state.seat(self.id).filter(|seat| now < seat.settled) else { return };
            seat.proof = proof;
            if !proof.settles(seat.pinned) {
                seat.settled = now;
                seated.delivery.settle(now);
            }
        }
        self.proof = proof;
    }

    /// Returns the bot that a hello is for, if this agent has it.
    async fn accept(&mut self, hello: &Hello) -> Result<Option<BotRef>, Fault> {
        let everyones = self.egress.everyones();
        let mut bots = self.components.gateway_records.bots(&self.holder).await?;
        bots.extend(everyones.clone());
        if !hello.bot_id.is_empty() {
            let named = BotRef { platform: hello.platform.clone(), bot: hello.bot_id.clone() };
            return Ok(bots.into_iter().find(|bot| *bot == named));
        }
        let unnamed = hello.platform == UNNAMED;
        let candidates: Vec<BotRef> =
            bots.into_iter().filter(|bot| unnamed || bot.platform == hello.platform).collect();
        // The hello means "its only bot". Built-in conversations count only if there is no other bot, and the one
        // that needs no route comes last.
        let rank = |bot: &BotRef| match bot {
            own if Some(own) == everyones.as_ref() => 2,
            own if self.egress.is_built_in(own) => 1,
            _ => 0,
        };
        let first = candidates.iter().map(rank).min();
        let mut eligible = candidates.into_iter().filter(|bot| Some(rank(bot)) == first);
        Ok(eligible.next().filter(|_| eligible.next().is_none()))
    }
}
