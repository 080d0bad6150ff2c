//! The handshake (contract section 7): one hello per identity, one descriptor per accepted hello.

use ledger::{Generation, Identity};
use posthouse_wire::ToGateway;
use posthouse_wire::frame::Hello;

use super::delivery::Delivery;
use super::{Ending, Seated, Socket};
use crate::Fault;
use crate::desk::Role;

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
        let instance = match self.relay.0.roster.instance(&self.holder.instance).await {
            Ok(Some(instance)) => instance,
            Ok(None) => return Err(Ending::Close { code: 4401, reason: "unauthorized" }),
            Err(fault) => {
                tracing::error!(%fault, "could not look up an agent");
                return Err(Ending::Close { code: 1013, reason: "try again" });
            }
        };
        if hello.has_command_manifest && instance.generation == Generation::Auto {
            self.relay.saw_newer(&instance.id);
        }
        let is_ours = hello.client.is_some();
        let newer = hello.has_command_manifest || instance.generation == Generation::Newer;
        let now = self.now();
        // A stock process drops, though it acknowledges, what reaches it while it starts up.
        let ready = if is_ours || newer { now } else { now + self.relay.0.config.settle.0 };
        let window = if is_ours { hello.window.unwrap_or(1).clamp(1, WIDEST) } else { 1 };
        if instance.idle
            && let Err(fault) = self.relay.0.roster.set_idle(&instance.id, false).await
        {
            tracing::error!(%fault, "could not note that an agent is back");
        }
        let desk = self.relay.sit(&self.holder, self.id, self.orders.clone());
        tracing::info!(instance.id = %self.holder.instance, gateway.id = %self.holder.gateway, "an agent is on the line");
        let owed = desk.state.lock().owed_to(&self.holder.gateway, now - WAITS);
        self.asked = now;
        self.seated = Some(Seated {
            desk,
            role: Role::Live,
            advertised: vec![default],
            delivery: Delivery::new(window, ready),
        });
        for line in owed {
            self.send(&line).await?;
        }
        Ok(())
    }

    /// Which identity a hello is for, if this agent has it.
    async fn accept(&mut self, hello: &Hello) -> Result<Option<Identity>, Fault> {
        let identities = self.relay.0.roster.identities(&self.holder.instance).await?;
        if !hello.bot_id.is_empty() {
            let named = Identity { platform: hello.platform.clone(), bot: hello.bot_id.clone() };
            return Ok(identities.into_iter().find(|identity| *identity == named));
        }
        let unnamed = hello.platform == UNNAMED;
        let candidates: Vec<Identity> =
            identities.into_iter().filter(|identity| unnamed || identity.platform == hello.platform).collect();
        let (built_in, bots): (Vec<_>, Vec<_>) =
            candidates.into_iter().partition(|identity| self.egress.is_built_in(identity));
        // "Its only bot"; the house's own conversations count only where there is nothing else.
        let mut eligible = if bots.is_empty() { built_in } else { bots };
        Ok(if eligible.len() == 1 { eligible.pop() } else { None })
    }
}
