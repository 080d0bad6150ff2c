//! Skills of tenants: writes over what was read, history, deletion, revision, storage.

use ledger::{
    ReplacedSkill, RestoredSkill, SkillAuditEvent, SkillAuditRow, SkillHistoryLine, SkillRecord,
    SkillReplacement, SkillSeq, StoredSkill,
};
use posthouse_wire::TenantId;

use crate::book::{Book, days, minutes};

fn acme() -> TenantId {
    "ten_acme".into()
}

/// A hash for a text, good enough for a test.
fn hash(text: &str) -> String {
    let number = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |number, byte| {
        (number ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{number:016x}").repeat(4)
}

fn text_as(book: &Book, name: &str, status: &str, text: &str) -> SkillReplacement {
    let now = book.clock.now();
    let record = SkillRecord {
        name: name.to_owned(),
        content_hash: hash(text),
        status: status.to_owned(),
        author: Some("ann".to_owned()),
        created: now,
        updated: now,
        status_changed: now,
        summary: "{}".to_owned(),
        metadata: None,
    };
    let (body, changed_by) = (text.to_owned(), Some("ann".to_owned()));
    SkillReplacement { record, body, previous_status: None, changed: now, changed_by, audit: None }
}

async fn replaces(
    book: &Book,
    of: &TenantId,
    expected: Option<SkillSeq>,
    new: SkillReplacement,
) -> ReplacedSkill {
    book.ledger.skills().replace_skill(of, expected, new).await.unwrap()
}

/// Writes over whatever is there.
async fn writes(book: &Book, of: &TenantId, name: &str, text: &str) -> SkillSeq {
    let expected = found(book, of, name).await.map(|skill| skill.seq);
    match replaces(book, of, expected, text_as(book, name, "Draft", text)).await {
        ReplacedSkill::Replaced(seq) => seq,
        other => panic!("{other:?}"),
    }
}

async fn found(book: &Book, of: &TenantId, name: &str) -> Option<StoredSkill> {
    book.ledger.skills().skill(of, name).await.unwrap()
}

async fn text(book: &Book, of: &TenantId, name: &str, version: Option<&str>) -> Option<String> {
    let found = book.ledger.skills().skill_body(of, name, version).await.unwrap();
    found.and_then(|found| found.body).map(|body| body.text)
}

async fn history(book: &Book, of: &TenantId, name: &str) -> Vec<SkillHistoryLine> {
    book.ledger.skills().skill_history(of, name, SkillSeq(0), 1000).await.unwrap()
}

async fn names(book: &Book, of: &TenantId) -> Vec<String> {
    let skills = book.ledger.skills().skills(of, None, 1000).await.unwrap();
    skills.into_iter().map(|skill| skill.name).collect()
}

async fn revision(book: &Book, of: &TenantId) -> i64 {
    book.ledger.skills().skill_revision(of).await.unwrap().number
}

fn used(book: &Book) -> i64 {
    book.ledger.usage().of_tenant(&acme()).used
}

stories! {
    async fn a_skill_is_replaced_only_as_it_was_read(book) {
        book.tenant("acme").await;
        let first = writes(&book, &acme(), "note", "one").await;
        let new = || text_as(&book, "note", "Draft", "two");
        assert_eq!(replaces(&book, &acme(), None, new()).await, ReplacedSkill::Changed, "the name is taken");
        let ReplacedSkill::Replaced(second) = replaces(&book, &acme(), Some(first), new()).await else { panic!() };
        assert_eq!(replaces(&book, &acme(), Some(first), new()).await, ReplacedSkill::Changed, "a repeat");
        assert_eq!(found(&book, &acme(), "note").await.unwrap().seq, second);
        assert_eq!(text(&book, &acme(), "note", None).await.unwrap(), "two");
        let missing = replaces(&book, &acme(), Some(second), text_as(&book, "other", "Draft", "x")).await;
        assert_eq!(missing, ReplacedSkill::Changed, "no such skill");
        let nobody: TenantId = "ten_nobody".into();
        assert_eq!(replaces(&book, &nobody, None, new()).await, ReplacedSkill::NoTenant);
    }

    async fn a_skill_and_its_audit_row_are_one_commit(book) {
        book.tenant("acme").await;
        let row = SkillAuditRow {
            at: book.clock.now(),
            event: SkillAuditEvent::Approved,
            skill: "note".to_owned(),
            version: Some(hash("one")[..12].to_owned()),
            caller: "tenant:ten_acme".to_owned(),
            key: None,
            reason: None,
        };
        let new = || SkillReplacement { audit: Some(row.clone()), ..text_as(&book, "note", "Approved", "one") };
        let log = async || book.ledger.skill_approval().skill_audit(&acme(), None, 10).await.unwrap();
        let ReplacedSkill::Replaced(first) = replaces(&book, &acme(), None, new()).await else { panic!() };
        assert_eq!(log().await, [(1, row.clone())]);
        assert_eq!(replaces(&book, &acme(), None, new()).await, ReplacedSkill::Changed);
        assert_eq!(log().await.len(), 1, "a write that does not happen has no row");
        replaces(&book, &acme(), Some(first), new()).await;
        assert_eq!(log().await.len(), 2);
    }

    async fn every_version_can_be_read_and_every_write_is_a_line_of_history(book) {
        book.tenant("acme").await;
        for text in ["one", "two", "one", "one"] {
            writes(&book, &acme(), "note", text).await;
        }
        let lines = history(&book, &acme(), "note").await;
        let versions: Vec<&str> = lines.iter().map(SkillHistoryLine::version).collect();
        let (one, two) = (hash("one")[..12].to_owned(), hash("two")[..12].to_owned());
        assert_eq!(versions, [&one, &two, &one, &one]);
        assert!(lines.is_sorted_by_key(|line| line.seq));
        let rest = book.ledger.skills().skill_history(&acme(), "note", lines[1].seq, 1).await.unwrap();
        assert_eq!(rest, lines[2..3]);
        assert_eq!(text(&book, &acme(), "note", Some(&two)).await.as_deref(), Some("two"));
        for wrong in ["", &two[..11], "000000000000", "%"] {
            assert_eq!(text(&book, &acme(), "note", Some(wrong)).await, None, "{wrong}");
            assert!(book.ledger.skills().skill_body(&acme(), "note", Some(wrong)).await.unwrap().is_some());
        }
        writes(&book, &acme(), "other", "three").await;
        let three = hash("three")[..12].to_owned();
        assert_eq!(text(&book, &acme(), "note", Some(&three)).await, None, "a version of another skill");
    }

    async fn the_revision_moves_with_what_a_list_shows_and_only_then(book) {
        book.tenant("acme").await;
        book.tenant("globex").await;
        assert_eq!(revision(&book, &acme()).await, 0);
        let first = writes(&book, &acme(), "note", "one").await;
        assert_eq!(revision(&book, &acme()).await, 1);
        writes(&book, &acme(), "note", "one").await;
        assert_eq!(revision(&book, &acme()).await, 1, "the same again");
        replaces(&book, &acme(), Some(first), text_as(&book, "note", "Draft", "two")).await;
        book.ledger.skills().delete_skill(&acme(), "ghost").await.unwrap();
        book.ledger.skills().restore_skill(&acme(), "ghost").await.unwrap();
        assert_eq!(revision(&book, &acme()).await, 1, "what was refused");
        let seq = found(&book, &acme(), "note").await.unwrap().seq;
        replaces(&book, &acme(), Some(seq), text_as(&book, "note", "Approved", "one")).await;
        assert_eq!(revision(&book, &acme()).await, 2, "another status");
        writes(&book, &acme(), "note", "two").await;
        book.winds(minutes(1));
        book.ledger.skills().delete_skill(&acme(), "note").await.unwrap();
        assert_eq!(revision(&book, &acme()).await, 4);
        assert_eq!(book.ledger.skills().skill_revision(&acme()).await.unwrap().moved, book.clock.now());
        book.ledger.skills().restore_skill(&acme(), "note").await.unwrap();
        assert_eq!(revision(&book, &acme()).await, 5);
        assert_eq!(revision(&book, &"ten_globex".into()).await, 0);
    }

    async fn skills_are_listed_by_the_bytes_of_their_names(book) {
        book.tenant("acme").await;
        for name in ["b", "B", "a-1", "a.1", "a1"] {
            writes(&book, &acme(), name, name).await;
        }
        assert_eq!(names(&book, &acme()).await, ["B", "a-1", "a.1", "a1", "b"]);
        let page = book.ledger.skills().skills(&acme(), Some("a-1"), 2).await.unwrap();
        assert_eq!(page.iter().map(|skill| skill.name.as_str()).collect::<Vec<_>>(), ["a.1", "a1"]);
    }

    async fn tenants_see_and_change_only_their_own(book) {
        book.tenant("acme").await;
        book.tenant("globex").await;
        let globex: TenantId = "ten_globex".into();
        writes(&book, &acme(), "note", "secret").await;
        let version = hash("secret")[..12].to_owned();
        let skills = book.ledger.skills();
        assert_eq!((found(&book, &globex, "note").await, names(&book, &globex).await), (None, vec![]));
        assert!(!skills.delete_skill(&globex, "note").await.unwrap());
        assert_eq!(history(&book, &globex, "note").await, []);
        let seq = writes(&book, &globex, "note", "own").await;
        assert_eq!(seq, SkillSeq(1), "numbers are counted per tenant");
        assert_eq!(text(&book, &globex, "note", Some(&version)).await, None);
        assert!(skills.delete_skill(&globex, "note").await.unwrap());
        assert_eq!(text(&book, &acme(), "note", None).await.as_deref(), Some("secret"));
        assert_eq!(skills.restore_skill(&acme(), "note").await.unwrap(), RestoredSkill::NotFound);
    }

    async fn a_deleted_skill_frees_its_name_and_can_be_restored_for_thirty_days(book) {
        book.tenant("acme").await;
        let skills = book.ledger.skills();
        writes(&book, &acme(), "note", "first").await;
        writes(&book, &acme(), "note", "second").await;
        assert!(skills.delete_skill(&acme(), "note").await.unwrap());
        assert!(!skills.delete_skill(&acme(), "note").await.unwrap());
        assert_eq!((found(&book, &acme(), "note").await, names(&book, &acme()).await), (None, vec![]));
        assert_eq!(history(&book, &acme(), "note").await, []);
        writes(&book, &acme(), "note", "new").await;
        assert_eq!(history(&book, &acme(), "note").await.len(), 1, "a clean history");
        assert_eq!(text(&book, &acme(), "note", Some(&hash("first")[..12])).await, None);
        assert_eq!(skills.restore_skill(&acme(), "note").await.unwrap(), RestoredSkill::NameTaken);
        book.winds(days(29));
        book.prunes().await;
        skills.delete_skill(&acme(), "note").await.unwrap();
        // The one that was deleted last comes back first.
        assert_eq!(skills.restore_skill(&acme(), "note").await.unwrap(), RestoredSkill::Restored);
        assert_eq!(text(&book, &acme(), "note", None).await.as_deref(), Some("new"));
        skills.delete_skill(&acme(), "note").await.unwrap();
        book.winds(days(1) + minutes(1));
        book.prunes().await;
        assert_eq!(skills.restore_skill(&acme(), "note").await.unwrap(), RestoredSkill::Restored);
        assert_eq!(text(&book, &acme(), "note", None).await.as_deref(), Some("new"));
        skills.delete_skill(&acme(), "note").await.unwrap();
        book.winds(days(31));
        book.prunes().await;
        assert_eq!(skills.restore_skill(&acme(), "note").await.unwrap(), RestoredSkill::NotFound);
        assert_eq!(used(&book), 0, "nothing is left");
    }

    async fn the_wall_clock_alone_prunes_no_deleted_skill(book) {
        book.tenant("acme").await;
        writes(&book, &acme(), "note", "text").await;
        book.ledger.skills().delete_skill(&acme(), "note").await.unwrap();
        book.clock.set(book.clock.now() + days(365));
        book.prunes().await;
        assert_eq!(book.ledger.skills().restore_skill(&acme(), "note").await.unwrap(), RestoredSkill::Restored);
    }

    async fn a_text_counts_once_and_is_given_back_with_the_last_line_that_has_it(book) {
        book.tenant("acme").await;
        let long = "x".repeat(10_000);
        writes(&book, &acme(), "note", &long).await;
        let once = used(&book);
        assert!((10_000..12_000).contains(&once), "{once}");
        writes(&book, &acme(), "note", &long).await;
        writes(&book, &acme(), "other", &long).await;
        assert!((500..2000).contains(&(used(&book) - once)), "two lines and a skill");
        book.ledger.skills().delete_skill(&acme(), "note").await.unwrap();
        book.winds(days(31));
        book.prunes().await;
        assert_eq!(used(&book), once, "the other skill still has the text");
        assert_eq!(text(&book, &acme(), "other", None).await, Some(long));
    }

    async fn a_long_history_is_pruned_a_few_lines_at_a_time(book) {
        book.tenant("acme").await;
        for number in 0..120 {
            writes(&book, &acme(), "note", &format!("text {number}")).await;
        }
        book.ledger.skills().delete_skill(&acme(), "note").await.unwrap();
        book.winds(days(31));
        assert_eq!(book.prunes().await, 3);
        assert_eq!(used(&book), 0);
    }

    async fn a_removed_tenant_leaves_nothing(book) {
        book.tenant("acme").await;
        writes(&book, &acme(), "note", "one").await;
        writes(&book, &acme(), "gone", "two").await;
        book.ledger.skills().delete_skill(&acme(), "gone").await.unwrap();
        book.ledger.roster().remove_tenant(&acme()).await.unwrap();
        assert_eq!((used(&book), names(&book, &acme()).await), (0, vec![]));
        book.tenant("acme").await;
        assert_eq!(book.ledger.skills().restore_skill(&acme(), "gone").await.unwrap(), RestoredSkill::NotFound);
        assert_eq!(revision(&book, &acme()).await, 0);
    }

    async fn a_write_that_fails_in_the_middle_leaves_everything_as_it_was(book) {
        book.tenant("acme").await;
        let seq = writes(&book, &acme(), "note", "one").await;
        let before = (used(&book), revision(&book, &acme()).await);
        book.ledger.fail_writes(Some(("INSERT", "skill_history"))).await.unwrap();
        let new = text_as(&book, "note", "Draft", "two");
        assert!(book.ledger.skills().replace_skill(&acme(), Some(seq), new).await.is_err());
        book.ledger.fail_writes(None).await.unwrap();
        assert_eq!((used(&book), revision(&book, &acme()).await), before);
        assert_eq!(text(&book, &acme(), "note", None).await.as_deref(), Some("one"));
    }
}

#[tokio::test]
async fn a_tenant_with_as_many_skills_as_it_may_have_can_still_change_them() {
    let book = Book::in_a_folder().await;
    book.tenant("acme").await;
    writes(&book, &acme(), "note", "one").await;
    book.beside().execute("UPDATE skill_revisions SET skills = 100000", []).unwrap();
    let another = text_as(&book, "another", "Draft", "x");
    assert_eq!(replaces(&book, &acme(), None, another).await, ReplacedSkill::TooMany);
    writes(&book, &acme(), "note", "two").await;
    book.ledger.skills().delete_skill(&acme(), "note").await.unwrap();
    assert_eq!(book.ledger.skills().restore_skill(&acme(), "note").await.unwrap(), RestoredSkill::Restored);
}

#[tokio::test]
async fn skills_survive_a_restart() {
    let book = Book::in_a_folder().await;
    book.tenant("acme").await;
    let seq = writes(&book, &acme(), "note", "one").await;
    let book = book.reopened().await;
    assert_eq!(found(&book, &acme(), "note").await.unwrap().seq, seq);
    assert_eq!(text(&book, &acme(), "note", None).await.as_deref(), Some("one"));
    assert_eq!(revision(&book, &acme()).await, 1);
}
