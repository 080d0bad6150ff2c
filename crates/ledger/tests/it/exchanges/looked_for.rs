//! Questions whose answers the server polls for.

use super::*;

async fn opens_for(book: &Book, tenant: &str, correlation: &str, open_for: u64) {
    let question = question(book, correlation);
    let deadline = question.opened + minutes(open_for);
    opens(book, NewExchange { tenant: tenant.into(), collected: true, deadline, ..question }).await;
}

fn names(page: &[(i64, Exchange)]) -> Vec<String> {
    page.iter().map(|(_, exchange)| format!("{} {}", exchange.tenant, exchange.correlation)).collect()
}

/// Reads all pages, two questions at a time.
async fn walked(book: &Book) -> Vec<String> {
    let (mut after, mut seen) = (None, Vec::new());
    loop {
        let page = book.ledger.exchanges().uncollected(after, 2).await.unwrap();
        let Some((last, _)) = page.last() else { return seen };
        after = Some(*last);
        seen.extend(names(&page));
    }
}

async fn walked_overdue(book: &Book, since: Moment) -> Vec<String> {
    let (mut after, mut seen) = (None, Vec::new());
    loop {
        let page = book.ledger.exchanges().overdue(since, after, 2).await.unwrap();
        let Some((last, _)) = page.last() else { return seen };
        after = Some(*last);
        seen.extend(names(&page));
    }
}

stories! {
    async fn however_many_and_urgent_ones_a_tenant_has_the_others_are_come_by(book) {
        for correlation in ["c1", "c2", "c3"] {
            opens_for(&book, "ten_acme", correlation, 1).await;
        }
        opens_for(&book, "ten_zeta", "c1", 60).await;
        opens(&book, NewExchange { tenant: "ten_zeta".into(), ..question(&book, "comes by itself") }).await;
        assert_eq!(walked(&book).await, ["ten_acme c1", "ten_acme c2", "ten_acme c3", "ten_zeta c1"]);
    }

    async fn one_that_ends_during_the_walk_does_not_end_the_walk(book) {
        for (tenant, correlation) in [("ten_acme", "c1"), ("ten_acme", "c2"), ("ten_zeta", "c3")] {
            opens_for(&book, tenant, correlation, 5).await;
        }
        let exchanges = book.ledger.exchanges();
        let first = exchanges.uncollected(None, 2).await.unwrap();
        assert_eq!(names(&first), ["ten_acme c1", "ten_acme c2"]);
        assert_eq!(answers(&book, "c2", "done").await, Answered::First);
        let second = exchanges.uncollected(Some(first[1].0), 2).await.unwrap();
        assert_eq!(names(&second), ["ten_zeta c3"]);
        assert_eq!(walked(&book).await, ["ten_acme c1", "ten_zeta c3"], "what was answered is looked for no more");
    }

    async fn what_is_overdue_is_walked_through_in_the_same_way(book) {
        let start = book.clock.now();
        opens_for(&book, "ten_acme", "long ago", 1).await;
        book.winds(minutes(1));
        expires(&book, 10).await;
        for (tenant, correlation) in [("ten_acme", "c1"), ("ten_acme", "c2"), ("ten_acme", "c3"), ("ten_zeta", "c1")] {
            opens_for(&book, tenant, correlation, 5).await;
        }
        let since = book.clock.now();
        book.winds(minutes(5));
        assert_eq!(expires(&book, 10).await.len(), 4);
        let recent = ["ten_acme c1", "ten_acme c2", "ten_acme c3", "ten_zeta c1"];
        assert_eq!(walked_overdue(&book, since).await, recent);
        assert_eq!(walked_overdue(&book, start).await.len(), 5);
        assert!(walked(&book).await.is_empty());
        book.ledger.exchanges().stop_looking(&"ten_acme".into(), &"c2".into()).await.unwrap();
        assert_eq!(walked_overdue(&book, since).await, ["ten_acme c1", "ten_acme c3", "ten_zeta c1"]);
    }
}
