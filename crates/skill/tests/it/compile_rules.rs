//! Compile tests by hand: declared values in the rendering, questions to agents, and provenance.

use std::collections::HashMap;
use std::sync::Arc;

use skill::tree::SkillTree;
use skill::{
    PreparedSkill, Provenance, RenderFormat, RunError, SkillObject, compare_provenance, render_skill,
};
use skill_doubles::{AgentsPlayed, StandardHost, StandardSettings, drive};

fn prepared(source: &str, inputs: &[(&str, &str)], stored: &[(&str, &str)]) -> PreparedSkill {
    let host = StandardHost::new(StandardSettings::default(), AgentsPlayed::standard());
    stored.iter().for_each(|(name, body)| host.skills.put(name, body, None));
    let inputs: SkillObject = inputs.iter().copied().collect();
    let tree = Arc::new(SkillTree::parse(source));
    drive(&host.clock, PreparedSkill::new(&host, tree, &inputs)).unwrap().unwrap()
}

fn rendered(body: &str, inputs: &[(&str, &str)]) -> Result<String, RunError> {
    let source = format!("# Skill: s\n# Vars: A=one, B=two\ngo:\n    {body}\ndefault: go\n");
    let text = render_skill(&prepared(&source, inputs, &[]), RenderFormat::Prompt)?;
    Ok(text.rsplit("### 1. go\n").next().unwrap().to_owned())
}

#[test]
fn declared_values_replace_references_with_at_most_one_filter() {
    for (body, step) in [
        ("emit(text=\"${A} $(B) ${C}\")", "- Tell the user: one two ${C}"),
        (
            "emit(text=\"${A|length} ${A|trim|length} ${A|fallback:\\\"x\\\"}\")",
            "- Tell the user: 3 ${A|trim|length} one",
        ),
        ("emit(text=\"${A|contains:\\\"${B}\\\"}\")", "- Tell the user: ${A|contains:\"${B}\"}"),
        ("$set X = ${A}", "- Bind variable: X = ${A}"),
    ] {
        assert_eq!(rendered(body, &[]).unwrap(), step, "{body}");
    }
}

#[test]
fn a_filter_that_fails_on_a_declared_value_is_an_error_of_compiling() {
    let error = rendered("emit(text=\"${A|isodate}\")", &[]).unwrap_err();
    assert_eq!(error.class.name(), "Error");
}

#[test]
fn a_rendering_is_bounded_like_a_value() {
    let large = "x".repeat(1024 * 1024);
    let body = format!("emit(text=\"{}\")", "${A}".repeat(17));
    assert!(rendered(&body, &[("A", &large)]).unwrap_err().message.contains("16 MiB"));
}

#[test]
fn a_question_to_an_agent_is_a_step() {
    let body = "exchange(agent=\"desk\", message=\"may ${A} go?\", timeout=5) -> R";
    let step = "- Ask agent: desk with message=\"may one go?\" — bind answer to $(R)";
    assert_eq!(rendered(body, &[]).unwrap(), step);
    let source = format!("# Skill: s\n# Vars: A=one\ngo:\n    {body}\ndefault: go\n");
    let prose = render_skill(&prepared(&source, &[], &[]), RenderFormat::Prose).unwrap();
    assert!(prose.ends_with("## go\nAsks agent desk and waits for the answer; binds to $(R)."), "{prose}");
}

#[test]
fn provenance_names_the_inlined_data_skills_and_shows_which_have_changed() {
    let data =
        "# Skill: rules\n# Status: Approved\n# Type: data\ngo:\n    emit(text=\"be kind\")\ndefault: go\n";
    let source = "# Skill: s\ngo:\n    inline(skill=\"rules\")\ndefault: go\n";
    let skill = prepared(source, &[], &[("rules", data)]);
    let provenance = Provenance::of(&skill, Some(source), "2026-01-01T00:00:00.000Z".to_owned());
    assert_eq!(provenance.data_skills_inlined[0].name, "rules");
    assert!(provenance.source_skill.content_hash.is_some());
    let read: Provenance = serde_json::from_str(&provenance.as_json()).unwrap();
    assert_eq!(read, provenance);
    let rules = |stored: &[(&str, &str)]| {
        let stored: HashMap<String, String> =
            stored.iter().map(|(name, body)| ((*name).to_owned(), (*body).to_owned())).collect();
        compare_provenance(&provenance, &stored).iter().map(|finding| finding.rule).collect::<Vec<_>>()
    };
    assert_eq!(rules(&[("rules", data)]), Vec::<&str>::new());
    assert_eq!(rules(&[("rules", "# Skill: rules\n")]), ["stale-data-skill"]);
    assert_eq!(rules(&[]), ["missing-data-skill"]);
}
