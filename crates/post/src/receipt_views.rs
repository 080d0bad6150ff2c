//! Reading receipts: lists for callers and for the operator, with the replies of agents.

use std::sync::Arc;

use ledger::{Digest, Receipt, ReceiptFilter, ReceiptKey, Receipts};
use posthouse_wire::{DispatchId, TenantId};

use crate::requests::{PAGE, ReceiptListing, ReceiptWithReplies};
use crate::{Caller, Fault, Refused};

/// Reads receipts, for those who may see them.
pub struct ReceiptViews {
    receipts: Arc<dyn Receipts>,
}

impl ReceiptViews {
    pub(crate) fn new(receipts: Arc<dyn Receipts>) -> Self {
        Self { receipts }
    }

    /// The receipts that this caller may see, newest first.
    pub async fn list(
        &self,
        by: &Caller,
        listing: ReceiptListing,
    ) -> Result<Vec<ReceiptWithReplies>, Refused> {
        let filter = ReceiptFilter {
            tenant: Some(by.tenant.clone()),
            sent_by: by.instance().cloned(),
            ..ReceiptFilter::default()
        };
        self.page(filter, listing).await
    }

    /// The list position of a receipt of this caller.
    pub(crate) async fn position_of(
        &self,
        by: &Caller,
        dispatch: &DispatchId,
        digest: Digest,
    ) -> Result<Option<ReceiptKey>, Refused> {
        Ok(self.receipts.receipt(&by.tenant, dispatch, digest).await?.map(|receipt| receipt.key))
    }

    /// All receipts of one dispatch of this caller.
    pub async fn of_dispatch(
        &self,
        by: &Caller,
        dispatch: &DispatchId,
    ) -> Result<Vec<ReceiptWithReplies>, Refused> {
        // Other agents of the tenant do not see them.
        let receipts = self.receipts.receipts_of(Some(&by.tenant), by.instance(), dispatch).await?;
        self.with_replies(receipts).await
    }

    /// Whether a caller may name this dispatch as a cause: an agent if it sent or received it, a program if its tenant has
    /// a receipt of it.
    pub async fn concerns(&self, by: &Caller, dispatch: &DispatchId) -> Result<bool, Refused> {
        let receipts = self.receipts.receipts_of(Some(&by.tenant), None, dispatch).await?;
        Ok(receipts.iter().any(|receipt| {
            by.instance()
                .is_none_or(|agent| [&receipt.sent_by, &receipt.instance].contains(&&Some(agent.clone())))
        }))
    }

    /// Receipts of all tenants or of one, for the operator.
    pub async fn list_for_operator(
        &self,
        tenant: Option<&TenantId>,
        listing: ReceiptListing,
    ) -> Result<Vec<ReceiptWithReplies>, Refused> {
        self.page(ReceiptFilter { tenant: tenant.cloned(), ..ReceiptFilter::default() }, listing).await
    }

    /// All receipts of a dispatch id in any tenant, for the operator.
    pub async fn of_any_dispatch(&self, dispatch: &DispatchId) -> Result<Vec<ReceiptWithReplies>, Refused> {
        let receipts = self.receipts.receipts_of(None, None, dispatch).await?;
        self.with_replies(receipts).await
    }

    async fn page(
        &self,
        filter: ReceiptFilter,
        listing: ReceiptListing,
    ) -> Result<Vec<ReceiptWithReplies>, Refused> {
        let ReceiptListing { agent, state, before, limit } = listing;
        let filter = ReceiptFilter { agent, state, ..filter };
        let limit = u32::try_from(PAGE.clamp(limit)).unwrap_or(u32::MAX);
        let receipts = self.receipts.receipts(filter, before, limit).await?;
        Ok(self.read_replies(receipts).await?)
    }

    async fn with_replies(&self, receipts: Vec<Receipt>) -> Result<Vec<ReceiptWithReplies>, Refused> {
        if receipts.is_empty() {
            return Err(Refused::Absent);
        }
        Ok(self.read_replies(receipts).await?)
    }

    async fn read_replies(&self, receipts: Vec<Receipt>) -> Result<Vec<ReceiptWithReplies>, Fault> {
        let mut read = Vec::with_capacity(receipts.len());
        for receipt in receipts {
            let replies = self.receipts.replies(receipt.key).await?;
            read.push(ReceiptWithReplies { receipt, replies });
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixtures::Fixture;

    #[tokio::test]
    async fn a_receipt_is_found_in_its_own_tenant_and_by_the_operator() {
        let fixture = Fixture::open().await;
        let (reader, by) = (ReceiptViews::new(fixture.ledger.receipts()), fixture.operator());
        let question = fixture.question("q-1", std::time::Duration::from_secs(30)).await;
        let own = reader.of_dispatch(&by, &question.dispatch).await.unwrap();
        assert_eq!((own.len(), own[0].receipt.agent.as_str()), (1, "desk"));
        assert_eq!(reader.list(&by, ReceiptListing::default()).await.unwrap().len(), 1);
        let stranger = Caller { tenant: "ten_other".into(), ..by };
        let theirs = reader.of_dispatch(&stranger, &question.dispatch).await;
        assert!(matches!(theirs, Err(Refused::Absent)));
        assert_eq!(reader.of_any_dispatch(&question.dispatch).await.unwrap().len(), 1);
    }
}
