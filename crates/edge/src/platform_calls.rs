//! Calls to the APIs of platforms: one HTTP client per platform, and one handling of deadlines, retries and rate
//! limits.
//!
//! A platform's code turns responses into results or [`CallFailure`]s. Everything after that is the same for all
//! platforms (platform specification, section 0.8).

mod calls_with_deadline;
mod download;
mod failure;
mod fair_turns;
mod platform_socket;
mod rate_limits;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::HeaderMap;
use posthouse_time::Timepiece;
use reqwest::redirect::Policy;

pub use calls_with_deadline::{CallsWithDeadline, RepeatRule};
pub use failure::{CallFailure, CallRefusal, RefusalKind};
pub use fair_turns::ShareOwner;
pub use platform_socket::{PlatformSocket, SocketFrame};
pub use rate_limits::{CallShare, PlatformRateLimits};

const CONNECT: Duration = Duration::from_secs(5);
/// Shorter than the idle timeout of the platforms: a call written to a closing connection is lost.
const KEEP_IDLE: Duration = Duration::from_secs(30);
/// Largest response body, in bytes. Only a full batch of polled events comes near this.
const LARGEST_ANSWER: usize = 16 << 20;

/// The HTTP client of one platform. Clones share connections.
#[derive(Clone)]
pub struct PlatformClient {
    /// Built for the first call, because it reads the machine's certificates, which a server without bots does not
    /// need.
    client: Arc<OnceLock<Result<reqwest::Client, String>>>,
    lookup: errand::SystemLookup,
    timepiece: Timepiece,
    user_agent: &'static str,
}

/// A response as it came.
pub struct CallReply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl PlatformClient {
    pub fn new(timepiece: Timepiece) -> Self {
        let lookup = errand::SystemLookup::default();
        Self { client: Arc::default(), lookup, timepiece, user_agent: "posthouse" }
    }

    pub fn with_user_agent(self, user_agent: &'static str) -> Self {
        Self { client: Arc::default(), user_agent, ..self }
    }

    /// The same with another resolver of host names, which counts from the first call on.
    pub fn with_lookup(self, lookup: errand::SystemLookup) -> Self {
        Self { client: Arc::default(), lookup, ..self }
    }

    pub fn timepiece(&self) -> &Timepiece {
        &self.timepiece
    }

    /// For building a request.
    pub fn http(&self) -> Result<&reqwest::Client, CallFailure> {
        let client = self.client.get_or_init(|| {
            let built = reqwest::Client::builder()
                // A redirect would pass the bot's credential on.
                .redirect(Policy::none())
                .no_proxy()
                // One connection per call. On a shared HTTP/2 connection, hanging calls could use up all streams and
                // block the rest.
                .http1_only()
                // It resolves on threads of its own, a few per host. So a host whose lookups hang blocks neither the
                // calls to other hosts nor the runtime's blocking threads.
                .dns_resolver(Arc::new(self.lookup.clone()))
                .connect_timeout(CONNECT)
                .pool_idle_timeout(KEEP_IDLE)
                .user_agent(self.user_agent)
                .build();
            built.map_err(|error| error.without_url().to_string())
        });
        client.as_ref().map_err(|cause| CallFailure::Unreached(cause.clone()))
    }

    /// Sends a request and waits at most `limit` for the whole response.
    pub async fn exchange(
        &self,
        request: reqwest::RequestBuilder,
        limit: Duration,
    ) -> Result<CallReply, CallFailure> {
        let exchange = async {
            let mut response = request.send().await.map_err(transport_failure)?;
            let status = response.status().as_u16();
            let headers = std::mem::take(response.headers_mut());
            let mut body = Vec::new();
            // The status is known by now, so an error while reading the body does not change the result.
            while let Ok(Some(part)) = response.chunk().await {
                body.extend_from_slice(&part);
                if body.len() > LARGEST_ANSWER {
                    if status < 300 {
                        return Err(CallFailure::TooLarge);
                    }
                    break;
                }
            }
            Ok(CallReply { status, headers, body })
        };
        self.timepiece.within(limit, exchange).await.unwrap_or(Err(CallFailure::Lost))
    }
}

/// A failure without a response. URLs may contain credentials, so none is ever printed.
pub fn transport_failure(error: reqwest::Error) -> CallFailure {
    if !error.is_connect() && !error.is_builder() {
        return CallFailure::Lost;
    }
    let error = error.without_url();
    let mut deepest: &dyn std::error::Error = &error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    CallFailure::Unreached(deepest.to_string())
}
