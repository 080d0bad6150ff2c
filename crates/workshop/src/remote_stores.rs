//! Calls to remote stores: signed requests to the endpoint of a tenant, with limits on time, size and number.
//!
//! Every request is a POST to the one URL of the endpoint. The operation and the tenant are in the body, because the
//! signature covers the body and nothing else. `docs/store-contract.md` describes the contract.
//!
//! - Each tenant has its own limit on concurrent calls, so a slow endpoint delays only its tenant.
//! - The time limit includes the wait for a free slot.
//! - An answer that is too large, not whole, not JSON or of the wrong shape is a failure, and so is one that repeats a
//!   secret of the request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use errand::{Errand, OutgoingCall, Url};
use http::HeaderValue;
use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE};
use ledger::StoreKind;
use moka::sync::Cache;
use posthouse_time::Timepiece;
use posthouse_wire::{RequestId, TenantId};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use vault::WebhookSigner;

use crate::backend::RemoteSkillStore;
use crate::data_stores::RemoteDataStore;
use crate::fault::Fault;
use crate::metrics::Metrics;
use crate::store_failure::StoreFailure;

/// The version of the contract, which every request names.
const CONTRACT: u32 = 1;
/// Time limit of one call.
pub(crate) const CALL_LIMIT: Duration = Duration::from_secs(10);
/// Calls to one endpoint at the same time. Together with the largest answer this bounds the memory of a tenant.
const RUNNING: usize = 8;
/// Calls that run or wait for a slot. Further calls are refused at once.
const ADMITTED: usize = 64;
/// Longest text of a remote store that a refusal repeats, in characters.
const REASON: usize = 200;

/// The answer of a remote store, or its failure, or a fault of the server.
pub(crate) type RemoteAnswer<T> = Result<Result<T, StoreFailure>, Fault>;

/// The endpoints of all tenants.
pub struct RemoteStores {
    errand: Errand,
    signer: WebhookSigner,
    metrics: Arc<Metrics>,
    timepiece: Timepiece,
    /// The endpoints are kept because they hold the limits on concurrent calls.
    endpoints: Cache<(TenantId, StoreKind, String), Arc<RemoteEndpoint>>,
}

/// The endpoint of one store of one tenant.
pub(crate) struct RemoteEndpoint {
    tenant: TenantId,
    kind: StoreKind,
    url: String,
    errand: Errand,
    signer: WebhookSigner,
    metrics: Arc<Metrics>,
    timepiece: Timepiece,
    running: Semaphore,
    admitted: Semaphore,
}

/// What an operation returns, or the reason why the store refuses it.
pub(crate) enum OperationAnswer<T> {
    Refused { refused: String },
    Done(T),
}

/// The text is read twice. An untagged enum would first keep every value of the answer, known or not, in a form that
/// takes many times the memory of the text.
impl<'de, T: DeserializeOwned> Deserialize<'de> for OperationAnswer<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct RefusedOperation {
            refused: String,
        }
        let answer = Box::<RawValue>::deserialize(from)?;
        if let Ok(RefusedOperation { refused }) = serde_json::from_str(answer.get()) {
            return Ok(Self::Refused { refused });
        }
        serde_json::from_str(answer.get()).map(Self::Done).map_err(D::Error::custom)
    }
}

impl RemoteStores {
    pub fn new(errand: Errand, signer: WebhookSigner, metrics: Arc<Metrics>, timepiece: Timepiece) -> Self {
        let idle = Duration::from_secs(600);
        let endpoints = Cache::builder().max_capacity(10_000).time_to_idle(idle).build();
        Self { errand, signer, metrics, timepiece, endpoints }
    }

    /// The skills of a tenant at this URL.
    pub fn skills(&self, tenant: &TenantId, url: &str) -> RemoteSkillStore {
        RemoteSkillStore::open(self.endpoint(tenant, StoreKind::Skills, url), self.timepiece.clone())
    }

    /// The data of a tenant at this URL.
    pub fn data(&self, tenant: &TenantId, url: &str) -> RemoteDataStore {
        RemoteDataStore::new(self.endpoint(tenant, StoreKind::Data, url), self.timepiece.clone())
    }

