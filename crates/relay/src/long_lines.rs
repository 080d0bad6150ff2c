//! Parsing of long lines from agents on blocking threads: megabytes of JSON take many milliseconds.

use posthouse_wire::FromGateway;
use posthouse_wire::frame::UnreadableFrame;
use tokio::sync::Semaphore;

/// Longer lines are parsed on another thread. A line of this length takes well under a millisecond.
pub(crate) const LONG: usize = 64 * 1024;
/// Long lines parsed concurrently. Each socket waits for its own line, so it has at most one at a time.
const AT_ONCE: usize = 2;

/// Limits how many long lines are parsed concurrently.
pub(crate) struct LongLines(Semaphore);

impl Default for LongLines {
    fn default() -> Self {
        Self(Semaphore::new(AT_ONCE))
    }
}

impl LongLines {
    pub async fn parse(&self, line: Vec<u8>) -> Result<FromGateway, UnreadableFrame> {
        let Ok(_turn) = self.0.acquire().await else { return Err(UnreadableFrame::Ignored) };
        let parsed = tokio::task::spawn_blocking(move || FromGateway::read(&line)).await;
        // There is no result only when the runtime shuts down.
        parsed.unwrap_or(Err(UnreadableFrame::Ignored))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_long_line_leaves_the_async_workers_while_it_is_parsed() {
        let lines = LongLines::default();
        let filler = "x".repeat(4 << 20);
        let line = format!(r#"{{"type":"going_idle","filler":"{filler}"}}"#).into_bytes();
        let mut parsed = std::pin::pin!(lines.parse(line));
        assert!(parsed.as_mut().now_or_never().is_none(), "it is parsed on the worker that asks for it");
        assert!(matches!(parsed.await, Ok(FromGateway::GoingIdle)));
    }
}
