//! The catalogue: recorded answers, filters, and a version that moves with skills, mode and keys.

use serde_json::{Value, json};
use skill::{Status, stamp};
use workshop::{Audience, CatalogueAnswer, CatalogueQuery, SkillWrite};

use crate::fixtures::granted;
use crate::recorded::contract;
use crate::tenants::{Tenants, signing_key};

async fn list(tenants: &Tenants, query: &CatalogueQuery) -> Value {
    let answer = granted(tenants.workshop.catalogue().list(&tenants.program, query).await);
    serde_json::from_str(&answer.to_json()).unwrap()
}

async fn write(tenants: &Tenants, name: &str, source: &str) {
    let write = SkillWrite { source: source.to_owned(), ..SkillWrite::default() };
    granted(tenants.workshop.skills().write(&tenants.program, name, write).await);
}

fn everything() -> CatalogueQuery {
    CatalogueQuery { audience: Audience::All, ..CatalogueQuery::default() }
}

#[tokio::test]
async fn vectors_mcp_wire_json_skill_list_answers_are_the_recorded_ones() {
    let recorded = contract("mcp-wire.json");
    let tenants = Tenants::open().await;
    let (mut compared, mut version) = (0, None::<String>);
    for exchange in recorded["exchanges"].as_array().unwrap() {
        let call = &exchange["request"]["params"];
        let arguments = &call["arguments"];
        let text = |name: &str| arguments[name].as_str().map(str::to_owned);
        match call["name"].as_str() {
            Some("skill_write") if exchange["result_text_json"]["version"].is_string() => {
                write(&tenants, &text("name").unwrap(), &text("source").unwrap()).await;
            }
            Some("skill_list") if exchange["result_text_json"]["catalog_version"].is_string() => {
                let filter = &arguments["filter"];
                // Authors depend on the store: the recorded one is the user of the operating system.
                if !filter["author"].is_null() {
                    continue;
                }
                let recorded = &exchange["result_text_json"];
                // The recorded caller sends the version that it has just got.
                let if_none_match = recorded["not_modified"].as_bool().and(version.clone());
                let found = list(&tenants, &CatalogueQuery { if_none_match, ..query(filter) }).await;
                version = found["catalog_version"].as_str().map(str::to_owned);
                assert_eq!(comparable(&found), comparable(recorded), "{filter}");
                compared += 1;
            }
            Some("skill_status" | "skill_delete") => break,
            _ => {}
        }
    }
    assert!(compared >= 4, "{compared}");
}

fn query(filter: &Value) -> CatalogueQuery {
    let text = |name: &str| filter[name].as_str();
    CatalogueQuery {
        audience: text("audience").map_or(Audience::Agent, |word| Audience::named(word).unwrap()),
        status: text("status").map_or(Status::Approved, |word| Status::named(word).unwrap()),
        trigger_kind: text("trigger_kind").map(|word| match word {
            "cron" => skill::TriggerSource::Cron,
            _ => skill::TriggerSource::Event,
        }),
        name_prefix: text("name_prefix").map(str::to_owned),
        ..CatalogueQuery::default()
    }
}

/// An answer without authors and versions.
fn comparable(answer: &Value) -> Value {
    let mut answer = answer.clone();
    answer.as_object_mut().unwrap().remove("catalog_version");
    for list in ["receives", "skills", "headless"] {
        for entry in answer[list].as_array_mut().into_iter().flatten() {
            entry.as_object_mut().unwrap().remove("author");
        }
    }
    answer.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    answer
}

#[tokio::test]
async fn the_version_moves_with_skills_mode_and_keys_and_a_revoked_key_counts_at_once() {
    let tenants = Tenants::open().await;
    let signed = stamp("# Skill: tide\ngo:\n    emit(text=\"x\")\n", &signing_key());
    write(&tenants, "tide", &signed).await;
    let mut seen = Vec::new();
    let mut look = async |passes: bool| {
        let listed = list(&tenants, &everything()).await;
        assert_eq!(listed["skills"][0]["gate_ok"], json!(passes), "{listed}");
        let version = listed["catalog_version"].as_str().unwrap().to_owned();
        assert!(!seen.contains(&version), "{version}");
        let again = CatalogueQuery { if_none_match: Some(version.clone()), ..everything() };
        assert_eq!(list(&tenants, &again).await, json!({ "not_modified": true, "catalog_version": version }));
        seen.push(version);
    };
    look(true).await;
    tenants.demand_signatures().await;
    look(false).await;
    let id = tenants.add_key().await;
    look(true).await;
    assert!(tenants.workshop.approval_keys().revoke(&tenants.acme, &id).await.unwrap());
    // The version is the one without keys, which the loop above has seen; only the verdict matters here.
    let listed = list(&tenants, &everything()).await;
    assert_eq!(listed["skills"][0]["gate_ok"], json!(false));
}

#[tokio::test]
async fn only_changed_skills_are_rendered_again_and_deleted_ones_are_gone() {
    let tenants = Tenants::open().await;
    for name in ["a", "b", "c"] {
        write(&tenants, name, &format!("# Skill: {name}\n# Status: Approved\n# Description: first\ntext\n"))
            .await;
    }
    assert_eq!(list(&tenants, &everything()).await["skills"].as_array().unwrap().len(), 3);
    write(&tenants, "b", "# Skill: b\n# Status: Approved\n# Description: second\ntext\n").await;
    granted(tenants.workshop.skills().delete(&tenants.program, "c", false).await);
    let listed = list(&tenants, &everything()).await;
    let shown =
        |at: usize| (listed["skills"][at]["name"].clone(), listed["skills"][at]["description"].clone());
    assert_eq!((shown(0), shown(1)), ((json!("a"), json!("first")), (json!("b"), json!("second"))));
    assert_eq!(listed["skills"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_catalogue_can_be_cut_and_continued() {
    let tenants = Tenants::open().await;
    for name in ["a", "b", "c"] {
        write(&tenants, name, "# Status: Approved\ntext\n").await;
    }
    let first = list(&tenants, &CatalogueQuery { limit: Some(2), ..everything() }).await;
    assert_eq!((first["skills"].as_array().unwrap().len(), &first["next"]), (2, &json!("b")));
    let after = Some("b".to_owned());
    let rest = list(&tenants, &CatalogueQuery { limit: Some(2), after, ..everything() }).await;
    assert_eq!((rest["skills"][0]["name"].clone(), rest.get("next")), (json!("c"), None));
}

#[tokio::test]
async fn domain_tags_are_those_of_the_metadata_bag() {
    let tenants = Tenants::open().await;
    let bag = json!({ "domain_tags": ["Harbour"] }).as_object().cloned();
    let tagged = SkillWrite {
        source: "# Status: Approved\n# Tags: weather\ntext\n".to_owned(),
        metadata_bag: bag,
        ..SkillWrite::default()
    };
    granted(tenants.workshop.skills().write(&tenants.program, "tide", tagged).await);
    for (tag, count) in [("harbour", 1), ("weather", 0)] {
        let query = CatalogueQuery { domain_tags: vec![tag.to_owned()], ..everything() };
        let answer = granted(tenants.workshop.catalogue().list(&tenants.program, &query).await);
        let CatalogueAnswer::Listed(listing) = answer else { panic!("it was listed") };
        assert_eq!(listing.count(), count, "{tag}");
    }
}
