//! The whole house in one command: its folder, its page, and somebody to talk to.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use posthouse_agent::{Agent, Settings, WebSocketTransport};
use posthouse_wire::Platform;
use relay::{Enrolment, Relay};

use crate::config::Config;
use crate::house::{self, House};

/// Whose agents are those made by `up` and on the page.
pub const TENANT: &str = "home";
const SAMPLE: &str = "sample";

/// Makes a house if there is none, opens it, and lets a sample agent dial in over the real socket.
pub async fn up(dir: PathBuf, listen: Option<SocketAddr>) -> anyhow::Result<()> {
    if !dir.join("posthouse.toml").exists() {
        house::init(&dir).await?;
    }
    let mut config = Config::load(&dir.join("posthouse.toml"))?;
    if let Some(listen) = listen {
        config.server.listen = listen;
    }
    // Somebody trying things out has their agents' wake URLs on this machine.
    config.allow_loopback_errands();
    let house = House::open(config).await?;
    let line = sample_line(&house.relay, &house.url).await?;

    println!("posthouse is ready at {}", house.url);
    println!();
    println!("  Talk to the sample agent:  {}/chat", house.url);
    println!(
        "  Ask it from a program:     posthouse --dir {} ask sample \"are you there?\" --tenant {TENANT}",
        dir.display()
    );
    println!("  Everything is kept in:     {}", dir.display());
    println!(
        "  Connect a Hermes agent:    use the button on that page, or `posthouse --dir {} agent create NAME --tenant {TENANT}`",
        dir.display()
    );

    let stop = tokio_util::sync::CancellationToken::new();
    let sample = tokio::spawn({
        let stop = stop.clone();
        async move {
            Agent::builder(line).on_message(posthouse_agent::sample::answer).run(stop.cancelled_owned()).await
        }
    });
    house::termination().await?;
    stop.cancel();
    if let Ok(Err(fault)) = sample.await {
        tracing::warn!(%fault, "the sample agent did not leave in good order");
    }
    house.close().await;
    Ok(())
}

/// The sample agent's line: the agent is made the first time, its secret renewed every time, since the
/// house itself cannot read the old one.
async fn sample_line(relay: &Relay, url: &str) -> anyhow::Result<WebSocketTransport> {
    relay.create_tenant(TENANT).await??;
    let tenant = relay.roster().tenant(TENANT).await?.context("the tenant that was just made")?;
    let (gateway, secret) = match relay.roster().instance_named(&tenant.id, SAMPLE).await? {
        None => {
            let enrolled = relay
                .enrol(Enrolment {
                    tenant: TENANT.to_owned(),
                    name: SAMPLE.to_owned(),
                    built_in: vec![Platform::new(edge::web::NAME)],
                    ..Enrolment::default()
                })
                .await??;
            (enrolled.gateway, enrolled.secret)
        }
        Some(instance) => {
            let held = relay.keyring().of(&instance.id).await?;
            let good = held.into_iter().find(|(_, _, revoked)| revoked.is_none());
            let (gateway, ..) =
                good.context("the sample agent's credential was revoked: remove the agent first")?;
            let secret =
                relay.rotate(&gateway, &instance.id).await?.context("a credential that is still good")?;
            (gateway, secret)
        }
    };
    Ok(WebSocketTransport::new(Settings::new(url, gateway, secret))?)
}
