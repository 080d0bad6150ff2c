//! Owners of conversations: who gets the replies of an agent that name no entry.

use super::*;
use crate::book::days;

const EGRET: &str = "inst_acme_egret";

/// A message of another agent of the tenant to heron in the same conversation.
fn from(book: &Book, agent: &str, dispatch: &str) -> NewReceipt {
    NewReceipt {
        sender: format!("agent:{agent}").into(),
        sent_by: Some(agent.into()),
        ..word(book, dispatch, dispatch)
    }
}

async fn heard(book: &Book, receipt: NewReceipt) -> (EntryId, ReceiptKey) {
    let dispatch = receipt.dispatch.clone();
    let entry = kept(book, receipt).await;
    (entry, told(book, dispatch.as_str()).await.key)
}

/// The recipient of heron's replies.
async fn speaks(book: &Book, to: Option<&EntryId>) -> Option<ReceiptKey> {
    let receipts = book.ledger.receipts();
    receipts.said(&HERON.into(), &"post-ci".into(), to, utterance(book, "well")).await.unwrap()
}

stories! {
    async fn an_agent_that_steps_into_a_programs_conversation_hears_only_what_names_its_entry(book) {
        let (_, program) = heard(&book, word(&book, "program", "program")).await;
        let (entry, otter) = heard(&book, from(&book, OTTER, "otter")).await;
        assert_eq!(speaks(&book, None).await, Some(program));
        assert_eq!(speaks(&book, Some(&EntryId::mint(5))).await, Some(program));
        assert!(texts(&book, otter).await.is_empty());
        assert_eq!(speaks(&book, Some(&entry)).await, Some(otter));
    }

    async fn an_agent_that_steps_into_another_agents_conversation_hears_as_little(book) {
        let (_, otter) = heard(&book, from(&book, OTTER, "otter")).await;
        let (_, egret) = heard(&book, from(&book, EGRET, "egret")).await;
        assert_eq!(speaks(&book, None).await, Some(otter));
        assert!(texts(&book, egret).await.is_empty());
    }

    async fn whoever_began_a_conversation_hears_the_answers_to_their_latest(book) {
        heard(&book, from(&book, OTTER, "one")).await;
        heard(&book, from(&book, EGRET, "between")).await;
        let (_, two) = heard(&book, from(&book, OTTER, "two")).await;
        assert_eq!(speaks(&book, None).await, Some(two));
    }

    async fn a_program_of_the_tenant_takes_over_any_conversation_for_good(book) {
        heard(&book, from(&book, OTTER, "otter")).await;
        let (_, program) = heard(&book, word(&book, "program", "program")).await;
        assert_eq!(speaks(&book, None).await, Some(program));
        heard(&book, from(&book, OTTER, "otter again")).await;
        assert_eq!(speaks(&book, None).await, Some(program), "it may not read what is now said there");
        let (_, second) = heard(&book, word(&book, "second", "second")).await;
        assert_eq!(speaks(&book, None).await, Some(second), "the tenant's programs are one");
    }

    async fn what_was_scheduled_steps_in_no_further_when_its_time_comes(book) {
        let (_, program) = heard(&book, word(&book, "program", "program")).await;
        let open = Opening::Scheduled { body: body("later"), at: book.clock.now() };
        let later = opened(&book, NewReceipt { open, ..from(&book, OTTER, "later") }).await;
        assert_eq!(heard(&book, from(&book, OTTER, "later")).await.1, later);
        assert_eq!(speaks(&book, None).await, Some(program));
    }

    async fn a_conversation_is_one_agents_and_one_chats(book) {
        heard(&book, word(&book, "program", "program")).await;
        let elsewhere = NewReceipt { chat: Some("post-otter".into()), ..from(&book, OTTER, "elsewhere") };
        let (_, key) = heard(&book, elsewhere).await;
        let receipts = book.ledger.receipts();
        let said = receipts.said(&HERON.into(), &"post-otter".into(), None, utterance(&book, "aye")).await;
        assert_eq!(said.unwrap(), Some(key));
    }

    async fn whoever_comes_after_the_receipt_is_gone_begins_anew(book) {
        heard(&book, word(&book, "program", "program")).await;
        book.winds(days(20));
        let (_, early) = heard(&book, from(&book, OTTER, "early")).await;
        book.winds(days(11));
        book.prunes().await;
        assert_eq!(speaks(&book, None).await, None, "what came between does not inherit it");
        assert!(texts(&book, early).await.is_empty());
        let (_, otter) = heard(&book, from(&book, OTTER, "otter")).await;
        assert_eq!(speaks(&book, None).await, Some(otter));
        heard(&book, from(&book, EGRET, "egret")).await;
        assert_eq!(speaks(&book, None).await, Some(otter));
    }
}
