//! Parsing of conditions.
//!
//! A condition is split at its last `or`, else at its last `and`, outside of quotes and parentheses. Braces do not
//! count as nesting. One pair of outer parentheses is removed at each step, so `((${A}))` is not a condition.

use memchr::memchr;

use super::super::blanks::{is_blank, trim, word_length};
use super::super::tree::{
    Comparison, Condition, FilterCall, FilterName, Operand, Reference, ReferenceForm, TextTemplate,
};

/// Longest condition, in UTF-16 units.
const MAX_LENGTH: usize = 4096;
const MAX_DEPTH: usize = 64;

const OR: &str = "or";
const AND: &str = "and";

/// Parses a condition. `None` if the text is not a condition of the language.
pub fn condition(text: &str) -> Option<Condition> {
    let text = trim(text);
    // A text never has more UTF-16 units than bytes, so a short text needs no count.
    let is_short = text.len() <= MAX_LENGTH || text.encode_utf16().take(MAX_LENGTH + 1).count() <= MAX_LENGTH;
    if is_short { compound(text, 0) } else { None }
}

fn compound(text: &str, depth: usize) -> Option<Condition> {
    if depth > MAX_DEPTH {
        return None;
    }
    let text = without_parentheses(text);
    if let Some((word, at)) = splitting_word(text) {
        let left = Box::new(compound(trim(&text[..at]), depth + 1)?);
        let right = Box::new(compound(trim(&text[at + word.len() + 2..]), depth + 1)?);
        return Some(if word == OR { Condition::Or(left, right) } else { Condition::And(left, right) });
    }
    match text.strip_prefix("not ") {
        Some(rest) => compound(rest, depth + 1).map(|inner| Condition::Not(Box::new(inner))),
        None => simple(text),
    }
}

/// The text without one pair of parentheses around all of it.
fn without_parentheses(text: &str) -> &str {
    let text = trim(text);
    let Some(inside) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else { return text };
    // The pair must not close before the end.
    let mut depth = 1_i64;
    for (_, byte) in OutsideQuotes::of(inside) {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return text;
        }
    }
    trim(inside)
}

/// The last ` or ` outside of quotes and parentheses, else the last ` and `, with the place of the blank before it.
fn splitting_word(text: &str) -> Option<(&'static str, usize)> {
    let (mut depth, mut last_or, mut last_and) = (0_usize, None, None);
    for (at, byte) in OutsideQuotes::of(text) {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b' ' if depth == 0 => {
                let begins_with = |word: &str| {
                    let rest = text[at + 1..].strip_prefix(word);
                    rest.is_some_and(|rest| rest.starts_with([' ', '\t']))
                };
                if begins_with(OR) {
                    last_or = Some(at);
                } else if begins_with(AND) {
                    last_and = Some(at);
                }
            }
            _ => {}
        }
    }
    last_or.map(|at| (OR, at)).or(last_and.map(|at| (AND, at)))
}

/// The bytes outside of quotes. Conditions have no escapes and no triple quotes.
struct OutsideQuotes<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> OutsideQuotes<'t> {
    fn of(text: &'t str) -> Self {
        Self { text: text.as_bytes(), at: 0 }
    }
}

impl Iterator for OutsideQuotes<'_> {
    type Item = (usize, u8);

    fn next(&mut self) -> Option<(usize, u8)> {
        loop {
            let (at, byte) = (self.at, *self.text.get(self.at)?);
            self.at += 1;
            if !matches!(byte, b'"' | b'\'') {
                return Some((at, byte));
            }
            let quoted = memchr(byte, &self.text[self.at..]);
            self.at = quoted.map_or(self.text.len(), |length| self.at + length + 1);
        }
    }
}

/// A reference alone, or compared with something.
fn simple(text: &str) -> Option<Condition> {
    let mut rest = Rest { text: trim(text) };
    let left = rest.reference()?;
    if rest.text.is_empty() {
        return Some(Condition::Truthy(left));
    }
    if let Some(found) = rest.membership() {
        return rest.ended(Condition::In { left, is_negated: found.0, right: found.1 });
    }
    rest.blanks();
    let comparison = rest.comparison()?;
    rest.blanks();
    let right = match rest.quoted() {
        Some(literal) => Operand::Literal(literal.into()),
        None => Operand::Reference(rest.reference()?),
    };
    rest.ended(Condition::Compare { left, comparison, right })
}

