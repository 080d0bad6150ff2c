//! Runs a job every two minutes, also after the agent was switched off for a while: the server calls when
//! the job is due. Start it with the variables that `posthouse agent create NAME --json` prints under
//! `env`, those under `cron` in capitals (`CRON_PROVIDER=chronos`, `CRON_CHRONOS_PORTAL_URL=…`), and the
//! client: `CRON_CHRONOS_CLIENT_ID`, `CRON_CHRONOS_CLIENT_SECRET`.
//!
//! With `CRON_CHRONOS_DELIVER=socket`, fires arrive on the agent's own relay connection, so that it also
//! works on a laptop. With `CRON_CHRONOS_CALLBACK_URL` (and feature `axum`), the server calls
//! 127.0.0.1:8377 behind that URL. With neither, a ticker in this process runs the jobs.

use posthouse_agent::cron::{Config, Cron, Run};
use posthouse_agent::jobs::{JobStore, JsonFile, NewJob};
use posthouse_agent::{Agent, Settings, WebSocketTransport, termination};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = Config::from_env();
    let home = std::env::args().nth(1).unwrap_or_else(|| "cron-agent-home".to_owned());
    let store = JsonFile::open(&home, config.store_settings())?;
    if store.list().await?.is_empty() {
        let job = store.create(NewJob::new("every 2m").prompt("say what time it is")).await?;
        println!("set {} to run {}", job.id(), job.schedule_display());
    }
    let cron = Cron::builder(store, config.store_settings()).configured(&config).on_job(run);
    for job in cron.store().list().await? {
        println!("{} is due {}", job.name(), job.next_run_text().unwrap_or("never"));
    }
    if config.by_socket {
        let line = WebSocketTransport::new(Settings::from_env()?.taking_fires())?;
        cron.follow(&line);
        Agent::builder(line).cron(cron).on_message(|_, _| async { Ok(()) }).run(termination()).await?;
        return Ok(());
    }
    cron.start();
    serve(&cron, &config).await?;
    cron.stop().await;
    Ok(())
}

async fn run(run: Run) -> Result<(), String> {
    let job = run.job();
    let due = run.fire_at().map_or("now".to_owned(), |at| at.to_string());
    println!("{}, due {due}; next {}", job.prompt(), job.next_run_text().unwrap_or("never"));
    Ok(())
}

#[cfg(feature = "axum")]
async fn serve(cron: &Cron, config: &Config) -> std::io::Result<()> {
    if config.callback_url.is_empty() {
        termination().await;
        return Ok(());
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8377").await?;
    println!("waiting for fires on {}", listener.local_addr()?);
    axum::serve(listener, cron.route()).with_graceful_shutdown(termination()).await
}

#[cfg(not(feature = "axum"))]
async fn serve(_: &Cron, _: &Config) -> std::io::Result<()> {
    termination().await;
    Ok(())
}
