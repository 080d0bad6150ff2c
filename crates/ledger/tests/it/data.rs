//! Data of tenants: kept, searched inside one tenant, expired, limited, and removed with its tenant.

use std::time::Duration;

use futures_util::future::join_all;
use ledger::{
    DataFound, DataRecord, DataSearch, DataSeq, DataWritten, FoundData, Removed, Tenant, TextQuery,
};
use posthouse_time::Moment;
use posthouse_wire::{DataId, TenantId};

use crate::book::{Book, START};

const DAY: Duration = Duration::from_secs(24 * 3600);

async fn tenants(book: &Book) {
    for name in ["acme", "globex"] {
        let tenant =
            Tenant { id: format!("ten_{name}").into(), name: name.to_owned(), created: book.clock.now() };
        book.ledger.roster().create_tenant(tenant).await.unwrap();
    }
}

fn entry(book: &Book, content: &str) -> DataRecord {
    DataRecord {
        id: DataId::mint(book.clock.now().millis()),
        content: content.to_owned(),
        tags: Vec::new(),
        attributes: None,
        metadata: None,
        created: book.clock.now(),
        expires: None,
    }
}

async fn writes(book: &Book, tenant: &str, new: DataRecord) -> DataId {
    let id = new.id.clone();
    assert_eq!(book.ledger.data().write_data(&tenant.into(), new).await.unwrap(), DataWritten::Written);
    id
}

async fn says(book: &Book, tenant: &str, content: &str) -> DataId {
    writes(book, tenant, entry(book, content)).await
}

fn search(text: &str) -> DataSearch {
    DataSearch { text: TextQuery::read(text), any_tag: None, before: None, limit: 10 }
}

async fn asks(book: &Book, tenant: &str, search: DataSearch) -> Vec<FoundData> {
    match book.ledger.data().search_data(&tenant.into(), search).await.unwrap() {
        DataFound::Found(found) => found,
        other => panic!("{other:?}"),
    }
}

async fn finds(book: &Book, tenant: &str, text: &str) -> Vec<String> {
    asks(book, tenant, search(text)).await.into_iter().map(|found| found.record.content).collect()
}

async fn has(book: &Book, tenant: &str, id: &DataId) -> bool {
    book.ledger.data().data_entry(&tenant.into(), id).await.unwrap().is_some()
}

