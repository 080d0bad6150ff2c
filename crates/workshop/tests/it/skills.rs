//! Skills as callers use them: who may write, approve and delete, in which store.

use std::os::unix::fs::PermissionsExt;

use futures_util::future::join_all;
use ledger::{SkillAuditEvent, SkillSettingsChange};
use skill::{Status, stamp};
use workshop::{SettingsRefusal, SkillFilter, SkillWrite};

use crate::fixtures::{granted, refused};
use crate::privileges::was_run_without_privileges;
use crate::tenants::{Tenants, signing_key};

const APPROVED: &str = "# Skill: tide\n# Status: Approved\ngo:\n    emit(text=\"high\")\n";

fn write(source: &str) -> SkillWrite {
    SkillWrite { source: source.to_owned(), ..SkillWrite::default() }
}

#[tokio::test]
async fn what_an_agent_writes_is_a_draft_and_it_cannot_approve() {
    let tenants = Tenants::open().await;
    let skills = tenants.workshop.skills();
    let status = Some(Status::Approved);
    let stored =
        granted(skills.write(&tenants.heron, "tide", SkillWrite { status, ..write(APPROVED) }).await);
    assert_eq!(stored.status, Status::Draft);
    let refusal = refused(skills.set_status(&tenants.heron, "tide", Status::Approved).await);
    assert_eq!(refusal.reason.class(), "ApprovalRejectedError");
    let approved = granted(skills.set_status(&tenants.program, "tide", Status::Approved).await);
    assert_eq!(approved.status, Status::Approved);
    // Its next write takes the approval away, whatever the text says.
    let stored = granted(skills.write(&tenants.heron, "tide", write("no status")).await);
    assert_eq!(stored.status, Status::Draft);
    let events: Vec<SkillAuditEvent> = tenants.log().await.iter().map(|row| row.event).collect();
    use SkillAuditEvent::{Approved, ForcedDraft, Refused};
    assert_eq!(events, [ForcedDraft, Refused, Approved, ForcedDraft]);
}

#[tokio::test]
async fn agents_approve_where_their_tenant_allows_it() {
    let tenants = Tenants::open().await;
    let may = SkillSettingsChange { agents_may_approve: Some(true), ..SkillSettingsChange::default() };
    tenants.change(may).await;
    let stored = granted(tenants.workshop.skills().write(&tenants.heron, "tide", write(APPROVED)).await);
    assert_eq!(stored.status, Status::Approved);
    // A door that forces Drafts forces them for everybody.
    let forced = SkillWrite { force_draft: true, ..write(APPROVED) };
    let stored = granted(tenants.workshop.skills().write(&tenants.program, "tide", forced).await);
    assert_eq!(stored.status, Status::Draft);
}

#[tokio::test]
async fn in_signed_mode_a_text_without_a_signature_becomes_a_draft() {
    let tenants = Tenants::open().await;
    tenants.demand_signatures().await;
    let id = tenants.add_key().await;
    let skills = tenants.workshop.skills();
    let stored = granted(skills.write(&tenants.program, "tide", write(APPROVED)).await);
    assert_eq!(stored.status, Status::Draft);
    let refusal = refused(skills.set_status(&tenants.program, "tide", Status::Approved).await);
    assert_eq!(refusal.reason.code(), "approval_rejected");
    let signed = stamp(APPROVED, &signing_key());
    let stored = granted(skills.write(&tenants.program, "tide", write(&signed)).await);
    assert_eq!(stored.status, Status::Approved);
    // An agent cannot bring in a text that was signed for another purpose either.
    let stored = granted(skills.write(&tenants.heron, "other", write(&signed)).await);
    assert_eq!(stored.status, Status::Draft);
    let log = tenants.log().await;
    let approved = log.iter().find(|row| row.event == SkillAuditEvent::Approved).unwrap();
    assert_eq!((approved.key.as_deref(), approved.skill.as_str()), (Some(id.as_str()), "tide"));
}

