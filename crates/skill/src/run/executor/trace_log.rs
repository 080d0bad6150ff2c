//! The recording of operations for a trace. What it keeps is bounded in number and in bytes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Executor;
use crate::run::run_error::{ErrorClass, RunError};
use crate::run::trace::TracedOp;
use crate::syntax::tree::{OpKind, SkillOp, SkillTree};

/// Longer texts of operations are cut to this many bytes.
const TEXT_BYTES: usize = 1024;
/// A record costs this much beside its texts.
const RECORD_WEIGHT: usize = 128;

/// The recorded operations of one running skill.
#[derive(Default)]
pub struct TraceLog {
    pub ops: Vec<TracedOp>,
    /// How many operations were left out.
    pub untraced: u64,
    /// The texts of operations by their address in the tree. The rounds of a loop share them.
    texts: HashMap<usize, TracedTexts>,
}

#[derive(Clone)]
struct TracedTexts {
    body: Arc<str>,
    connector: Option<Arc<str>>,
}

/// Bytes of all records of a run, with those of the skills that it runs.
#[derive(Default)]
pub struct TraceBytes(AtomicUsize);

impl TraceBytes {
    pub fn taken(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts a record. `false` if there is no room for it.
    fn take(&self, bytes: usize, limit: usize) -> bool {
        // One task at a time runs operations, so nothing is lost between reading and writing.
        let taken = self.0.load(Ordering::Relaxed).saturating_add(bytes);
        if taken <= limit {
            self.0.store(taken, Ordering::Relaxed);
        }
        taken <= limit
    }
}

impl Executor<'_> {
    pub(super) fn record(&mut self, op: &SkillOp, started_at_ms: i64, error: Option<&RunError>) {
        if !self.context.is_traced {
            return;
        }
        let limits = self.limits();
        if self.trace.ops.len() >= limits.traced_operations {
            self.trace.untraced += 1;
            return;
        }
        let address = std::ptr::from_ref(op).addr();
        let texts = self.trace.texts.entry(address).or_insert_with(|| TracedTexts::of(self.tree, op)).clone();
        // A record is counted as it will be written: with its texts, whatever shares them here.
        let connector = texts.connector.as_ref().map_or(0, |name| name.len());
        let bytes = RECORD_WEIGHT + texts.body.len() + connector + self.target.len();
        if !self.shared.trace_bytes.take(bytes, limits.trace) {
            self.trace.untraced += 1;
            return;
        }
        self.trace.ops.push(TracedOp {
            op_kind: op.kind.word(),
            target: Arc::clone(&self.target),
            body: texts.body,
            started_at_ms,
            duration_ms: self.host.unix_millis() - started_at_ms,
            errored: error.is_some(),
            connector: texts.connector,
            is_blocked: error.is_some_and(|error| error.class == ErrorClass::ShellBinaryNotAllowed),
        });
    }
}

impl TracedTexts {
    fn of(tree: &SkillTree, op: &SkillOp) -> Self {
        let body = match &op.kind {
            // The text of a data skill stands nowhere in the source.
            OpKind::Set(set) if op.range.start == op.range.end => {
                Cow::Owned(format!("$set {} = {}", set.variable, cut(set.value.text())))
            }
            _ => Cow::Borrowed(tree.body(op)),
        };
        let connector = match &op.kind {
            OpKind::Dispatch(dispatch) => {
                Some(cut(dispatch.connector.as_deref().unwrap_or("primary")).into())
            }
            _ => None,
        };
        Self { body: cut(&body).into(), connector }
    }
}

/// The text, or its beginning and an ellipsis if it is long.
fn cut(text: &str) -> Cow<'_, str> {
    if text.len() <= TEXT_BYTES {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}…", &text[..text.floor_char_boundary(TEXT_BYTES)]))
}
