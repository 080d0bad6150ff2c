use super::*;
use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation;

fn is_fence(line: &str) -> bool {
    line.starts_with("```")
}

/// The text without fence lines and white space, as the vectors compare it.
fn essence(text: &str) -> String {
    let kept: Vec<&str> = text.split('\n').filter(|line| !is_fence(line)).collect();
    kept.concat().chars().filter(|letter| !letter.is_whitespace()).collect()
}

/// The properties that hold for every text.
fn check_shape(limit: usize, unit: Unit, chunks: &[String]) -> Result<(), String> {
    for chunk in chunks {
        let length = measure(chunk, unit);
        if length > limit {
            return Err(format!("{length} is over {limit}: {chunk:?}"));
        }
        if chunk.trim().is_empty() {
            return Err("a blank chunk".to_owned());
        }
        if chunk.split('\n').filter(|line| is_fence(line)).count() % 2 == 1 {
            return Err(format!("unbalanced fences: {chunk:?}"));
        }
    }
    Ok(())
}

/// The properties called normative in the vectors.
fn check(input: &str, limit: usize, unit: Unit, chunks: &[String]) -> Result<(), String> {
    check_shape(limit, unit, chunks)?;
    let joined: String = chunks.iter().map(|chunk| essence(chunk)).collect();
    if joined != essence(input) {
        return Err(format!("{:?} became {joined:?}", essence(input)));
    }
    check_clusters(input, limit, unit, chunks)?;
    check_languages(input, chunks)
}

/// Walks input and chunks side by side: a chunk ends where a cluster ends.
fn check_clusters(input: &str, limit: usize, unit: Unit, chunks: &[String]) -> Result<(), String> {
    let text: String = input.split('\n').filter(|line| !is_fence(line)).collect::<Vec<_>>().join("\n");
    let solid = |text: &str| text.chars().filter(|letter| !letter.is_whitespace()).count();
    let mut borders = std::collections::HashSet::from([0]);
    let mut count = 0;
    for cluster in text.graphemes(true) {
        let before = count;
        count += solid(cluster);
        borders.insert(count);
        if measure(cluster, unit) > limit {
            borders.extend(before..count);
        }
    }
    let mut at = 0;
    for chunk in chunks {
        at += essence(chunk).chars().count();
        if !borders.contains(&at) {
            return Err(format!("a cluster was cut at the end of {chunk:?}"));
        }
    }
    Ok(())
}

/// Every opening line's language is one that the input opened a fence with.
fn check_languages(input: &str, chunks: &[String]) -> Result<(), String> {
    let language = |line: &str| line.trim_start_matches('`').split_whitespace().next().map(str::to_owned);
    let openings = |text: &str| {
        let lines = text.split('\n').filter(|line| is_fence(line)).step_by(2).map(language);
        lines.collect::<Vec<_>>()
    };
    let meant = openings(input);
    let mut last = 0;
    for opening in chunks.iter().flat_map(|chunk| openings(chunk)) {
        match meant[last..].iter().position(|language| *language == opening) {
            Some(further) => last += further,
            None => return Err(format!("a fence of {opening:?} that nobody opened")),
        }
    }
    Ok(())
}

#[test]
fn every_split_of_the_vectors_has_the_normative_properties() {
    let folder = std::env::var_os("POSTHOUSE_VECTORS").map_or_else(
        || concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors").into(),
        std::path::PathBuf::from,
    );
    let file = std::fs::read(folder.join("platforms/split.json")).unwrap();
    let vectors: serde_json::Value = serde_json::from_slice(&file).unwrap();
    for case in vectors["cases"].as_array().unwrap() {
        let unit = match case["unit"].as_str().unwrap() {
            "chars" => Unit::Chars,
            "utf16" => Unit::Utf16,
            "utf8_bytes" => Unit::Utf8Bytes,
            other => panic!("unknown unit {other}"),
        };
        let (name, input) = (case["name"].as_str().unwrap(), case["input"].as_str().unwrap());
        let limit = usize::try_from(case["limit"].as_u64().unwrap()).unwrap();
        assert_eq!(measure(input, unit) as u64, case["input_len"].as_u64().unwrap(), "{name}");
        let chunks = split(input, limit, unit);
        check(input, limit, unit, &chunks).unwrap_or_else(|trouble| panic!("{name}: {trouble}"));
        assert!(chunks.len() as u64 <= case["max_chunks"].as_u64().unwrap(), "{name}: {chunks:?}");
    }
}

#[test]
fn a_text_that_fits_is_left_as_it_is() {
    for text in ["hello ", " - a\n   - b", "```rs\nx\n```", "a\r\nb"] {
        assert_eq!(split(text, 20, Unit::Chars), [text]);
    }
}

#[test]
fn blank_text_gives_no_chunk() {
    for text in ["", " ", "\n\n\t", &" ".repeat(100)] {
        assert!(split(text, 10, Unit::Chars).is_empty());
    }
}

#[test]
fn indentation_of_code_survives_a_cut() {
    let text = format!("```py\n{}```", "    indented = True\n".repeat(10));
    for chunk in split(&text, 70, Unit::Chars) {
        assert!(
            chunk.lines().all(|line| line.starts_with("```") || line.starts_with("    indented")),
            "{chunk}"
        );
    }
}

#[test]
fn a_fence_in_a_list_item_is_closed_and_reopened_there() {
    let text = format!("1. Run\n   ```bash\n{}   ```\n2. Done", "   echo hello\n".repeat(20));
    let chunks = split(&text, 100, Unit::Chars);
    assert!(chunks.len() > 2);
    assert!(chunks[0].ends_with("\n   ```"), "{chunks:?}");
    assert!(chunks[1].starts_with("   ```bash\n   echo"), "{chunks:?}");
    check_shape(100, Unit::Chars, &chunks).unwrap();
}

