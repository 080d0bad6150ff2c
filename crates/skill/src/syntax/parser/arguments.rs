//! Parsing of the arguments `name=value` of a `$` operation.

use std::collections::HashMap;

use super::super::blanks::{is_blank, trim};
use super::super::literal::{between, unescaped};
use super::super::quotes::Unquoted;
use super::super::source_range::SourceRange;
use super::super::tree::{ArgumentValue, TextTemplate, ToolArgument};
use super::json_template::json_template;

/// The arguments in a text that begins at `origin` of the source.
pub fn tool_arguments(text: &str, origin: usize) -> ArgumentList {
    let mut arguments = ArgumentList::default();
    for (start, word) in words(text) {
        let Some((name, written)) = word.split_once('=') else { continue };
        let begin = origin + start;
        let value = argument_value(written, Some(begin + name.len() + 1));
        arguments.add(trim(name), value, SourceRange::new(begin, begin + word.len()));
    }
    arguments
}

/// Up to this many arguments are compared one by one.
const FEW: usize = 16;

/// Arguments by name. A repeated name keeps its place and gets the new value.
#[derive(Default)]
pub struct ArgumentList {
    pub list: Vec<ToolArgument>,
    /// Values that were replaced, in their order.
    pub overwritten: Vec<ToolArgument>,
    /// The places of all names, if there are many.
    places: HashMap<Box<str>, usize>,
}

impl ArgumentList {
    pub fn add(&mut self, name: &str, value: ArgumentValue, range: SourceRange) {
        let argument = ToolArgument { name: name.into(), value, range };
        if self.list.len() == FEW && self.places.is_empty() {
            let named = self.list.iter().enumerate();
            self.places = named.map(|(index, argument)| (argument.name.clone(), index)).collect();
        }
        let is_few = self.list.len() < FEW;
        let place = if is_few {
            self.list.iter().position(|known| known.name == argument.name)
        } else {
            self.places.get(name).copied()
        };
        match place {
            Some(index) => self.overwritten.push(std::mem::replace(&mut self.list[index], argument)),
            None => {
                if !is_few {
                    self.places.insert(name.into(), self.list.len());
                }
                self.list.push(argument);
            }
        }
    }
}

/// The value as it is written, before references are resolved.
pub fn argument_value(written: &str, origin: Option<usize>) -> ArgumentValue {
    let shape = written.trim_start_matches(is_blank);
    if shape.starts_with(['[', '{'])
        && let Some(json) = json_template(shape)
    {
        return ArgumentValue::Json(json);
    }
    let written = written.trim_end_matches(is_blank);
    let at = |offset: usize| origin.map(|origin| origin + offset);
    for (quote, has_escapes) in [("\"\"\"", true), ("\"", true), ("'", false)] {
        let Some(inside) = between(written, quote) else { continue };
        let text = if has_escapes { unescaped(inside) } else { inside.into() };
        let place = if text.len() == inside.len() { at(quote.len()) } else { None };
        return ArgumentValue::Quoted(TextTemplate::parse(text.into_owned()).at(place));
    }
    ArgumentValue::Bare(TextTemplate::parse(written).at(at(0)))
}

/// The words of a text with their places. Blanks separate them outside of quotes and brackets.
pub fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let (mut walk, mut depth, mut next) = (Unquoted::from(text, 0), 0_usize, Some(0));
    let words = std::iter::from_fn(move || {
        let start = next?;
        let blank = walk.find(|(_, c)| {
            match c {
                '[' | '{' => depth += 1,
                ']' | '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && is_blank(*c)
        });
        next = blank.map(|(at, c)| at + c.len_utf8());
        Some((start, &text[start..blank.map_or(text.len(), |(at, _)| at)]))
    });
    words.filter(|(_, word)| !trim(word).is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let arguments = tool_arguments(text, 0).list;
        let value = |value: &ArgumentValue| match value {
            ArgumentValue::Json(json) => {
                format!("{json:?}").chars().take_while(|c| c.is_alphabetic()).collect()
            }
            ArgumentValue::Quoted(text) => format!("'{}'", text.text()),
            ArgumentValue::Bare(text) => text.text().to_owned(),
        };
        arguments.iter().map(|found| format!("{}={}", found.name, value(&found.value))).collect()
    }

    #[test]
    fn blanks_separate_words_outside_of_quotes_and_brackets() {
        assert_eq!(
            shown("a=1 b=\"x y\" stray c=[1, 2] d='p \"q'"),
            ["a=1", "b='x y'", "c=List", "d='p \"q'"]
        );
        assert_eq!(shown("a=1, b=\"x\","), ["a=1,", "b=\"x\","]);
        assert_eq!(shown("a={\"k\": {\"l\": 1}} e=\"\"\"x\ny\"\"\""), ["a=Object", "e='x\ny'"]);
    }

    #[test]
    fn escapes_are_processed_in_double_quotes_and_protect_them() {
        assert_eq!(shown(r#"a="he said \"hi\" \n" b='\n'"#), ["a='he said \"hi\" \n'", r"b='\n'"]);
    }

    #[test]
    fn the_last_value_of_a_name_counts_and_text_that_is_no_json_is_bare() {
        assert_eq!(shown("a=1 b=2 a=3"), ["a=3", "b=2"]);
        assert_eq!(shown("a=[${X}, 1] b={x}"), ["a=[${X}, 1]", "b={x}"]);
        assert_eq!(shown("a=[\"${X}\"]"), ["a=List"]);
    }

    #[test]
    fn many_arguments_are_told_apart_like_few() {
        let text: String = (0..40).chain(0..40).map(|number| format!("a{number}={number} ")).collect();
        let arguments = tool_arguments(&format!("{text} a39=last a0=first"), 0).list;
        assert_eq!(arguments.len(), 40);
        let value = |index: usize| arguments[index].value.text().map(TextTemplate::text);
        assert_eq!((value(0), value(1), value(39)), (Some("first"), Some("1"), Some("last")));
    }

    #[test]
    fn places_of_references_are_those_of_the_source() {
        let arguments = tool_arguments("a=\"x${B}\"", 100).list;
        let text = arguments[0].value.text().unwrap();
        assert_eq!(text.located_references().next().unwrap().1, Some(SourceRange::new(104, 108)));
        assert_eq!(arguments[0].range, SourceRange::new(100, 109));
    }
}