#[tokio::test]
async fn a_signature_of_another_version_approves_nothing_and_loses_no_text() {
    let tenants = Tenants::open().await;
    tenants.demand_signatures().await;
    tenants.add_key().await;
    let skills = tenants.workshop.skills();
    let signed = stamp(APPROVED, &signing_key());
    granted(skills.write(&tenants.program, "tide", write(&signed)).await);
    let token = signed.lines().nth(1).unwrap().strip_prefix("# Status: Approved ").unwrap();
    let bare = token.strip_prefix("v3:").unwrap();
    for wrong in [
        format!("v0:{bare}"),
        format!("v2:{bare}"),
        format!("v03:{bare}"),
        format!("v4:{bare}"),
        bare.to_owned(),
        format!("{token} {token}"),
        format!("v3:{bare}="),
        "v3:".to_owned(),
    ] {
        let text = signed.replace(token, &wrong);
        let stored = granted(skills.write(&tenants.program, "ebb", write(&text)).await);
        assert_eq!(stored.status, Status::Draft, "{wrong}");
        let source = granted(skills.load(&tenants.program, "ebb", None).await).source;
        assert!(source.ends_with("go:\n    emit(text=\"high\")\n"), "{source}");
        let refusal = refused(skills.set_status(&tenants.program, "ebb", Status::Approved).await);
        assert_eq!(refusal.reason.class(), "ApprovalRejectedError", "{wrong}");
    }
    assert_eq!(granted(skills.load(&tenants.program, "tide", None).await).source, signed);
}

#[tokio::test]
async fn in_a_store_elsewhere_the_log_has_a_row_before_the_write_and_one_after_it() {
    let tenants = Tenants::open().await;
    let folder = tenants.root().join("acme");
    let store = Some(format!("filesystem:{}", folder.display()));
    tenants.change(SkillSettingsChange { store, ..SkillSettingsChange::default() }).await;
    let skills = tenants.workshop.skills();
    granted(skills.write(&tenants.program, "tide", write(APPROVED)).await);
    granted(skills.write(&tenants.heron, "tide", write("no status")).await);
    // A folder in the place of a file refuses the write.
    std::fs::create_dir_all(folder.join("ebb.versions.jsonl").join("x")).unwrap();
    assert!(!matches!(skills.write(&tenants.program, "ebb", write(APPROVED)).await, Ok(Ok(_))));
    use SkillAuditEvent::{Approved, Attempted, ForcedDraft};
    let log = tenants.log().await;
    let rows: Vec<_> = log.iter().map(|row| (row.event, row.reason.as_deref())).collect();
    let expected = [
        (Attempted, Some("approved")),
        (Approved, None),
        (Attempted, Some("forced_draft")),
        (ForcedDraft, Some("this write makes every text a Draft")),
        (Attempted, Some("approved")),
    ];
    assert_eq!(rows[..5], expected, "{rows:?}");
    assert_eq!((&log[0].version, &log[0].skill), (&log[1].version, &log[1].skill));
    assert!(log[5..].iter().all(|row| row.event == SkillAuditEvent::Refused), "{rows:?}");
}

#[tokio::test]
async fn the_first_author_stays_and_others_may_still_write() {
    let tenants = Tenants::open().await;
    let skills = tenants.workshop.skills();
    granted(skills.write(&tenants.heron, "tide", write("one")).await);
    granted(skills.write(&tenants.program, "tide", write("two")).await);
    let meta = granted(skills.metadata(&tenants.program, "tide").await);
    assert_eq!(meta.author.as_deref(), Some("heron"));
    let by: Vec<Option<String>> = granted(skills.versions(&tenants.program, "tide", None, 100).await)
        .items
        .into_iter()
        .map(|line| line.changed_by)
        .collect();
    assert_eq!(by, [Some("heron".to_owned()), Some(tenants.program.client.to_string())]);
    let other = SkillWrite { author: Some("ann".to_owned()), ..write("three") };
    let refusal = refused(skills.write(&tenants.program, "tide", other.clone()).await);
    assert_eq!(refusal.reason.class(), "StorageConflictError");
    assert_eq!(refused(skills.write(&tenants.heron, "tide", other).await).reason.code(), "forbidden");
    let only_new = SkillWrite { only_new: true, ..write("four") };
    assert_eq!(
        refused(skills.write(&tenants.heron, "tide", only_new).await).reason.code(),
        "storage_conflict"
    );
}

