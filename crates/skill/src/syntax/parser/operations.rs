//! Parsing of operations: recognises the operation on each line of a target.

use super::super::blanks::{is_blank, is_line_end, is_word, trim, word_length};
use super::super::header::NameUse;
use super::super::literal::Literal;
use super::super::parse_error::ParseErrorKind;
use super::super::source_range::SourceRange;
use super::super::tree::{
    AppendOp, ForeachOp, IfBranch, IfOp, LoopOver, MAX_BLOCKS, OpKind, Reference, ReferenceForm, SetOp,
    SkillOp, TextTemplate,
};
use super::blocks::BlockKind;
use super::calls::call_name;
use super::conditions::{condition, has_single_equals};
use super::{BodyLine, Parser, dependency_names, excerpt, strip_needs};

/// Signs of operations that older versions of the language had, and what replaces them.
const LEGACY: [(&str, &str); 6] = [
    (">", "`$ data_read mode=\"fts\" query=\"…\" -> R`"),
    ("~", "`$ llm prompt=\"…\" -> R`"),
    ("&", "`inline(skill=\"…\")` or `execute_skill(name=\"…\") -> R`"),
    ("??", "`emit(text=\"…\")`, and `approved=\"reason\"` to authorise a change"),
    ("@", "`shell(command=\"…\") -> R`"),
    ("!", "`emit(text=\"…\")`"),
];

impl<'s> Parser<'s> {
    /// Reads the operation on a line. Returns how many of the lines below belong to it.
    pub(super) fn operation(&mut self, index: usize, target: usize, line: BodyLine<'s>) -> usize {
        let text = line.text;
        if self.blocks.is_body()
            && let Some(names) = strip_needs(text)
        {
            self.tree.targets[target].dependencies.extend(dependency_names(names).map(str::to_owned));
        } else if text.starts_with("elif ") {
            self.refuse(line, ParseErrorKind::Structure, "`elif` has no `if` above it");
        } else if text.starts_with("if ") {
            self.if_op(line);
        } else if let Some((sign, instead)) = legacy(text) {
            let message = format!("`{sign}` is no operation any more; use {instead}");
            self.error(line.number, line.range, ParseErrorKind::LegacyOp, message);
        } else if text.starts_with("foreach ") {
            self.foreach_op(line);
        } else if let Some(name) = call_name(text) {
            return self.call(index, name, line);
        } else if is_word_or(text, "$set") {
            self.set_op(line);
        } else if is_word_or(text, "$append") {
            self.append_op(line);
        } else if is_word_or(text, "$") {
            self.dispatch_op(line);
        } else if is_word_or(text, "?") {
            let reason = text[1..].trim_start_matches(is_blank);
            let origin = line.range.end - reason.len();
            self.add(line, OpKind::Reason(TextTemplate::parse(reason).at(Some(origin))));
        } else {
            self.no_operation(line);
        }
        0
    }

    pub(super) fn add(&mut self, line: BodyLine<'_>, kind: OpKind) {
        self.blocks.add(SkillOp { kind, line: line.number, range: line.range });
    }

    pub(super) fn refuse(&mut self, line: BodyLine<'_>, kind: ParseErrorKind, message: impl Into<String>) {
        self.error(line.number, line.range, kind, message.into());
    }

    /// Opens a block, unless there are too many open ones.
    fn open_block(&mut self, kind: BlockKind, line: BodyLine<'_>, op: Option<OpKind>) {
        if self.blocks.has_room() {
            if let Some(op) = op {
                self.add(line, op);
            }
            return self.blocks.open(kind, line.indent);
        }
        let message = format!(
            "blocks are nested deeper than {MAX_BLOCKS}; move the inner ones to a skill of their own"
        );
        self.refuse(line, ParseErrorKind::Indentation, message);
        self.blocks.open(BlockKind::Unknown, line.indent);
    }

    fn if_op(&mut self, line: BodyLine<'s>) {
        match self.branch("if", line) {
            None => {}
            Some(None) => self.open_block(BlockKind::RefusedIf, line, None),
            Some(Some(branch)) => {
                let op = IfOp { branches: vec![branch], otherwise: None };
                self.open_block(BlockKind::Branch, line, Some(OpKind::If(Box::new(op))));
            }
        }
    }

