//! Parsing of conditions.
//!
//! A condition is split at its last `or`, else at its last `and`, outside of quotes and parentheses. Braces do not
//! count as nesting. One pair of outer parentheses is removed at each step, so `((${A}))` is not a condition.

use super::super::blanks::{is_blank, is_word, trim};
use super::super::tree::{
    Comparison, Condition, FilterCall, FilterName, Operand, Reference, ReferenceForm, TextTemplate,
};

/// Longest condition, in UTF-16 units.
const MAX_LENGTH: usize = 4096;
const MAX_DEPTH: usize = 64;

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
    let both = |at: usize, word: &str| {
        let left = compound(trim(&text[..at]), depth + 1)?;
        let right = compound(trim(&text[at + word.len() + 2..]), depth + 1)?;
        Some((Box::new(left), Box::new(right)))
    };
    if let Some(at) = last_word(text, "or") {
        return both(at, "or").map(|(left, right)| Condition::Or(left, right));
    }
    if let Some(at) = last_word(text, "and") {
        return both(at, "and").map(|(left, right)| Condition::And(left, right));
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
    for (_, c) in OutsideQuotes::of(inside) {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return text;
        }
    }
    trim(inside)
}

/// The place of the blank before the last ` word ` outside of quotes and parentheses.
fn last_word(text: &str, word: &str) -> Option<usize> {
    let (mut depth, mut last) = (0_usize, None);
    for (at, c) in OutsideQuotes::of(text) {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 => {
                let rest = text[at + 1..].strip_prefix(word);
                if rest.is_some_and(|rest| rest.starts_with([' ', '\t'])) {
                    last = Some(at);
                }
            }
            _ => {}
        }
    }
    last
}

/// The characters outside of quotes. Conditions have no escapes and no triple quotes.
struct OutsideQuotes<'t> {
    chars: std::str::CharIndices<'t>,
}

impl<'t> OutsideQuotes<'t> {
    fn of(text: &'t str) -> Self {
        Self { chars: text.char_indices() }
    }
}

impl Iterator for OutsideQuotes<'_> {
    type Item = (usize, char);

    fn next(&mut self) -> Option<(usize, char)> {
        loop {
            match self.chars.next()? {
                (_, quote @ ('"' | '\'')) => {
                    self.chars.by_ref().find(|(_, c)| *c == quote)?;
                }
                found => return Some(found),
            }
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
        let length = self.text.find(|c| !is_word(c)).unwrap_or(self.text.len());
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