#[tokio::test]
async fn a_skill_that_others_name_is_deleted_only_by_force_and_can_be_restored() {
    let tenants = Tenants::open().await;
    let (skills, program) = (tenants.workshop.skills(), &tenants.program);
    granted(skills.write(program, "tide", write(APPROVED)).await);
    granted(skills.write(program, "day", write("go:\n    execute_skill(name='tide')\n")).await);
    let refusal = refused(skills.delete(program, "tide", false).await);
    assert_eq!(refusal.to_string(), "'tide' is used by other skills: day");
    for name in ["tide", "ghost"] {
        assert_eq!(refused(skills.delete(&tenants.heron, name, true).await).reason.code(), "forbidden");
        assert_eq!(refused(skills.restore(&tenants.heron, name).await).reason.code(), "forbidden");
    }
    granted(skills.delete(program, "tide", true).await);
    assert_eq!(refused(skills.load(program, "tide", None).await).reason.code(), "skill_not_found");
    let deleted = granted(skills.deleted(program, None, 10).await);
    assert_eq!(deleted.items.iter().map(|skill| skill.name.as_str()).collect::<Vec<_>>(), ["tide"]);
    let restored = granted(skills.restore(program, "tide").await);
    assert_eq!(restored.status, Status::Approved);
    assert_eq!(granted(skills.load(program, "tide", None).await).source, APPROVED);
}

#[tokio::test]
async fn tenants_do_not_see_each_others_skills() {
    let tenants = Tenants::open().await;
    let skills = tenants.workshop.skills();
    granted(skills.write(&tenants.program, "tide", write(APPROVED)).await);
    let filter = SkillFilter::default();
    assert!(granted(skills.list(&tenants.stranger, &filter).await).is_empty());
    assert_eq!(refused(skills.load(&tenants.stranger, "tide", None).await).reason.code(), "skill_not_found");
    granted(skills.write(&tenants.stranger, "tide", write("mine")).await);
    assert_eq!(granted(skills.load(&tenants.program, "tide", None).await).source, APPROVED);
}