    /// The URL as it is stored, if the server may call it.
    pub(crate) fn check(&self, url: &str) -> Result<Url, String> {
        self.errand.check_base(url).map_err(|refusal| refusal.to_string())
    }

    pub(crate) fn signer(&self) -> &WebhookSigner {
        &self.signer
    }

    fn endpoint(&self, tenant: &TenantId, kind: StoreKind, url: &str) -> Arc<RemoteEndpoint> {
        self.endpoints.get_with((tenant.clone(), kind, url.to_owned()), || {
            Arc::new(RemoteEndpoint {
                tenant: tenant.clone(),
                kind,
                url: url.to_owned(),
                errand: self.errand.clone(),
                signer: self.signer.clone(),
                metrics: Arc::clone(&self.metrics),
                timepiece: self.timepiece.clone(),
                running: Semaphore::new(RUNNING),
                admitted: Semaphore::new(ADMITTED),
            })
        })
    }
}

impl RemoteEndpoint {
    /// Makes one call. `arguments` is an object, to which the operation and the tenant are added.
    pub async fn call<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        arguments: Value,
        largest: usize,
    ) -> RemoteAnswer<T> {
        let answer = match self.admitted.try_acquire() {
            Ok(_place) => {
                let limited =
                    self.timepiece.within(CALL_LIMIT, self.run(operation, arguments, largest)).await;
                limited.unwrap_or(Ok(Err(StoreFailure::TimedOut)))
            }
            Err(_) => Ok(Err(StoreFailure::Busy)),
        };
        if let Ok(answer) = &answer {
            self.metrics.remote_call(self.kind, answer.as_ref().err());
        }
        if let Ok(Err(failure)) = &answer {
            tracing::warn!(tenant = %self.tenant, store = self.kind.word(), operation, %failure,
                "a remote store failed");
        }
        answer
    }

    async fn run<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        mut arguments: Value,
        largest: usize,
    ) -> RemoteAnswer<T> {
        let Ok(_place) = self.running.acquire().await else { return Ok(Err(StoreFailure::Busy)) };
        let now = self.timepiece.now();
        arguments["contract"] = json!(CONTRACT);
        arguments["operation"] = json!(operation);
        arguments["tenant"] = json!(self.tenant.as_str());
        let body = Bytes::from(arguments.to_string());
        let id = RequestId::mint(now.millis());
        let signed = (id.as_str(), now.seconds());
        let mut call = OutgoingCall::post(self.url.as_str(), body.clone())
            .timeout(CALL_LIMIT)
            .max_answer(largest)
            .on_behalf_of(self.tenant.as_str());
        let authentication =
            self.signer.authenticate_store_request(&self.tenant, self.kind, &self.url, &body, signed).await?;
        call.headers = authentication.headers.clone();
        if call.headers.is_empty() {
            // Every remote store has a secret. Without one, the operator has just chosen another store.
            let why = "the tenant has another store now".to_owned();
            return Ok(Err(StoreFailure::Unreachable { why }));
        }
        let json = HeaderValue::from_static("application/json");
        let call = call.header(CONTENT_TYPE, json.clone()).header(ACCEPT, json);
        Ok(match self.errand.run(call).await {
            Ok(answer) if answer.status != StatusCode::OK => {
                Err(StoreFailure::Status { status: answer.status.as_u16() })
            }
            Ok(answer) if !answer.whole && answer.body.len() >= largest => {
                Err(StoreFailure::bad_answer(format!("it has more than {largest} bytes")))
            }
            Ok(answer) if !answer.whole => Err(StoreFailure::bad_answer("it broke off")),
            Ok(answer) if authentication.is_echoed_in(&answer.body) => {
                Err(StoreFailure::bad_answer("it repeats a secret of this server"))
            }
            Ok(answer) => serde_json::from_slice(&answer.body)
                .map_err(|_| StoreFailure::bad_answer(format!("it is no answer to `{operation}`"))),
            Err(errand::Fault::TimedOut | errand::Fault::ConnectTimedOut) => Err(StoreFailure::TimedOut),
            Err(fault) => Err(StoreFailure::Unreachable { why: fault.to_string() }),
        })
    }
}

/// The beginning of a text of a remote store, without control characters.
pub(crate) fn reason(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(REASON).collect()
}

/// Deserializes a member that must be present and may be null.
pub(crate) fn nullable<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(from)
}
