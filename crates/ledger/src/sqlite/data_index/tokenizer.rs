//! Tokenizer: the words of a text, exactly as FTS5 splits and folds them.
//!
//! FTS5 has tables of all characters but no function that returns the words of a text. So the tokenizer asks FTS5 once
//! about every character outside ASCII: it indexes the character in a small table in memory, alone and inside a word.

use std::collections::{HashMap, HashSet};

use parking_lot::{Mutex, RwLock};
use rusqlite::{Connection, params};

/// `asked` uses the same tokenizer as the indexes: the default one.
const TABLES: &str = "
    CREATE VIRTUAL TABLE asked USING fts5 (text, content = '', contentless_delete = 1);
    CREATE VIRTUAL TABLE answers USING fts5vocab (asked, instance);";

/// Most characters about which one text may make FTS5 be asked. Texts with more of them are left to the index. A tenant
/// with such texts would otherwise make the searches of others wait.
const ASKED_AT_ONCE: usize = 256;

/// What FTS5 does with a character.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CharacterClass {
    /// A word can begin with it.
    begins: bool,
    /// It continues a word.
    continues: bool,
    /// The character in its place in a folded word. None: it is left out.
    folded: Option<char>,
}

/// The tokenizer of all indexes. It knows at most as many characters as Unicode has.
#[derive(Default)]
pub(in super::super) struct Tokenizer {
    known: RwLock<HashMap<char, CharacterClass>>,
    /// Opened for the first character outside ASCII.
    fts5: Mutex<Option<Connection>>,
}

impl Tokenizer {
    /// Calls `found` with each word of a text, folded. False if the text was not split, because too many of its
    /// characters are not known yet, or somebody else is asking FTS5.
    pub fn split(&self, text: &str, mut found: impl FnMut(&str)) -> rusqlite::Result<bool> {
        if !text.is_ascii() && !self.learn(text)? {
            return Ok(false);
        }
        let known = self.known.read();
        let (mut word, mut inside) = (String::new(), false);
        for character in text.chars() {
            let class = match character {
                ascii if ascii.is_ascii() => ascii_class(ascii),
                other => known.get(&other).copied().unwrap_or_default(),
            };
            if class.begins || (inside && class.continues) {
                inside = true;
                word.extend(class.folded);
            } else if inside {
                found(&word);
                word.clear();
                inside = false;
            }
        }
        if inside {
            found(&word);
        }
        Ok(true)
    }

    /// The word of a text that is a single word.
    pub fn single_word(&self, text: &str) -> rusqlite::Result<Option<String>> {
        let (mut count, mut single) = (0, None);
        self.split(text, |word| {
            count += 1;
            single = Some(word.to_owned());
        })?;
        Ok(single.filter(|_| count == 1))
    }

    /// Asks FTS5 about the characters of a text that are not known yet. Whether all are known afterwards.
    fn learn(&self, text: &str) -> rusqlite::Result<bool> {
        let mut new = HashSet::new();
        {
            let known = self.known.read();
            for character in text.chars().filter(|other| !other.is_ascii() && !known.contains_key(other)) {
                if new.insert(character) && new.len() > ASKED_AT_ONCE {
                    return Ok(false);
                }
            }
        }
        if new.is_empty() {
            return Ok(true);
        }
        let Some(mut fts5) = self.fts5.try_lock() else { return Ok(false) };
        if fts5.is_none() {
            let db = Connection::open_in_memory()?;
            db.execute_batch(TABLES)?;
            *fts5 = Some(db);
        }
        if let Some(db) = fts5.as_ref() {
            let classes = ask(db, new)?;
            self.known.write().extend(classes);
        }
        Ok(true)
    }
}

fn ascii_class(character: char) -> CharacterClass {
    let is_part = character.is_ascii_alphanumeric();
    CharacterClass {
        begins: is_part,
        continues: is_part,
        folded: is_part.then(|| character.to_ascii_lowercase()),
    }
}

