use super::*;

fn json(text: &str) -> SkillValue {
    SkillValue::from_json(text).unwrap()
}

#[test]
fn rendering_is_text_as_is_and_compact_json_for_structures() {
    for (value, text) in [
        ("\"a b\"", "a b"),
        ("1.50", "1.5"),
        ("true", "true"),
        ("null", "null"),
        ("[1, \"x\", null]", "[1,\"x\",null]"),
        ("{\"b\": 1, \"a\": [ ]}", "{\"b\":1,\"a\":[]}"),
    ] {
        assert_eq!(json(value).rendered(), text);
    }
}

#[test]
fn a_list_as_string_is_joined_and_an_object_shows_nothing() {
    assert_eq!(json(r#"[1,null,["a",[true]],{"k":1}]"#).to_js_string(), "1,,a,true,[object Object]");
    assert_eq!(json(r#"{"k":1}"#).to_js_string(), "[object Object]");
    assert_eq!(json("null").to_js_string(), "null");
}

#[test]
fn truth_is_that_of_the_language() {
    for truthy in ["\"0\"", "\"false\"", "1", "-1", "true", "[0]", "{}"] {
        assert!(json(truthy).is_truthy(), "{truthy}");
    }
    for falsy in ["\"\"", "0", "-0", "false", "null", "[]"] {
        assert!(!json(falsy).is_truthy(), "{falsy}");
    }
}

#[test]
fn an_append_shows_through_every_holder_of_a_list_but_not_through_a_detached_copy() {
    let value = json(r#"{"in":[[1]]}"#);
    let copy = value.detached();
    let Some(SkillValue::List(list)) = value.field("in").and_then(|list| list.field("0")) else { panic!() };
    list.push(SkillValue::Number(2.0));
    assert_eq!(value.json(), r#"{"in":[[1,2]]}"#);
    assert_eq!(copy.json(), r#"{"in":[[1]]}"#);
}

#[test]
fn a_path_step_reads_fields_indexes_and_the_length_of_lists() {
    let list = json(r#"["a","b"]"#);
    assert_eq!(list.field("1"), Some("b".into()));
    assert_eq!(list.field("length"), Some(2.0.into()));
    for absent in ["2", "01", "-1", "x", "+1"] {
        assert_eq!(list.field(absent), None, "{absent}");
    }
    assert_eq!(json("\"text\"").field("length"), None);
    assert_eq!(json("null").field("a"), None);
}

#[test]
fn a_placeholder_has_every_field_and_is_an_empty_object_in_json() {
    let placeholder = SkillValue::Placeholder("R".into());
    assert_eq!(placeholder.field("title").unwrap().rendered(), "R.title");
    assert_eq!(placeholder.json(), "{}");
    assert!(placeholder.is_truthy());
}

#[test]
fn the_weight_of_a_list_grows_with_every_append() {
    let list = SharedList::default();
    let value = SkillValue::List(list.clone());
    let empty = value.weight();
    list.push("abcd".into());
    assert_eq!(value.weight() - empty, SkillValue::from("abcd").weight());
}

#[test]
fn the_weight_is_at_least_the_memory_that_a_value_needs() {
    // Behind each pointer are the two counters of what shares it.
    let shared = 2 * size_of::<usize>();
    let value = size_of::<SkillValue>();
    assert!(SkillValue::from("").weight() >= value + shared + size_of::<String>());
    assert!(SkillValue::list([]).weight() >= value + shared + size_of::<ListItems>());
    let object = SkillValue::from(SkillObject::default()).weight();
    assert!(object >= value + shared + size_of::<SkillObject>());
    let field = SkillValue::from([("a", 1.0)].into_iter().collect::<SkillObject>()).weight() - object;
    // The name is shared, and the table of fields holds the pointer to it, a hash and a place.
    assert!(field >= value + 1 + shared + size_of::<Arc<str>>() + 2 * size_of::<usize>());
}