    /// Reads an `elif` or `else` that continues an open `if`. Returns whether the line is one.
    pub(super) fn continue_if(&mut self, target: usize, line: BodyLine<'s>) -> bool {
        let is_elif = line.text.starts_with("elif ");
        if !is_elif && line.text != "else:" {
            return false;
        }
        let Some(before) = self.blocks.continue_if(line.indent, &mut self.tree.targets[target]) else {
            return false;
        };
        let is_refused = before == BlockKind::RefusedIf;
        if !is_elif {
            let kind = if is_refused { BlockKind::Unknown } else { BlockKind::Otherwise };
            if let Some(OpKind::If(op)) = self.blocks.last_op().map(|op| &mut op.kind).filter(|_| !is_refused)
            {
                op.otherwise = Some(Vec::new());
            }
            self.blocks.open(kind, line.indent);
            return true;
        }
        let kind = match self.branch("elif", line) {
            None => return true,
            Some(_) if is_refused => BlockKind::RefusedIf,
            Some(None) => BlockKind::RefusedBranch,
            Some(Some(branch)) => {
                if let Some(OpKind::If(op)) = self.blocks.last_op().map(|op| &mut op.kind) {
                    op.branches.push(branch);
                }
                BlockKind::Branch
            }
        };
        self.blocks.open(kind, line.indent);
        true
    }

    /// The branch of `if condition:` or `elif condition:`. `None` if the line does not have this form, and `Some(None)`
    /// if its condition is refused.
    fn branch(&mut self, word: &str, line: BodyLine<'s>) -> Option<Option<IfBranch>> {
        let Some(written) = between_word_and_colon(line.text, word) else {
            self.refuse(
                line,
                ParseErrorKind::MalformedBlock,
                format!("`{word}` is written `{word} CONDITION:`"),
            );
            return None;
        };
        let text = trim(written);
        let range = SourceRange::of_part(text, line.text, line.range.start);
        if has_single_equals(text) {
            let message = "a condition compares with `==`, not with `=`";
            self.error(line.number, range, ParseErrorKind::SingleEquals, message.to_owned());
            return Some(None);
        }
        let Some(condition) = condition(text) else {
            let message = format!(
                "'{}' is not a condition; use `${{REF}}`, `${{REF}} == \"text\"`, `${{REF}} < ${{REF}}` or `${{REF}} in \
                 ${{REF}}`, joined by `and`, `or` and `not`",
                excerpt(text)
            );
            self.error(line.number, range, ParseErrorKind::UnsupportedCondition, message);
            return Some(None);
        };
        Some(Some(IfBranch { condition, text: text.into(), range, body: Vec::new() }))
    }

    fn foreach_op(&mut self, line: BodyLine<'s>) {
        let parts = between_word_and_colon(line.text, "foreach").and_then(foreach_parts);
        let Some((variable, list)) = parts else {
            return self.refuse(
                line,
                ParseErrorKind::MalformedBlock,
                "`foreach` is written `foreach NAME in LIST:`",
            );
        };
        self.refuse_reserved(variable, NameUse::Iterator, line.number, line.range);
        let origin = line.range.end - 1 - list.len();
        let list = trim(list);
        let op = ForeachOp {
            variable: variable.into(),
            list: list.into(),
            over: loop_over(list, origin),
            body: Vec::new(),
        };
        self.open_block(BlockKind::Loop, line, Some(OpKind::Foreach(Box::new(op))));
    }

    fn set_op(&mut self, line: BodyLine<'s>) {
        let rest = line.text["$set".len()..].trim_start_matches(is_blank);
        let (variable, behind) = identifier(rest).unwrap_or_default();
        let value = behind.trim_start_matches(is_blank).strip_prefix('=');
        let Some(value) = value.filter(|_| !variable.is_empty()) else {
            let message = format!("`$set` is written `$set NAME = value`; {}", set_mistake(rest));
            return self.refuse(line, ParseErrorKind::MalformedOp, message);
        };
        let value = value.trim_start_matches(is_blank);
        let value = literal_template(value, line);
        self.add(line, OpKind::Set(SetOp { variable: variable.into(), value }));
    }

    fn append_op(&mut self, line: BodyLine<'s>) {
        let rest = line.text["$append".len()..].trim_start_matches(is_blank);
        let parts = identifier(rest).filter(|(_, behind)| behind.starts_with(is_blank));
        let Some((variable, behind)) = parts else {
            return self.refuse(
                line,
                ParseErrorKind::MalformedOp,
                "`$append` is written `$append NAME value`",
            );
        };
        let written = behind.trim_start_matches(is_blank);
        if written.strip_prefix('=').is_some_and(|rest| rest.starts_with(is_blank)) {
            let message = format!(
                "`$append` has no `=`; use `$append {variable} value` to append or `$set {variable} = value` to replace"
            );
            return self.refuse(line, ParseErrorKind::Structure, message);
        }
        let inside = written.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).map(trim);
        let value = inside.unwrap_or(written);
        let value = literal_template(value, line);
        self.add(line, OpKind::Append(AppendOp { variable: variable.into(), value }));
    }

    /// Reads a line that is none of the operations.
    fn no_operation(&mut self, line: BodyLine<'s>) {
        let text = line.text;
        if let Some(word) = block_word(text) {
            let message = format!("`{word}` opens no block; use `if`, `elif`, `else` or `foreach`");
            self.refuse(line, ParseErrorKind::Structure, message);
            self.blocks.open(BlockKind::Unknown, line.indent);
        } else if let Some(word) = missing_space(text) {
            let message = format!("a space is missing behind `$`; write `$ {word} …`");
            self.refuse(line, ParseErrorKind::Structure, message);
        } else if !text.starts_with('#') {
            self.tree.ignored_lines.push(line.number);
        }
    }
}