/// Indexes each character twice: alone, and between two letters.
fn ask(
    db: &Connection,
    characters: impl IntoIterator<Item = char>,
) -> rusqlite::Result<Vec<(char, CharacterClass)>> {
    let together = db.unchecked_transaction()?;
    let characters: Vec<char> = characters.into_iter().collect();
    let mut insert = together.prepare_cached("INSERT INTO asked (rowid, text) VALUES (?1, ?2)")?;
    for (row, character) in (1_i64..).zip(&characters) {
        insert.execute(params![2 * row, character.to_string()])?;
        insert.execute(params![2 * row + 1, format!("a{character}b")])?;
    }
    let mut classes: Vec<_> =
        characters.into_iter().map(|character| (character, CharacterClass::default())).collect();
    let mut answers = together.prepare_cached("SELECT doc, term FROM answers")?;
    let mut rows = answers.query([])?;
    while let Some(row) = rows.next()? {
        let (doc, term): (i64, String) = (row.get(0)?, row.get(1)?);
        let Some((_, class)) = usize::try_from(doc / 2 - 1).ok().and_then(|at| classes.get_mut(at)) else {
            continue;
        };
        if doc % 2 == 0 {
            class.begins = true;
        } else if let Some(folded) = term.strip_prefix('a').and_then(|rest| rest.strip_suffix('b')) {
            class.continues = true;
            class.folded = folded.chars().next();
        }
    }
    drop(rows);
    drop((insert, answers));
    together.rollback()?;
    Ok(classes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a text, as FTS5 indexes them, in their order.
    fn words_of_fts5(text: &str) -> Vec<String> {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(TABLES).unwrap();
        db.execute("INSERT INTO asked (rowid, text) VALUES (1, ?1)", [text]).unwrap();
        let mut words = db.prepare("SELECT term FROM answers ORDER BY offset").unwrap();
        words.query_map([], |row| row.get(0)).unwrap().collect::<rusqlite::Result<_>>().unwrap()
    }

    fn words(tokenizer: &Tokenizer, text: &str) -> Vec<String> {
        let mut words = Vec::new();
        assert!(tokenizer.split(text, |word| words.push(word.to_owned())).unwrap(), "{text:?} was not split");
        words
    }

    #[test]
    fn a_text_with_too_many_unknown_characters_is_not_split() {
        let tokenizer = Tokenizer::default();
        let many: String = ('\u{4e00}'..).take(ASKED_AT_ONCE + 1).collect();
        assert!(!tokenizer.split(&many, |word| panic!("{word}")).unwrap());
        // Nothing was asked either, so the characters of a shorter text are learned as before.
        let few: String = many.chars().skip(1).collect();
        assert_eq!(words(&tokenizer, &few), words_of_fts5(&few));
        assert_eq!(words(&tokenizer, &many), words_of_fts5(&many), "only one character is unknown now");
    }

    #[test]
    fn a_text_is_not_split_while_somebody_else_asks() {
        let tokenizer = Tokenizer::default();
        let asking = tokenizer.fts5.lock();
        assert!(!tokenizer.split("Ærø", |word| panic!("{word}")).unwrap());
        drop(asking);
        assert_eq!(words(&tokenizer, "Ærø"), words_of_fts5("Ærø"));
    }

    #[test]
    fn words_are_those_of_fts5() {
        let tokenizer = Tokenizer::default();
        let ascii: String = (0..128_u8).map(char::from).collect();
        let mixed: String = (0..128_u8).map(|byte| format!("a{}B ", char::from(byte))).collect();
        for text in [
            &ascii,
            &mixed,
            "Harbour opened EARLY, at five.",
            "don't e-mail x_y 3.14",
            "",
            "  ",
            "Ærø GROẞ Straße İstanbul ǅ Ça été e\u{301}\u{301}te\u{301} \u{301}a a\u{301}",
            "日本語 한국어 ไทย عربي Ελλάς ΣΊΣΥΦΟΣ \u{1F600}x\u{1F600} \u{e000}y ½ ² Ⅷ",
            "a\u{200d}b a\u{ad}b a\u{feff}b \u{10ffff}z",
        ] {
            assert_eq!(words(&tokenizer, text), words_of_fts5(text), "{text:?}");
        }
        assert_eq!(tokenizer.single_word("\"Été\"").unwrap().as_deref(), Some("ete"));
        assert_eq!(tokenizer.single_word("x-y").unwrap(), None);
        assert_eq!(tokenizer.single_word("-").unwrap(), None);
    }

    /// A sample of all characters, spread over all planes.
    #[test]
    fn classes_of_characters_are_those_of_fts5() {
        let tokenizer = Tokenizer::default();
        let sample: Vec<char> = (0..=0x10_ffff_u32).step_by(97).filter_map(char::from_u32).collect();
        for characters in sample.chunks(64) {
            let text: String =
                characters.iter().map(|character| format!("{character} Q{character}w ")).collect();
            assert_eq!(words(&tokenizer, &text), words_of_fts5(&text), "{text:?}");
        }
    }
}
