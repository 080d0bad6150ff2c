//! Markdown of agents (roughly CommonMark): what the converters to the dialects of platforms share.

pub(crate) mod table;

use pulldown_cmark::{Options, Parser};

/// Number of rounds of escaping link definitions before the text is treated as plain.
const DEFINITION_ROUNDS: usize = 8;

/// The extensions of Markdown that agents use.
pub(crate) fn options() -> Options {
    Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES
}

/// Turns link definitions (`[1]: https://…`) into ordinary lines. The parser removes them from the text, so the reader
/// would never see a source that the agent listed but did not link to. `None` for texts that hide one definition
/// behind another many times.
pub(crate) fn disarm_definitions(mut text: String) -> Option<String> {
    for _ in 0..DEFINITION_ROUNDS {
        let parser = Parser::new_ext(&text, options());
        let mut starts: Vec<usize> =
            parser.reference_definitions().iter().map(|(_, definition)| definition.span.start).collect();
        if starts.is_empty() {
            return Some(text);
        }
        starts.sort_unstable();
        let mut disarmed = String::with_capacity(text.len() + starts.len());
        let mut done = 0;
        for start in starts {
            disarmed.push_str(&text[done..start]);
            disarmed.push('\\');
            done = start;
        }
        disarmed.push_str(&text[done..]);
        text = disarmed;
    }
    None
}