#[tokio::test]
async fn a_list_is_cut_into_pages_that_together_are_the_list() {
    let tenants = Tenants::open().await;
    let (skills, program) = (tenants.workshop.skills(), &tenants.program);
    for number in 0..25 {
        granted(skills.write(program, &format!("skill-{number:02}"), write("text")).await);
    }
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = granted(skills.page(program, SkillFilter { after, ..SkillFilter::default() }, 10).await);
        assert!(page.items.len() <= 10);
        seen.extend(page.items.into_iter().map(|skill| skill.name));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, (0..25).map(|number| format!("skill-{number:02}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_operator_chooses_a_store_below_the_roots_of_the_configuration() {
    let tenants = Tenants::open().await;
    let store = |store: String| SkillSettingsChange { store: Some(store), ..SkillSettingsChange::default() };
    let keys = tenants.workshop.approval_keys();
    std::os::unix::fs::symlink("/etc", tenants.root().join("link")).unwrap();
    std::fs::write(tenants.root().join("other.db"), "this is no database").unwrap();
    for bad in [
        "filesystem:/etc/skills".to_owned(),
        format!("filesystem:{}/../skills", tenants.root().display()),
        format!("filesystem:{}/link/skills", tenants.root().display()),
        format!("sqlite:{}/other.db", tenants.root().display()),
        "nowhere".to_owned(),
    ] {
        let changed = keys.change(&tenants.acme, store(bad.clone())).await.unwrap();
        assert!(matches!(changed, Err(SettingsRefusal::BadStore(_))), "{bad}: {changed:?}");
    }
    let (skills, program) = (tenants.workshop.skills(), &tenants.program);
    granted(skills.write(program, "tide", write("in the ledger")).await);
    let folder = tenants.root().join("acme");
    tenants.change(store(format!("filesystem:{}", folder.display()))).await;
    assert_eq!(refused(skills.load(program, "tide", None).await).reason.code(), "skill_not_found");
    granted(skills.write(program, "tide", write(APPROVED)).await);
    assert_eq!(std::fs::read_to_string(folder.join("tide.skill.md")).unwrap(), APPROVED);
    // A forced Draft beats the folder's rule that an overwrite keeps the status.
    let stored = granted(skills.write(&tenants.heron, "tide", write("# Skill: tide\n")).await);
    assert_eq!(stored.status, Status::Draft);
    tenants.change(store(format!("sqlite:{}", tenants.root().join("acme.db").display()))).await;
    granted(skills.write(program, "tide", write("in a file")).await);
    tenants.change(store("house".to_owned())).await;
    assert!(granted(skills.load(program, "tide", None).await).source.contains("in the ledger"));
}

#[tokio::test]
async fn a_folder_that_became_read_only_refuses_and_loses_nothing() {
    if was_run_without_privileges("skills::a_folder_that_became_read_only_refuses_and_loses_nothing") {
        return;
    }
    let tenants = Tenants::open().await;
    let folder = tenants.root().join("acme");
    let store = Some(format!("filesystem:{}", folder.display()));
    tenants.change(SkillSettingsChange { store, ..SkillSettingsChange::default() }).await;
    let (skills, program) = (tenants.workshop.skills(), &tenants.program);
    granted(skills.write(program, "tide", write(APPROVED)).await);
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o500)).unwrap();
    let changed = skills.write(program, "tide", write("other")).await;
    let new = skills.write(program, "ebb", write("other")).await;
    let draft = skills.set_status(program, "tide", Status::Draft).await;
    let deleted = skills.delete(program, "tide", true).await;
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    for answer in [changed.map(drop_info), new.map(drop_info), draft.map(drop_info), deleted] {
        assert_eq!(refused(answer).reason.code(), "read_only");
    }
    assert_eq!(granted(skills.load(program, "tide", None).await).source, APPROVED);
    assert_eq!(granted(skills.versions(program, "tide", None, 100).await).items.len(), 1);
    assert_eq!(refused(skills.load(program, "ebb", None).await).reason.code(), "skill_not_found");
}

fn drop_info<T, E>(answer: Result<T, E>) -> Result<(), E> {
    answer.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_writers_all_are_in_the_history_and_only_one_wins_with_a_version() {
    let tenants = Tenants::open().await;
    let (skills, program) = (tenants.workshop.skills(), &tenants.program);
    let first = granted(skills.write(program, "tide", write("begin")).await);
    let texts: Vec<String> = (0..20).map(|number| format!("text {number}")).collect();
    let written = join_all(texts.iter().map(|text| skills.write(program, "tide", write(text)))).await;
    written.into_iter().for_each(|answer| drop(granted(answer)));
    assert_eq!(granted(skills.versions(program, "tide", None, 100).await).items.len(), 21);
    let (mut lengths, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = granted(skills.versions(program, "tide", after.as_deref(), 10).await);
        lengths.push(page.items.len());
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(lengths, [10, 10, 1]);
    let version = granted(skills.metadata(program, "tide").await).version;
    assert_ne!(version, first.version);
    let conditional =
        |text: &String| SkillWrite { if_version: Some(version.clone()), ..write(&format!("{text}!")) };
    let writes = texts.iter().map(|text| skills.write(program, "tide", conditional(text)));
    let won = join_all(writes).await.into_iter().filter(|answer| answer.as_ref().unwrap().is_ok()).count();
    assert_eq!(won, 1);
}