/// What is left of a condition.
struct Rest<'t> {
    text: &'t str,
}

impl<'t> Rest<'t> {
    fn blanks(&mut self) -> bool {
        let rest = self.text.trim_start_matches(is_blank);
        let found = rest.len() < self.text.len();
        self.text = rest;
        found
    }

    fn take(&mut self, word: &str) -> bool {
        let rest = self.text.strip_prefix(word);
        self.text = rest.unwrap_or(self.text);
        rest.is_some()
    }

    fn ended(mut self, condition: Condition) -> Option<Condition> {
        self.blanks();
        self.text.is_empty().then_some(condition)
    }

    fn identifier(&mut self) -> Option<&'t str> {
        let length = word_length(self.text);
        if length == 0 || self.text.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let (word, rest) = self.text.split_at(length);
        self.text = rest;
        Some(word)
    }

    fn quoted(&mut self) -> Option<&'t str> {
        let inside = self.text.strip_prefix('"')?;
        let (literal, rest) = inside.split_once('"')?;
        self.text = rest;
        Some(literal)
    }

    fn comparison(&mut self) -> Option<Comparison> {
        use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        let all = [Equal, NotEqual, LessOrEqual, GreaterOrEqual, Less, Greater];
        all.into_iter().find(|comparison| self.take(comparison.word()))
    }

    /// A reference: identifiers with dots between them, and filters.
    fn reference(&mut self) -> Option<Reference> {
        let (form, close) = if self.take("$(") {
            (ReferenceForm::Parentheses, ")")
        } else if self.take("${") {
            (ReferenceForm::Braces, "}")
        } else {
            return None;
        };
        let begin = self.text;
        self.identifier()?;
        while self.take(".") {
            self.identifier()?;
        }
        let mut reference = Reference::named(form, &begin[..begin.len() - self.text.len()]);
        while !self.take(close) {
            reference.filters.push(self.filter()?);
        }
        Some(reference)
    }

    fn filter(&mut self) -> Option<FilterCall> {
        self.blanks();
        if !self.take("|") {
            return None;
        }
        self.blanks();
        let filter = FilterName::named(self.identifier()?);
        let without_argument = self.text;
        self.blanks();
        if !self.take(":") {
            self.text = without_argument;
            return Some(FilterCall { filter, argument: None });
        }
        self.blanks();
        let argument = TextTemplate::parse(self.quoted()?);
        Some(FilterCall { filter, argument: Some(argument) })
    }

    /// ` in REF` or ` not in REF`: whether it is negated, and the list. Without one nothing is taken.
    fn membership(&mut self) -> Option<(bool, Reference)> {
        let begin = self.text;
        let found = self.blanks().then(|| {
            let is_negated = self.take("not") && self.blanks();
            if !self.take("in") || !self.blanks() {
                return None;
            }
            self.reference().filter(|list| list.filters.is_empty()).map(|list| (is_negated, list))
        });
        let found = found.flatten();
        if found.is_none() {
            self.text = begin;
        }
        found
    }
}

