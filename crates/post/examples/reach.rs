//! Example of a program that sends a message and a question to an agent, and prints the results:
//! `cargo run -p post --example reach -- AGENT`.
//!
//! Set POSTHOUSE_URL, POSTHOUSE_CLIENT_ID and POSTHOUSE_CLIENT_SECRET. `posthouse client create --tenant T` creates a
//! credential.

use std::time::Duration;

use posthouse_agent::post::{ApiCredential, Ask, Client, Fault, Notify};
use posthouse_wire::Secret;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let agent = std::env::args().nth(1).ok_or("no agent: give its name as the argument")?;
    let setting = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set"));
    let credential = ApiCredential::Client {
        id: setting("POSTHOUSE_CLIENT_ID")?.as_str().into(),
        secret: Secret::new(setting("POSTHOUSE_CLIENT_SECRET")?),
    };
    let server = Client::new(&setting("POSTHOUSE_URL")?, credential);

    // The request has its dispatch id from the start. A program that stores the request and sends it again after a
    // crash delivers it only once.
    let request = Notify { from: Some("deploys".to_owned()), ..Notify::new(&agent, "the deploy is through") };
    let notified = server.notify(&request).await?;
    for one in &notified.dispatched {
        println!("{}: {}", one.connector, one.error.as_deref().unwrap_or("ok"));
    }
    if notified.dispatched.is_empty() {
        return Err(format!("no connector knows an agent `{agent}`").into());
    }

    let question = Ask { timeout: Duration::from_secs(20), ..Ask::new(&agent, "2 + 3") };
    match server.exchange(&question).await {
        Ok(answered) => println!("answer: {} data: {:?}", answered.response.content, answered.data),
        Err(Fault::Timeout(_)) => println!("no answer within 20 s"),
        // The question may still be answered: `server.attach(&question.correlation_id)` shows it.
        Err(fault) => return Err(fault.into()),
    }

    for receipt in server.receipt(&request.dispatch_id).await? {
        let lag = receipt.queue_lag_ms.unwrap_or_default();
        println!("{}: {} after {lag} ms", receipt.connector, receipt.state.word());
    }
    Ok(())
}
