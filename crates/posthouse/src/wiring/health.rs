//! Health of the server, and restarting of loops that have failed.

use std::sync::Arc;
use std::time::Duration;

use ledger::Ledger;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::ADMIN;

/// Health of the server, with the reason if it is not ready.
#[derive(Clone)]
pub struct ServerHealth {
    ledger: Arc<dyn ledger::ServerFacts>,
    fallen: Arc<Mutex<Vec<(&'static str, String)>>>,
}

impl ServerHealth {
    pub fn new(ledger: &Ledger) -> Self {
        Self { ledger: ledger.facts(), fallen: Arc::default() }
    }

    pub async fn check(&self) -> Result<(), String> {
        if let Some((name, why)) = self.fallen.lock().first() {
            return Err(format!("the {name} loop has failed: {why}"));
        }
        if let Some(fault) = self.ledger.refusal() {
            return Err(format!("the disk refuses writes: {fault}"));
        }
        self.ledger.fact(ADMIN).await.map(drop).map_err(|fault| fault.to_string())
    }

    /// Runs a loop until shutdown. A failed loop shows in the health and is restarted.
    pub(super) fn keep_up<F>(
        &self,
        name: &'static str,
        stop: &CancellationToken,
        start: impl Fn() -> F + Send + 'static,
    ) where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let (fallen, stop) = (Arc::clone(&self.fallen), stop.clone());
        tokio::spawn(async move {
            let mut pause = Duration::from_millis(250);
            loop {
                let ended = tokio::spawn(start()).await;
                if stop.is_cancelled() {
                    return;
                }
                let why = match ended {
                    Ok(Ok(())) => "it ended unexpectedly".to_owned(),
                    Ok(Err(why)) => why,
                    Err(_) => "it panicked".to_owned(),
                };
                tracing::error!(name, why, "a loop has failed and is restarted");
                fallen.lock().push((name, why));
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
                pause = (pause * 2).min(Duration::from_secs(30));
                fallen.lock().retain(|(of, _)| *of != name);
            }
        });
    }
}
