//! The `# Output:` line: where the result of a skill goes.

use serde::Serialize;

use super::Mistakes;
use super::vars::split_entries;
use crate::syntax::blanks::trim;

/// One place for the result of a skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkillOutput {
    pub kind: OutputKind,
    /// An agent, a template or a file. References in it are resolved at run time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputKind {
    Text,
    None,
    Agent,
    Template,
    File,
}

impl OutputKind {
    fn named(word: &str) -> Option<Self> {
        let kinds = [
            ("text", Self::Text),
            ("none", Self::None),
            ("agent", Self::Agent),
            ("template", Self::Template),
            ("file", Self::File),
        ];
        kinds.into_iter().find(|(name, _)| word.eq_ignore_ascii_case(name)).map(|(_, kind)| kind)
    }

    fn takes_target(self) -> bool {
        !matches!(self, Self::Text | Self::None)
    }
}

pub fn read(value: &str, wrong: &mut Mistakes<'_>) -> Vec<SkillOutput> {
    split_entries(value).into_iter().filter_map(|entry| output(entry, wrong)).collect()
}

fn output(entry: &str, wrong: &mut Mistakes<'_>) -> Option<SkillOutput> {
    let (word, target) =
        entry.split_once(':').map_or((entry, ""), |(word, target)| (trim(word), trim(target)));
    let Some(kind) = OutputKind::named(word) else {
        wrong.invalid(format!(
            "`# Output:` kind '{word}' is not supported; use text, none, agent, template or file"
        ));
        return None;
    };
    match (kind.takes_target(), target) {
        (true, "") => {
            wrong.invalid(format!("`# Output:` kind '{word}' needs a target: '{word}: NAME'"));
            None
        }
        (false, "") => Some(SkillOutput { kind, target: None }),
        (true, target) => Some(SkillOutput { kind, target: Some(target.to_owned()) }),
        (false, target) => {
            wrong.invalid(format!("`# Output:` kind '{word}' takes no target, but has '{target}'"));
            None
        }
    }
}