#[test]
fn an_unclosed_fence_is_closed() {
    assert_eq!(split("look\n```rs\nlet x", 100, Unit::Chars), ["look\n```rs\nlet x\n```"]);
}

#[test]
fn a_fence_that_does_not_fit_is_left_out_with_its_language_and_nothing_else() {
    let text = "```😀😀😀😀\na😀😀a😀aaa😀";
    assert_eq!(split(text, 40, Unit::Utf8Bytes), ["a😀😀a😀aaa😀"]);
    let remark = format!("```a remark of several words\n{}\n```", "word ".repeat(20));
    assert!(split(&remark, 40, Unit::Utf8Bytes).concat().contains("a remark of several words"));
}

#[test]
fn inline_code_at_the_start_of_a_line_is_no_fence() {
    assert_eq!(split("```ls``` lists\nfiles", 100, Unit::Chars), [" ```ls``` lists\nfiles"]);
}

#[test]
fn fences_that_cannot_fit_are_taken_off_and_their_code_is_kept() {
    let chunks = split("```rust\nlet x = 1;\n```", 8, Unit::Chars);
    assert_eq!(chunks.concat().replace(' ', ""), "letx=1;");
}

#[test]
fn a_ruler_of_the_callers_own_decides() {
    // Stars do not count here, like markup on a platform that counts only visible characters.
    let seen = |text: &str| text.chars().filter(|letter| *letter != '*').count();
    let chunks = split_measured(&"**bold** ".repeat(40), 50, &seen);
    assert!(chunks.iter().all(|chunk| seen(chunk) <= 50));
    assert_eq!(chunks.len(), 4);
}

#[test]
fn the_work_grows_with_the_text_and_not_with_its_square() {
    let steps = |size: usize, piece: &str| {
        let looked_at = std::cell::Cell::new(0);
        let ruler = |text: &str| {
            looked_at.set(looked_at.get() + text.len());
            measure(text, Unit::Utf16)
        };
        let text = piece.repeat(size / piece.len());
        assert!(split_measured(&text, 4096, &ruler).len() >= size / 4 / 4096);
        looked_at.get() / size
    };
    for piece in ["word ", "x", "\n\nline", "```rs\ncode line\n```\n", "\u{1f1f3}\u{1f1f4}", "a\u{301}"] {
        let (small, large) = (steps(50_000, piece), steps(1_000_000, piece));
        assert!(large <= small * 2 + 4, "{piece:?}: {small} looks per byte became {large}");
    }
}

fn unit() -> impl Strategy<Value = Unit> {
    prop_oneof![Just(Unit::Chars), Just(Unit::Utf16), Just(Unit::Utf8Bytes)]
}

fn word() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        Just(" "),
        Just("  "),
        Just("\n"),
        Just("\n\n"),
        Just("\r\n"),
        Just("word"),
        Just("`x`"),
        Just("é"),
        Just("a\u{301}"),
        Just("你好"),
        Just("😀"),
        Just("👩🏽\u{200d}🚀"),
        Just("🇳🇴"),
        Just("x"),
    ];
    prop::collection::vec(pieces, 0..40).prop_map(|pieces| pieces.concat())
}

fn prose() -> impl Strategy<Value = String> {
    let block = prop_oneof![
        3 => word(),
        1 => ("(|rust|py)", word()).prop_map(|(language, code)| format!("\n```{language}\n{code}\n```\n")),
    ];
    prop::collection::vec(block, 0..8).prop_map(|blocks| blocks.concat())
}

fn solid(text: &str) -> Vec<char> {
    text.chars().filter(|letter| !letter.is_whitespace() && *letter != '`').collect()
}

/// A fence line that names at most a language. Where the fence does not fit the limit, it is left out.
fn names_a_language(line: &str) -> bool {
    let Some(rest) = line.trim().strip_prefix("```") else { return false };
    let info = rest.trim_start_matches('`').trim();
    !info.contains('`') && !info.contains(char::is_whitespace) && info.len() <= 32
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_prose_with_fences_keeps_the_normative_properties(text in prose(), limit in 4usize..120, unit in unit()) {
        let chunks = split(&text, limit, unit);
        prop_assert_eq!(check(&text, limit, unit, &chunks), Ok(()));
    }

    #[test]
    fn any_text_at_all_fits_and_is_balanced(text in any::<String>(), limit in 4usize..60, unit in unit()) {
        prop_assert_eq!(check_shape(limit, unit, &split(&text, limit, unit)), Ok(()));
    }

    #[test]
    fn wild_backticks_lose_nothing(text in "[` a-c\n\\t😀]{0,300}", limit in 40usize..90, unit in unit()) {
        let chunks = split(&text, limit, unit);
        prop_assert_eq!(check_shape(limit, unit, &chunks), Ok(()));
        let said: Vec<char> = chunks.iter().flat_map(|chunk| solid(chunk)).collect();
        let mut rest = said.iter();
        let kept: String = text.split('\n').filter(|line| !names_a_language(line)).collect();
        prop_assert!(solid(&kept).iter().all(|letter| rest.any(|other| other == letter)), "{:?}", chunks);
    }

    #[test]
    fn a_limit_too_small_for_anything_still_ends(text in any::<String>(), limit in 0usize..4, unit in unit()) {
        split(&text, limit, unit);
    }
}
