//! Capture of log output on the current thread.

use std::fmt::{Debug, Write};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

/// Captures until it is dropped, including tasks of a single-threaded runtime.
pub struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    _listening: DefaultGuard,
}

struct Listener(Arc<Mutex<Vec<String>>>);

struct LogLine(String);

impl Log {
    pub fn listen() -> Self {
        let lines = Arc::default();
        let listening = tracing::subscriber::set_default(Listener(Arc::clone(&lines)));
        Self { lines, _listening: listening }
    }

    /// The warnings since the last call, with their fields.
    pub fn warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock())
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN && metadata.target().starts_with("post")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = LogLine(String::new());
        event.record(&mut line);
        self.0.lock().push(line.0);
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

impl Visit for LogLine {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}