stories! {
    async fn an_entry_is_found_by_its_id_and_its_words_in_its_own_tenant_alone(book) {
        tenants(&book).await;
        let mut new = entry(&book, "Harbour opened early\nFerries ran at five.");
        new.tags = vec!["sea".to_owned(), "ops".to_owned()];
        new.metadata = Some(r#"{"a":1}"#.to_owned());
        let id = writes(&book, "ten_acme", new.clone()).await;
        assert_eq!(writes(&book, "ten_acme", new.clone()).await, id, "a repeat stores nothing");
        let stored = book.ledger.data().data_entry(&"ten_acme".into(), &id).await.unwrap().unwrap();
        assert_eq!((&stored, stored.summary().as_str()), (&new, "Harbour opened early"));
        assert!(!has(&book, "ten_globex", &id).await && !has(&book, "ten_acme", &"nope".into()).await);
        for text in ["ferries", "FERRIES harbour", "raw:ferries OR nothing", "", "  "] {
            assert_eq!(finds(&book, "ten_acme", text).await, [new.content.as_str()], "{text}");
            assert_eq!(finds(&book, "ten_globex", text).await, [""; 0], "{text}");
        }
        assert_eq!(finds(&book, "ten_acme", "ferries OR nothing").await, [""; 0]);
        for (text, tags, found) in [("", ["sea"], 1), ("ferries", ["ops"], 1), ("", ["sky"], 0), ("ferries", ["sky"], 0)] {
            let tagged = DataSearch { any_tag: Some(tags.map(str::to_owned).to_vec()), ..search(text) };
            assert_eq!(asks(&book, "ten_acme", tagged).await.len(), found, "{text} {tags:?}");
        }
        let nobody = book.ledger.data().write_data(&"ten_ghost".into(), entry(&book, "x")).await.unwrap();
        assert_eq!(nobody, DataWritten::NoTenant);
    }

    async fn a_thousand_entries_of_another_tenant_change_no_score(book) {
        tenants(&book).await;
        for text in ["red sea at dawn", "red red wine", "a blue sea", "nothing of it, but long enough to count"] {
            says(&book, "ten_acme", text).await;
        }
        let before: Vec<_> = asks(&book, "ten_acme", search("red")).await;
        assert_eq!(before.len(), 2);
        assert!(before[0].score.unwrap() < before[1].score.unwrap());
        let others = (0..1000).map(|number| says(&book, "ten_globex", if number % 3 == 0 { "red" } else { "red sea red" }));
        let mut others: Vec<_> = others.collect();
        while !others.is_empty() {
            let rest = others.split_off(others.len().min(100));
            join_all(others).await;
            others = rest;
        }
        assert_eq!(finds(&book, "ten_globex", "red").await.len(), 10);
        assert_eq!(asks(&book, "ten_acme", search("red")).await, before);
    }

    async fn the_newest_come_in_pages(book) {
        tenants(&book).await;
        for number in 0..7 {
            let mut new = entry(&book, &format!("n{number}"));
            new.tags = if number % 2 == 0 { vec!["even".to_owned()] } else { Vec::new() };
            writes(&book, "ten_acme", new).await;
        }
        for (tags, expected) in [(None, "n6 n5 n4 n3 n2 n1 n0"), (Some(vec!["even".to_owned()]), "n6 n4 n2 n0")] {
            let (mut seen, mut before) = (Vec::new(), None::<DataSeq>);
            loop {
                let page = DataSearch { any_tag: tags.clone(), before, limit: 2, ..search("") };
                let page = asks(&book, "ten_acme", page).await;
                let Some(last) = page.last() else { break };
                before = Some(last.seq);
                seen.extend(page.into_iter().map(|found| found.record.content));
            }
            assert_eq!(seen.join(" "), expected);
        }
    }

    async fn an_expired_entry_is_not_found_and_comes_back_if_the_clock_was_wrong(book) {
        tenants(&book).await;
        let expiring = |text: &str, days: u32| DataRecord {
            expires: Some(book.clock.now() + DAY * days),
            tags: vec!["t".to_owned()],
            ..entry(&book, text)
        };
        let short = writes(&book, "ten_acme", expiring("short harbour", 2)).await;
        let long = says(&book, "ten_acme", "long harbour").await;
        assert_eq!(finds(&book, "ten_acme", "harbour").await.len(), 2);
        // The wall clock jumps ahead by a month and is corrected later.
        let right = book.clock.now();
        book.clock.set(right + DAY * 30);
        for text in ["harbour", ""] {
            assert_eq!(finds(&book, "ten_acme", text).await, ["long harbour"]);
        }
        assert!(!has(&book, "ten_acme", &short).await && has(&book, "ten_acme", &long).await);
        let tagged = DataSearch { any_tag: Some(vec!["t".to_owned()]), ..search("") };
        assert!(asks(&book, "ten_acme", tagged).await.is_empty());
        while book.ledger.facts().prune().await.unwrap() {}
        says(&book, "ten_acme", "another").await;
        assert_eq!(finds(&book, "ten_acme", "another").await.len(), 1);
        book.clock.set(right);
        assert!(has(&book, "ten_acme", &short).await, "nothing was deleted");
        assert_eq!(finds(&book, "ten_acme", "harbour").await.len(), 2);
        // Now the time really passes.
        let used = book.ledger.usage().data_of_tenant(&"ten_acme".into()).used;
        book.clock.wind(DAY * 4);
        assert_eq!(finds(&book, "ten_acme", "harbour").await, ["long harbour"]);
        while book.ledger.facts().prune().await.unwrap() {}
        assert!(book.ledger.usage().data_of_tenant(&"ten_acme".into()).used < used, "it was deleted");
        assert_eq!(finds(&book, "ten_acme", "long").await.len(), 1);
        says(&book, "ten_acme", "one more").await;
        assert_eq!(finds(&book, "ten_acme", "harbour").await, ["long harbour"]);
    }

    async fn the_limit_of_one_tenant_leaves_the_other_its_own(book) {
        tenants(&book).await;
        let acme: TenantId = "ten_acme".into();
        book.ledger.usage().set_data_limit(&acme, Some(2000)).await.unwrap();
        let data = book.ledger.data();
        let write = |tenant: &'static str, text: String| {
            let (data, new) = (data.clone(), entry(&book, &text));
            async move { data.write_data(&tenant.into(), new).await.unwrap() }
        };
        // Writes that share a commit do not exceed the limit together.
        let written = join_all((0..5).map(|_| write("ten_acme", "x".repeat(400)))).await;
        assert_eq!(written.iter().filter(|written| **written == DataWritten::Written).count(), 2);
        assert!(written.contains(&DataWritten::Full { limit: 2000 }));
        assert_eq!(write("ten_globex", "x".repeat(400)).await, DataWritten::Written);
        let storage = book.ledger.usage().data_of_tenant(&acme);
        assert_eq!((storage.used, storage.limit, storage.own_limit), (2 * 912, 2000, true));
        assert_eq!(book.ledger.usage().of_tenant(&acme).used, 0, "data has its own sum");
        book.ledger.usage().set_data_limit(&acme, None).await.unwrap();
        assert_eq!(write("ten_acme", "x".repeat(400)).await, DataWritten::Written);
    }

    async fn hostile_texts_are_searched_and_only_a_raw_expression_can_be_wrong(book) {
        tenants(&book).await;
        says(&book, "ten_acme", "plain \"quoted\" AND harbour* 'x' \u{0} NEAR(").await;
        for text in [
            "\"", "\"\"", "'", "*", "^harbour", "harbour*", "AND", "OR NOT", "NEAR(a b", "(", ")", "{a}:", "summary:x",
            "-", "--", ";DROP TABLE data", "\u{0}", "a\u{0}b", "\u{1F600}", "\u{feff}x", "%", "é\u{301}", "raw", "+", ":",
            &"\"".repeat(300), &"x".repeat(100_000), &"a ".repeat(250),
        ] {
            assert!(matches!(
                book.ledger.data().search_data(&"ten_acme".into(), search(text)).await.unwrap(),
                DataFound::Found(_)
            ), "{text:?}");
        }
        assert_eq!(finds(&book, "ten_acme", "\"quoted\" AND harbour*").await.len(), 1);
        for text in ["raw:", "raw:\"", "raw:AND", "raw:(", "raw:nothing:x", "raw:*reads", "raw:a\u{0}b", "raw:NEAR(", "raw:-"] {
            let found = book.ledger.data().search_data(&"ten_acme".into(), search(text)).await.unwrap();
            assert!(matches!(found, DataFound::BadExpression(_)), "{text:?}: {found:?}");
        }
        assert_eq!(finds(&book, "ten_acme", "raw:detail:harb*").await.len(), 1);
    }

    async fn data_goes_with_its_tenant(book) {
        tenants(&book).await;
        let mut ids = Vec::new();
        for number in 0..120 {
            ids.push(says(&book, "ten_acme", &format!("text {number}")).await);
        }
        says(&book, "ten_globex", "text of another").await;
        assert_eq!(finds(&book, "ten_acme", "text").await.len(), 10);
        let removed = book.ledger.roster().remove_tenant(&"ten_acme".into()).await.unwrap();
        assert_eq!(removed, Removed::Gone);
        let refused = book.ledger.data().write_data(&"ten_acme".into(), entry(&book, "late")).await.unwrap();
        assert_eq!(refused, DataWritten::NoTenant);
        while book.ledger.facts().prune().await.unwrap() {}
        assert!(!has(&book, "ten_acme", &ids[0]).await);
        assert_eq!(finds(&book, "ten_acme", "text").await, [""; 0]);
        assert_eq!(book.ledger.usage().data_of_tenant(&"ten_acme".into()).used, 0);
        assert_eq!(finds(&book, "ten_globex", "text").await, ["text of another"]);
    }
}

