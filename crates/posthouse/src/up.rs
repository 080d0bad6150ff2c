//! `posthouse up`: server folder, chat page and sample agent in one command.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use edge::web::{self, NewInvitation, PersonName};
use identity::{Enrolment, Identity};
use ledger::Tenant;
use posthouse_agent::{Agent, Settings, WebSocketTransport};
use posthouse_wire::{Platform, TenantId};

use crate::config::Config;
use crate::wiring::{self, RunningServer};

/// Tenant of the agents that `up` creates, and of those created on its chat page.
pub const TENANT: &str = "home";
const SAMPLE: &str = "sample";

/// Creates a server folder if there is none, starts the server, and connects a sample agent over a real
/// socket.
pub async fn up(dir: PathBuf, listen: Option<SocketAddr>) -> anyhow::Result<()> {
    let made = match dir.join("posthouse.toml").exists() {
        true => None,
        false => Some(wiring::init(&dir).await?),
    };
    let mut config = Config::load(&dir.join("posthouse.toml"))?;
    if let Some(listen) = listen {
        config.server.listen = listen;
    }
    // A person who tries things out has the wake URLs of their agents on this machine.
    config.allow_loopback_errands();
    config.platforms.web.page = true;
    let server = match RunningServer::open(config).await {
        Ok(server) => server,
        Err(error) => {
            // A failed start leaves no new folder behind, unless another process is using it by now.
            let in_use = |cause: &(dyn std::error::Error + 'static)| {
                matches!(cause.downcast_ref(), Some(ledger::Fault::InUse(_)))
            };
            if let Some(made) = made.filter(|_| !error.chain().any(in_use)) {
                made.remove();
            }
            return Err(error);
        }
    };
    let tenant = tenant(&server.identity).await?;
    let sample_agent = sample_connection(&server.identity, &tenant.id, &server.url).await?;
    let secret = server.web.invite_starter(starter(&tenant)?).await?;

    println!("posthouse is ready at {}", server.url);
    println!();
    println!("  Talk to the sample agent:  {}", web::link(&server.url, &secret));
    println!("                             (this link works once; every start prints a new one)");
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
            Agent::builder(sample_agent)
                .on_message(posthouse_agent::sample::answer)
                .run(stop.cancelled_owned())
                .await
        }
    });
    wiring::termination().await?;
    stop.cancel();
    if let Ok(Err(fault)) = sample.await {
        tracing::warn!(%fault, "the sample agent did not disconnect cleanly");
    }
    server.close().await;
    Ok(())
}

/// The tenant of everything that `up` creates.
async fn tenant(identity: &Identity) -> anyhow::Result<Tenant> {
    identity.accounts.create_tenant(TENANT).await??;
    identity.roster.records().tenant(TENANT).await?.context("the new tenant is missing")
}

/// The person who runs `up` owns its tenant.
fn starter(tenant: &Tenant) -> anyhow::Result<NewInvitation> {
    let person = PersonName::read("owner").context("the name is not valid")?;
    Ok(NewInvitation { tenant: tenant.id.clone(), agents: None, person, owner: true })
}

/// Connection of the sample agent. The agent is created at the first start. Its secret is replaced at every
/// start, because the server cannot read the old one.
async fn sample_connection(
    identity: &Identity,
    tenant: &TenantId,
    url: &str,
) -> anyhow::Result<WebSocketTransport> {
    let Identity { accounts, roster, .. } = identity;
    let (gateway, secret) = match roster.records().instance_named(tenant, SAMPLE).await? {
        None => {
            let enrolled = accounts
                .enrol(Enrolment {
                    tenant: TENANT.to_owned(),
                    name: SAMPLE.to_owned(),
                    built_in: vec![Platform::new(web::NAME)],
                    ..Enrolment::default()
                })
                .await??;
            (enrolled.gateway, enrolled.secret)
        }
        Some(instance) => {
            let held = accounts.gateways(&instance.id).await?;
            let good = held.into_iter().find(|(_, _, revoked)| revoked.is_none());
            let (gateway, ..) =
                good.context("the sample agent's credential was revoked: remove the agent first")?;
            let secret =
                accounts.rotate(&gateway, &instance.id).await?.context("the credential was revoked")?;
            (gateway, secret)
        }
    };
    Ok(WebSocketTransport::new(Settings::new(url, gateway, secret))?)
}