/// Whether a condition compares with a single `=`: a reference, `=` and text in quotes.
pub fn has_single_equals(text: &str) -> bool {
    if !text.contains('=') {
        return false;
    }
    let mut closings = [None, None];
    let mut at = 0;
    while let Some(distance) = text[at..].find('$') {
        at += distance + 1;
        let (index, close) = match text.as_bytes().get(at) {
            Some(b'(') => (0, ')'),
            Some(b'{') => (1, '}'),
            _ => continue,
        };
        // The closing bracket that was found last also closes this reference, and the text after it is already checked.
        let known: Option<usize> = closings[index];
        if known.is_some_and(|closing| closing > at + 1) {
            continue;
        }
        let Some(length) = text[at + 1..].find(close) else {
            closings[index] = Some(usize::MAX);
            continue;
        };
        if length == 0 {
            continue;
        }
        let closing = at + 1 + length;
        closings[index] = Some(closing);
        let mut rest = Rest { text: &text[closing + 1..] };
        rest.blanks();
        if rest.take("=") && !rest.text.starts_with('=') {
            rest.blanks();
            if rest.quoted().is_some() {
                return true;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_condition(text: &str) -> bool {
        condition(text).is_some()
    }

    /// A short form of a condition, fully in parentheses.
    fn shown(condition: &Condition) -> String {
        match condition {
            Condition::Or(left, right) => format!("({} or {})", shown(left), shown(right)),
            Condition::And(left, right) => format!("({} and {})", shown(left), shown(right)),
            Condition::Not(inner) => format!("(not {})", shown(inner)),
            Condition::Truthy(reference) => reference.name.to_string(),
            Condition::Compare { left, comparison, right } => {
                let right = match right {
                    Operand::Literal(text) => format!("'{text}'"),
                    Operand::Reference(reference) => reference.name.to_string(),
                };
                format!("{}{}{right}", left.name, comparison.word())
            }
            Condition::In { left, is_negated, right } => {
                format!("{}{}{}", left.name, if *is_negated { " not in " } else { " in " }, right.name)
            }
        }
    }

    fn tree(text: &str) -> String {
        shown(&condition(text).unwrap_or_else(|| panic!("{text}")))
    }

    #[test]
    fn or_binds_weaker_than_and_and_the_last_one_splits() {
        assert_eq!(tree("${A} or ${B} and ${C} or ${D}"), "((A or (B and C)) or D)");
        assert_eq!(tree("not ${A} and ${B}"), "((not A) and B)");
        assert_eq!(tree("(${A} or ${B}) and $(C)"), "((A or B) and C)");
        assert_eq!(tree("not (${A} and ${B})"), "(not (A and B))");
    }

    #[test]
    fn words_in_quotes_do_not_split() {
        assert_eq!(tree("${A} == \"x or y\""), "A=='x or y'");
        assert_eq!(tree("${A|fallback:\"a and b\"} != ${B.c}"), "A!=B.c");
    }

    #[test]
    fn every_comparison_and_membership_is_known() {
        for (text, expected) in [
            ("${A}<=\"1\"", "A<='1'"),
            ("${A} < ${B}", "A<B"),
            ("${A}>=$(B)", "A>=B"),
            ("${A} in ${B}", "A in B"),
            ("${A|trim} not in $(B.c)", "A not in B.c"),
            ("  ${A.b | trim|length}  ", "A.b"),
        ] {
            assert_eq!(tree(text), expected);
        }
    }

    #[test]
    fn other_forms_are_no_conditions() {
        for text in [
            "",
            "A",
            "${A} == 1",
            "${A} > 5",
            "\"1\" == ${A}",
            "((${A}))",
            "${A.0}",
            "${A} ~= \"1\"",
            "${A} in [1]",
            "${A} in ${B|trim}",
            "${A|trim}.x",
            "${A} = \"1\"",
            "${A}in ${B}",
            "${A |trim }",
            "not",
            "${A} and",
            "(${A}",
            "${A} == \"1\" x",
        ] {
            assert!(!is_condition(text), "{text}");
        }
    }

    #[test]
    fn long_and_deep_conditions_are_refused() {
        let chain = |count: usize| vec!["${A}"; count].join(" and ");
        assert!(is_condition(&chain(65)) && !is_condition(&chain(66)));
        let literal = |length: usize| format!("${{A}} == \"{}\"", "é".repeat(length));
        assert!(is_condition(&literal(4096 - 10)) && !is_condition(&literal(4096 - 9)));
    }

    #[test]
    fn a_single_equals_sign_is_noticed() {
        for text in ["${A} = \"1\"", "$(A)=\"\"", "${B} == \"2\" and ${A|trim} =  \"1\"", "${ = ${A} = \"x\""]
        {
            assert!(has_single_equals(text), "{text}");
        }
        for text in ["${A} == \"1\"", "${A} = 1", "A = \"1\"", "${A} = \"", "${} = \"1\"", "${A} != \"=\""] {
            assert!(!has_single_equals(text), "{text}");
        }
        assert!(!has_single_equals(&"$(${".repeat(1_000_000)));
    }
}
