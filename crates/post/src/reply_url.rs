//! Reply URLs: the address at which an agent behind a connector may answer one question.

use ledger::TokenHash;
use posthouse_wire::{DispatchId, TenantId};
use vault::WebhookSigner;

/// Makes reply URLs. Their token is derived from the dispatch, so every attempt at a question names the same URL.
#[derive(Clone)]
pub(crate) struct ReplyUrls {
    webhook_signer: WebhookSigner,
    public_url: String,
}

impl ReplyUrls {
    pub fn new(webhook_signer: WebhookSigner, public_url: String) -> Self {
        Self { webhook_signer, public_url }
    }

    pub fn url(&self, tenant: &TenantId, dispatch: &DispatchId) -> String {
        let (token, _) = self.webhook_signer.reply_token(tenant, dispatch);
        format!("{}/v1/replies/{}", self.public_url, token.expose())
    }

    /// The hash of the token in the URL, which is stored with the question.
    pub fn token_hash(&self, tenant: &TenantId, dispatch: &DispatchId) -> TokenHash {
        self.webhook_signer.reply_token(tenant, dispatch).1
    }
}
