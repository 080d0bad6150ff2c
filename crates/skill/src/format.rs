//! Formatting of skills: header lines, blank lines and blanks at the ends of lines.
//!
//! Formatting changes neither the tree of a skill nor its status. Lines of the body template, texts in triple quotes
//! and calls over several lines stay as they are, because every blank in them may count.

use crate::syntax::blanks::{is_blank, trim};
use crate::syntax::lines::{HeaderLine, LogicalLine, logical_lines};
use crate::syntax::verbatim_lines;

/// Keys of the header in their usual spelling. `Status` is not among them: the approval gate reads that line by itself.
const KEYS: [&str; 14] = [
    "Skill",
    "Description",
    "Tags",
    "Type",
    "Autonomous",
    "Timeout",
    "Deadline",
    "Vars",
    "Returns",
    "Requires",
    "Triggers",
    "Output",
    "Event-type",
    "Templates",
];

/// The formatted text. Formatting it again changes nothing.
pub fn format_skill(source: &str) -> String {
    let verbatim = verbatim_lines(source);
    let mut formatted = String::with_capacity(source.len() + 1);
    let (mut end, mut after_blank) = (0, false);
    for line in logical_lines(source) {
        if end == 0 {
            // The text before a fence.
            formatted.push_str(&source[..line.start]);
        }
        end = line.end;
        let is_joined = line.text.trim_end_matches(['\n', '\r']).contains('\n');
        if verbatim.contains(&line.start) || is_joined {
            formatted.push_str(line.text);
            after_blank = false;
            continue;
        }
        let text = format_line(&line);
        if text.is_empty() && after_blank {
            continue;
        }
        after_blank = text.is_empty();
        formatted.push_str(&text);
        formatted.push('\n');
    }
    formatted.push_str(&source[end..]);
    formatted
}

fn format_line(line: &LogicalLine<'_>) -> String {
    if let Some(header) = HeaderLine::read(line)
        && let Some(key) = KEYS.into_iter().find(|key| header.is(key))
    {
        let (_, value) = line.text.split_once(':').unwrap_or_default();
        return format!("# {key}: {}", trim(value)).trim_end_matches(is_blank).to_owned();
    }
    line.text.trim_end_matches(is_blank).to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::status::status_of;
    use crate::syntax::tree::SkillTree;

    /// Header lines, operations, texts and blank lines with blanks in every place.
    const BODIES: &str = "((#|# |    |)(Skill|status|Status|vars|go|emit\\(text=\"a|\"\"\"|\\)|Approved|\\? x|text)?\
                          ( ?: ?)?[ \ta-b\"\r\u{a0}]{0,4}\n){0,12}";

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn formatting_keeps_status_and_operations_and_is_stable(body in BODIES) {
            let formatted = format_skill(&body);
            prop_assert_eq!(format_skill(&formatted), formatted.clone());
            prop_assert_eq!(status_of(&formatted), status_of(&body));
            let shape = |text: &str| {
                let tree = SkillTree::parse(text);
                let targets = tree.targets.iter();
                let targets: Vec<_> = targets.map(|target| (target.name.clone(), target.ops.len())).collect();
                let template = tree.template.map(|template| template.text().to_owned());
                (targets, template, tree.header.name, tree.header.vars, tree.errors.len())
            };
            let (before, after) = (shape(&body), shape(&formatted));
            prop_assert_eq!((before.0, before.1, before.2, before.3), (after.0, after.1, after.2, after.3));
            // A blank line with tabs is a mistake, and formatting removes it.
            prop_assert!(after.4 <= before.4);
        }
    }

    #[test]
    fn header_lines_get_their_usual_form_and_comments_stay() {
        let source = "#skill:a\n#  VARS :  A=1  \n#Status:Draft\n#   a note: here \n# Event-Type:\n";
        let expected = "# Skill: a\n# Vars: A=1\n#Status:Draft\n#   a note: here\n# Event-type:\n";
        assert_eq!(format_skill(source), expected);
        assert_eq!(format_skill(expected), expected);
    }

    #[test]
    fn blanks_behind_operations_and_repeated_blank_lines_go() {
        let source = "go:  \n    ? x \r\n\n   \n\n    ? y\ndefault: go";
        assert_eq!(format_skill(source), "go:\n    ? x\n\n    ? y\ndefault: go\n");
    }

    #[test]
    fn text_in_which_blanks_count_stays() {
        for source in [
            "Dear ${A},  \n\n\nbye \n",
            "go:\n    emit(text=\"\"\"\n    a  \n\n\n    b\"\"\")\n",
            "go:\n    emit(text=\"a  \n\n\n    b\")\n",
            "prose  \n```skill\n# Skill: a\n```\n\n\nmore  ",
        ] {
            assert_eq!(format_skill(source), source);
        }
    }
}