/// The template of a literal that is a part of a line.
fn literal_template(written: &str, line: BodyLine<'_>) -> TextTemplate {
    let place = SourceRange::of_part(written, line.text, line.range.start);
    let literal = Literal::read(written);
    let origin = literal.offset.map(|offset| place.start + offset);
    TextTemplate::parse(&*literal.text).at(origin)
}

/// Whether a line is the word alone, or the word and a space.
fn is_word_or(text: &str, word: &str) -> bool {
    text.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

fn legacy(text: &str) -> Option<(&'static str, &'static str)> {
    if !text.starts_with(['>', '~', '&', '?', '@', '!']) {
        return None;
    }
    // The first three signs count only before other text.
    let is_alone = |sign: &str| !matches!(sign, ">" | "~" | "&");
    LEGACY.into_iter().find(|(sign, _)| {
        let rest = text.strip_prefix(sign);
        rest.is_some_and(|rest| rest.starts_with(' ') || (rest.is_empty() && is_alone(sign)))
    })
}

/// The identifier with which a text begins, and what follows it.
pub(super) fn identifier(text: &str) -> Option<(&str, &str)> {
    let length = word_length(text);
    let begins = !text.starts_with(|c: char| c.is_ascii_digit());
    (length > 0 && begins).then(|| text.split_at(length))
}

/// The text between a word and the colon at the end of a line. It is one line and not empty; it may be a single blank.
fn between_word_and_colon<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let inside = text.strip_prefix(word)?.strip_suffix(':')?;
    let first = inside.chars().next().filter(|c| is_blank(*c))?;
    let written = inside.trim_start_matches(is_blank);
    let written = if written.is_empty() { &inside[first.len_utf8()..] } else { written };
    (!written.is_empty() && !written.contains(is_line_end)).then_some(written)
}

/// The variable and the list of `NAME in LIST`.
fn foreach_parts(text: &str) -> Option<(&str, &str)> {
    let (variable, rest) = identifier(text)?;
    let rest = rest.starts_with(is_blank).then(|| rest.trim_start_matches(is_blank))?;
    let list = rest.strip_prefix("in")?;
    let list = list.starts_with(is_blank).then(|| list.trim_start_matches(is_blank))?;
    (!list.is_empty()).then_some((variable, list))
}

fn loop_over(list: &str, origin: usize) -> LoopOver {
    let inside = list.strip_prefix("$(").and_then(|rest| rest.strip_suffix(')'));
    if let Some(name) = inside.filter(|name| !name.is_empty() && !name.contains(')')) {
        return LoopOver::Value(Reference::named(ReferenceForm::Parentheses, name));
    }
    match list.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inside) if trim(inside).is_empty() => LoopOver::Elements(Vec::new()),
        Some(inside) => {
            let elements =
                inside.split(',').map(|element| super::super::blanks::unquoted(trim(element)).into());
            LoopOver::Elements(elements.collect())
        }
        None => LoopOver::Text(TextTemplate::parse(list).at(Some(origin))),
    }
}

/// What is wrong with a `$set`.
fn set_mistake(rest: &str) -> String {
    let shown = excerpt(rest);
    if rest.is_empty() {
        "name and value are missing".to_owned()
    } else if !rest.contains('=') {
        format!("'{shown}' has no `=`")
    } else if rest.starts_with(|c: char| c.is_ascii_digit()) {
        format!("the name in '{shown}' begins with a digit")
    } else if identifier(rest).is_some_and(|(_, behind)| behind.starts_with('.')) {
        format!("'{shown}' names a part of a value, and only whole variables can be set")
    } else {
        format!("'{shown}' does not begin with a name of letters, digits and `_`")
    }
}

/// The word of a line that looks like the beginning of a block: a word, perhaps more, and a colon.
fn block_word(text: &str) -> Option<&str> {
    let inside = text.strip_suffix(':')?;
    let length = inside.find(|c| !is_word(c) && c != '-').unwrap_or(inside.len());
    let (word, rest) = inside.split_at(length);
    let begins = word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let rest_is_fine = rest.is_empty()
        || (rest.starts_with(is_blank) && !rest.trim_start_matches(is_blank).contains(is_line_end));
    (begins && rest_is_fine).then_some(word)
}

/// The word of a line `$word …`, in which a space is missing.
fn missing_space(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('$')?;
    let length = rest.find(|c| !is_word(c))?;
    let (word, behind) = rest.split_at(length);
    let is_known = matches!(word, "set" | "append");
    (!word.is_empty() && !is_known && behind.starts_with(is_blank)).then_some(word)
}