#[tokio::test]
async fn what_was_answered_is_there_after_reopening_and_so_is_the_index() {
    let book = Book::in_a_folder().await;
    tenants(&book).await;
    let id = says(&book, "ten_acme", "kept harbour").await;
    assert_eq!(finds(&book, "ten_acme", "harbour").await.len(), 1);
    says(&book, "ten_acme", "late harbour").await;
    let book = book.reopened().await;
    assert!(has(&book, "ten_acme", &id).await);
    assert_eq!(finds(&book, "ten_acme", "harbour").await.len(), 2);
}

#[tokio::test]
async fn an_index_that_is_lost_damaged_or_of_another_ledger_is_made_again() {
    let book = Book::in_a_folder().await;
    tenants(&book).await;
    says(&book, "ten_acme", "first harbour").await;
    let backup = book.folder().join("backup.db");
    book.ledger.facts().backup(&backup).await.unwrap();
    says(&book, "ten_acme", "second harbour").await;
    assert_eq!(finds(&book, "ten_acme", "harbour").await.len(), 2);
    let (ledger, index) = (book.file(), book.folder().join("data-index/ten_acme.db"));
    // The backup is restored, and its next entry gets the number that the index already knows.
    let book = book
        .reopened_with(|| {
            std::fs::copy(&backup, &ledger).unwrap();
            for log in ["ledger.db-wal", "ledger.db-shm"] {
                let _ = std::fs::remove_file(ledger.with_file_name(log));
            }
        })
        .await;
    says(&book, "ten_acme", "third harbour").await;
    let found = finds(&book, "ten_acme", "harbour").await;
    assert_eq!(found, ["third harbour", "first harbour"]);
    let book =
        book.reopened_with(|| std::fs::write(&index, "this is no database".repeat(500)).unwrap()).await;
    assert_eq!(finds(&book, "ten_acme", "harbour").await, found);
    let book = book.reopened_with(|| std::fs::remove_file(&index).unwrap()).await;
    assert_eq!(finds(&book, "ten_acme", "harbour").await, found);
    let removed = book.ledger.roster().remove_tenant(&"ten_acme".into()).await.unwrap();
    assert_eq!(removed, Removed::Gone);
    while book.ledger.facts().prune().await.unwrap() {}
    assert!(!index.exists());
}

#[tokio::test]
async fn more_tenants_than_open_indexes_are_all_searched() {
    let book = Book::in_a_folder().await;
    for round in 0..2 {
        for number in 0..80 {
            let id = format!("ten_{number}");
            if round == 0 {
                let tenant = Tenant { id: id.as_str().into(), name: format!("t{number}"), created: START };
                book.ledger.roster().create_tenant(tenant).await.unwrap();
            }
            says(&book, &id, &format!("word of {number}")).await;
            assert_eq!(finds(&book, &id, "word").await.len(), round + 1, "{number}");
        }
    }
}

#[tokio::test]
async fn a_summary_and_its_time_are_those_of_the_writer() {
    let book = Book::in_memory().await;
    tenants(&book).await;
    let new = DataRecord { created: Moment::from_seconds(1_700_000_000), ..entry(&book, "a\nb") };
    let id = writes(&book, "ten_acme", new).await;
    let stored = book.ledger.data().data_entry(&"ten_acme".into(), &id).await.unwrap().unwrap();
    assert_eq!((stored.created.seconds(), stored.summary().as_str()), (1_700_000_000, "a"));
}
