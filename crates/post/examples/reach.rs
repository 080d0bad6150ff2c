//! A program that reaches an agent: `cargo run -p post --example reach -- AGENT` tells it something, asks it, and
//! prints what became of both. The house and the credential stand in POSTHOUSE_URL, POSTHOUSE_CLIENT_ID and
//! POSTHOUSE_CLIENT_SECRET; `posthouse client create --tenant T` makes one.

use std::time::Duration;

use posthouse_agent::post::{Ask, Client, Credential, Fault, Notify};
use posthouse_wire::Secret;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let agent = std::env::args().nth(1).ok_or("whom? name an agent")?;
    let said = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set"));
    let credential = Credential::Client {
        id: said("POSTHOUSE_CLIENT_ID")?.as_str().into(),
        secret: Secret::new(said("POSTHOUSE_CLIENT_SECRET")?),
    };
    let house = Client::new(&said("POSTHOUSE_URL")?, credential);

    // The wish has its id from the beginning. A program that must be sure over its own crash keeps it, and sends the
    // same wish again: the agent is told once.
    let wish = Notify { from: Some("deploys".to_owned()), ..Notify::new(&agent, "the deploy is through") };
    let notified = house.notify(&wish).await?;
    for one in &notified.dispatched {
        println!("{}: {}", one.connector, one.error.as_deref().unwrap_or("ok"));
    }
    if notified.dispatched.is_empty() {
        return Err(format!("nobody knows an agent `{agent}`").into());
    }

    let question = Ask { timeout: Duration::from_secs(20), ..Ask::new(&agent, "2 + 3") };
    match house.exchange(&question).await {
        Ok(answered) => println!("answer: {} data: {:?}", answered.response.content, answered.data),
        Err(Fault::Timeout) => println!("nobody answered within 20 s"),
        // It may be answered all the same: `house.attach(&question.correlation_id)` finds out.
        Err(fault) => return Err(fault.into()),
    }

    for receipt in house.receipt(&wish.dispatch_id).await? {
        let lag = receipt.queue_lag_ms.unwrap_or_default();
        println!("{}: {} after {lag} ms", receipt.connector, receipt.state.word());
    }
    Ok(())
}
