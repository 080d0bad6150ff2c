//! Tests of the rules for writing a skill.

use proptest::prelude::*;
use skill::{BodyStatus, gate_line, status_of};

use super::*;
use crate::skill_meta::SkillSummary;

fn stored(status: Status, author: Option<&str>) -> SkillMeta {
    SkillMeta {
        name: "note".to_owned(),
        version: "0123456789ab".to_owned(),
        content_hash: String::new(),
        status,
        summary: SkillSummary::default(),
        created_at: 0,
        updated_at: 0,
        status_changed_at: None,
        author: author.map(str::to_owned),
        metadata_bag: None,
    }
}

fn decide(
    rules: &WriteRules,
    source: &str,
    options: &StoreOptions,
    current: Option<&SkillMeta>,
) -> Result<DecidedWrite, RefusalReason> {
    decide_write(rules, &ApprovalPolicy::Open, source, options, "note", current)
}

#[test]
fn names_stay_in_their_folder() {
    for good in ["a", "A-b_c.d", "9", "note.skill.md", &"x".repeat(NAME_BYTES)] {
        assert!(is_skill_name(good), "{good}");
    }
    let bad =
        ["", ".", "..", "../x", "a/b", "a\\b", ".hidden", "-x", "_x", "a b", "a\n", "a\0", "é", "a\u{202e}"];
    for bad in bad.iter().copied().chain([&*"x".repeat(NAME_BYTES + 1)]) {
        assert!(!is_skill_name(bad), "{bad:?}");
    }
}

#[test]
fn a_forced_draft_beats_the_status_of_the_text_the_store_and_the_write() {
    let rules = WriteRules { overwrite_keeps_status: true, ..WriteRules::default() };
    let options =
        StoreOptions { force_draft: true, status: Some(Status::Approved), ..StoreOptions::default() };
    for source in
        ["# Skill: a\n# Status: Approved v3:x\n", "  # Status: Approved\n# Skill: a\n", "# Skill: a\n"]
    {
        let decided = decide(&rules, source, &options, Some(&stored(Status::Approved, None))).unwrap();
        assert_eq!((decided.status, status_of(&decided.body).status()), (Status::Draft, Status::Draft));
        assert!(!decided.body.contains("v3:x"));
    }
}

#[test]
fn an_overwrite_keeps_the_status_only_where_the_store_wants_it() {
    let keeping = WriteRules { overwrite_keeps_status: true, ..WriteRules::default() };
    let current = stored(Status::Approved, None);
    let (draft, none) = ("# Status: Draft\n", StoreOptions::default());
    assert_eq!(decide(&keeping, draft, &none, Some(&current)).unwrap().status, Status::Approved);
    assert_eq!(decide(&WriteRules::default(), draft, &none, Some(&current)).unwrap().status, Status::Draft);
    let given = StoreOptions { status: Some(Status::Disabled), ..StoreOptions::default() };
    assert_eq!(decide(&keeping, draft, &given, Some(&current)).unwrap().status, Status::Disabled);
}

#[test]
fn the_first_author_stays() {
    let ann = StoreOptions { author: Some("ann".to_owned()), ..StoreOptions::default() };
    let bob = StoreOptions { author: Some("bob".to_owned()), ..StoreOptions::default() };
    let current = stored(Status::Draft, Some("ann"));
    let rules = WriteRules { default_author: Some("os".to_owned()), ..WriteRules::default() };
    let author = |options: &StoreOptions, current: Option<&SkillMeta>| {
        decide(&rules, "x", options, current).map(|decided| decided.author)
    };
    assert_eq!(author(&ann, None).unwrap().as_deref(), Some("ann"));
    assert_eq!(author(&StoreOptions::default(), None).unwrap().as_deref(), Some("os"));
    assert_eq!(author(&StoreOptions::default(), Some(&current)).unwrap().as_deref(), Some("ann"));
    assert_eq!(author(&bob, Some(&current)).unwrap_err().class(), "StorageConflictError");
}

#[test]
fn an_empty_status_line_swallows_no_header() {
    let changed =
        decide_status_change(&ApprovalPolicy::Open, "a", "# Status:\n# Vars: X\n", Status::Approved).unwrap();
    assert_eq!(changed, "# Status: Approved\n# Vars: X\n");
}

#[test]
fn a_text_over_its_size_is_refused_also_if_only_its_status_line_makes_it_so() {
    let rules = WriteRules::default();
    let options = StoreOptions { status: Some(Status::Approved), ..StoreOptions::default() };
    let longest = "x".repeat(BODY_BYTES);
    assert!(check_request(&rules, "note", &longest, &options).is_ok());
    assert_eq!(decide(&rules, &longest, &options, None).unwrap_err().code(), "too_large");
    assert_eq!(check_request(&rules, "note", &(longest + "x"), &options).unwrap_err().code(), "too_large");
}

proptest! {
    #[test]
    fn a_name_is_one_part_of_a_path(name in "[A-Za-z0-9./\\\\_ \\-\0\n~é]{0,12}") {
        let path = std::path::Path::new("/skills").join(format!("{name}.skill.md"));
        let inside = path.parent() == Some(std::path::Path::new("/skills"))
            && path.file_name().and_then(|file| file.to_str()) == Some(&format!("{name}.skill.md"));
        prop_assert!(!is_skill_name(&name) || inside, "{:?}", name);
    }

    #[test]
    fn the_stored_text_and_the_stored_status_agree(
        lines in prop::collection::vec(
            prop_oneof![
                Just("# Skill: a"), Just("# Status: Approved v3:AAAA"), Just("  # Status: Approved"),
                Just("# Status:"), Just("# Status: live"), Just("# Vars: X=1"), Just(""), Just("```skill"),
                Just("go:"), Just("\"\"\""), Just("#"), Just("Status: Approved"),
            ],
            0..8,
        ),
        crlf in any::<bool>(),
        force_draft in any::<bool>(),
        keeps in any::<bool>(),
        given in prop_oneof![Just(None), Just(Some(Status::Approved)), Just(Some(Status::Disabled))],
        previous in prop_oneof![Just(None), Just(Some(Status::Approved)), Just(Some(Status::Draft))],
    ) {
        let source = lines.join(if crlf { "\r\n" } else { "\n" });
        let rules = WriteRules { overwrite_keeps_status: keeps, ..WriteRules::default() };
        let options = StoreOptions { force_draft, status: given, ..StoreOptions::default() };
        let current = previous.map(|status| stored(status, None));
        let decided = decide(&rules, &source, &options, current.as_ref()).unwrap();
        prop_assert_eq!(status_of(&decided.body).status(), decided.status);
        if decided.status == Status::Approved {
            prop_assert_eq!(status_of(&decided.body), BodyStatus::Agreed(Status::Approved));
        }
        if force_draft {
            prop_assert_eq!(decided.status, Status::Draft);
            prop_assert!(gate_line(&decided.body).is_none_or(|line| line.token.is_none()));
        }
    }
}
