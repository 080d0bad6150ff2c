//! Markdown of agents, rendered for the page without holding up other work.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use tokio::sync::{Mutex, Semaphore};

use crate::safe_html::{HtmlDialect, to_html};

/// Longest text, in bytes, that is rendered on the async worker; it takes well under a millisecond. Longer texts are
/// rendered on a blocking thread.
const SHORT: usize = 4 * 1024;

/// Number of long texts that are rendered at the same time, over all agents and readers.
const AT_ONCE: usize = 2;

/// Renders without blocking the async workers: one long text per agent or reading tenant at a time.
#[derive(Clone)]
pub(super) struct Renderer {
    in_all: Arc<Semaphore>,
    own: Cache<Arc<str>, Arc<Mutex<()>>>,
}

impl Default for Renderer {
    fn default() -> Self {
        let own = Cache::builder().max_capacity(10_000).time_to_idle(Duration::from_secs(60)).build();
        Self { in_all: Arc::new(Semaphore::new(AT_ONCE)), own }
    }
}

impl Renderer {
    /// HTML for this Markdown; `None` if it would be too long. `whose` is the agent that has just written it, or the
    /// tenant whose people read it again.
    pub(super) async fn html(&self, whose: &str, markdown: &str) -> Option<String> {
        if markdown.len() <= SHORT {
            return html(markdown);
        }
        // The own lock comes first, so that a text waits for at most one text of any other agent or tenant.
        let own = self.own.get_with(whose.into(), Arc::default);
        let _own = own.lock().await;
        let _turn = self.in_all.acquire().await.ok()?;
        let markdown = markdown.to_owned();
        tokio::task::spawn_blocking(move || html(&markdown)).await.ok()?
    }
}

/// HTML for this Markdown; `None` if it would be too long.
fn html(markdown: &str) -> Option<String> {
    to_html(markdown, HtmlDialect::Page)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn long_texts_of_one_agent_leave_a_turn_for_another() {
        let renderer = Renderer::default();
        let long = "word ".repeat(2_000);
        // One of its texts is being rendered, and more wait.
        let noisy = renderer.own.get_with("noisy".into(), Arc::default);
        let _own = noisy.lock().await;
        let _turn = renderer.in_all.acquire().await.unwrap();
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(renderer.html("noisy", &long))).collect();
        assert!(waiting.iter_mut().all(|waiting| waiting.as_mut().now_or_never().is_none()));
        assert!(renderer.html("quiet", &long).await.is_some());
        assert!(waiting.iter_mut().all(|waiting| waiting.as_mut().now_or_never().is_none()));
    }
}
