use super::*;
use proptest::prelude::*;

/// A MarkdownV2 parser by the rules of Telegram's manual: returns the visible text, or the error. It shares no code
/// with the converter on purpose.
fn read(source: &str) -> Result<String, String> {
    let letters: Vec<char> = source.chars().collect();
    let at = |index: usize| letters.get(index).copied().unwrap_or('\0');
    let mut seen = String::new();
    let mut open: Vec<&str> = Vec::new();
    let mut quoting = false;
    let mut index = 0;
    while index < letters.len() {
        let letter = letters[index];
        if letter == '\\' && (1..=126).contains(&(at(index + 1) as u32)) {
            seen.push(at(index + 1));
            index += 2;
            continue;
        }
        let inner = open.last().copied().unwrap_or_default();
        let three = letter == '`' && at(index + 1) == '`' && at(index + 2) == '`';
        if inner == "`" || inner == "```" {
            match letter {
                '`' if inner == "`" => (open.pop(), index += 1).1,
                '`' if three => (open.pop(), index += 3).1,
                '`' => return Err(format!("a stray backtick at {index}")),
                _ => {
                    seen.push(letter);
                    index += 1;
                }
            }
            continue;
        }
        match letter {
            '\n' => {
                seen.push('\n');
                index += 1;
                if quoting && at(index) == '>' {
                    index += 1;
                } else if quoting {
                    if !open.is_empty() {
                        return Err(format!("a quote ends inside {open:?}"));
                    }
                    quoting = false;
                }
                continue;
            }
            '>' if !quoting && open.is_empty() && (index == 0 || at(index - 1) == '\n') => quoting = true,
            '`' if three => {
                if quoting || !open.is_empty() {
                    return Err("code inside of something else".to_owned());
                }
                open.push("```");
                index += 3;
                while !at(index).is_whitespace() && at(index) != '`' && index < letters.len() {
                    index += 1;
                }
                index += usize::from(at(index) == '\n');
                continue;
            }
            '`' => open.push("`"),
            '_' if at(index + 1) == '_' => return Err(format!("underline at {index}")),
            '_' | '*' | '~' => {
                let mark = if letter == '_' {
                    "_"
                } else if letter == '*' {
                    "*"
                } else {
                    "~"
                };
                if inner == mark {
                    open.pop();
                } else if open.contains(&mark) && !(mark == "*" && at(index + 1) == '*') {
                    return Err(format!("{mark} inside {open:?}"));
                } else {
                    open.push(mark);
                }
            }
            '[' if !open.contains(&"[") => open.push("["),
            ']' if inner == "[" => {
                open.pop();
                if at(index + 1) != '(' {
                    return Err("a link without target".to_owned());
                }
                index += 2;
                while at(index) != ')' {
                    if index >= letters.len() || at(index) == '\n' {
                        return Err("a link target without end".to_owned());
                    }
                    index += if at(index) == '\\' { 2 } else { 1 };
                }
            }
            reserved if "_*[]()~`>#+-=|{}.!".contains(reserved) => {
                return Err(format!("{reserved} is reserved, at {index}"));
            }
            other => seen.push(other),
        }
        index += 1;
    }
    if open.is_empty() { Ok(seen) } else { Err(format!("no end of {open:?}")) }
}

fn check(text: &str) -> String {
    let converted = to_markdown_v2(text);
    let seen = read(&converted).unwrap_or_else(|trouble| panic!("{text:?} became {converted:?}: {trouble}"));
    assert_eq!(visible_units(&converted), seen.encode_utf16().count(), "{text:?} became {converted:?}");
    seen
}

#[test]
fn what_agents_write_becomes_what_telegram_reads() {
    for (text, expected) in [
        ("Hello, world!", "Hello, world\\!"),
        ("**bold** and *it* and ~~gone~~", "*bold* and _it_ and ~gone~"),
        ("***both***", "_*both*_"),
        ("*a **b** c*", "_a *b* c_"),
        ("use `a_b\\c` now", "use `a_b\\\\c` now"),
        ("[docs](https://a.test/x_(y)) here", "[docs](https://a.test/x_(y\\)) here"),
        ("[here](notes.md)", "here \\(notes\\.md\\)"),
        ("<https://a.test/x>", "https://a\\.test/x"),
        ("![a cat](https://a.test/cat.png)", "[a cat](https://a.test/cat.png)"),
        ("[](https://a.test)", "[https://a\\.test](https://a.test)"),
        ("# Title\ntext", "*Title*\ntext"),
        ("## A **b**\n\ntext", "*A b*\n\ntext"),
        ("Do:\n- one\n- two\n  - deep", "Do:\n• one\n• two\n  • deep"),
        ("3. a\n4. b", "3\\. a\n4\\. b"),
        ("- a\n\n- b", "• a\n\n• b"),
        ("-\n- b", "• \n• b"),
        ("> said\n> twice\n\nno", ">said\n>twice\n\nno"),
        ("> a\n>\n> b", ">a\n>\n>b"),
        ("> one\n\n> two", ">one\n\n>two"),
        ("> **a\n> b**", ">*a b*"),
        ("> see\n> ```\n> x\n> ```\n> so", ">see\n```\nx\n```\n>so"),
        ("```rust\nlet a = `1`;\n```", "```rust\nlet a = \\`1\\`;\n```"),
        ("```\nplain\n```\nafter", "```\nplain\n```\nafter"),
        ("a\n\n---\n\nb", "a\n\n———\n\nb"),
        ("one\ntwo", "one\ntwo"),
        ("a<br>b <b>c</b>", "a\nb <b\\>c</b\\>"),
        ("snake_case_name 2*3*4", "snake\\_case\\_name 2_3_4"),
        ("see [1]\n\n[1]: https://a.test", "see \\[1\\]\n\n\\[1\\]: https://a\\.test"),
        ("- [ ] task", "• \\[ \\] task"),
        ("#", "\\#"),
        ("```js", "js"),
        ("", ""),
    ] {
        assert_eq!(to_markdown_v2(text), expected, "{text:?}");
        check(text);
    }
}

#[test]
fn neighbouring_italics_do_not_become_an_underline() {
    for text in
        ["*a*\u{200b}*b*", "*a*<b>*b*", "*a*&#8203;_b_", "*x\\\\*_y_", "*![]()*", "*<br>*", "*a*![]()*b*"]
    {
        check(text);
    }
}

#[test]
fn a_table_is_aligned_and_loses_no_cell() {
    let text = "| Name | Size |\n|---|--:|\n| **a** | 1 | extra |\n| [b](https://b.test) | 1. |";
    let expected = "```\nName               | Size\n-------------------+------+------\n\
                    a                  | 1    | extra\nb (https://b.test) | 1.\n```";
    assert_eq!(to_markdown_v2(text), expected);
    check(text);
}

#[test]
fn definitions_that_hide_one_another_are_all_shown() {
    let text = "[a]: https://one.test\n[a]: https://two.test\n".repeat(20);
    let seen = check(&text);
    assert_eq!((seen.matches("one.test").count(), seen.matches("two.test").count()), (20, 20));
}

#[test]
fn visible_units_count_as_telegram_does() {
    for (markdown, units) in [
        ("*bold*", 4),
        ("\\*", 1),
        ("😀", 2),
        ("[a](https://x\\)y)", 1),
        (">q\n>r", 3),
        ("```rs\na\\`\n```", 3),
    ] {
        assert_eq!(visible_units(markdown), units, "{markdown:?}");
    }
}

#[test]
fn hostile_nesting_stays_small() {
    for text in [">".repeat(20_000) + "x", "- ".repeat(2_000) + "x", "*a ".repeat(20_000), "[".repeat(20_000)]
    {
        assert!(to_markdown_v2(&text).len() <= text.len() * 4 + 100);
    }
    let wide = format!("|{}|b|\n|-|-|\n{}", "a".repeat(70_000), "|c|d|\n".repeat(1000));
    assert!(check(&wide).len() < wide.len() * 10);
}

#[test]
fn a_long_answer_is_split_by_what_is_seen() {
    let section = "## Part\n\nSome **bold** words, a [link](https://a.test/long/path), `code`.\n\n```rust\nlet x = 1;\n```\n\n";
    let text = section.repeat(2000);
    let ruler = |chunk: &str| visible_units(&to_markdown_v2(chunk));
    let chunks = crate::split::split_measured(&text, 4096, &ruler);
    assert!(chunks.len() > 20);
    for chunk in chunks {
        assert!((2048..=4096).contains(&ruler(&chunk)) || text.trim_end().ends_with(&chunk));
        check(&chunk);
    }
}

fn markup() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "*",
        "**",
        "***",
        "_",
        "__",
        "~",
        "~~",
        "`",
        "``",
        "```",
        "```rs",
        "\n",
        "\n\n",
        "> ",
        ">",
        "- ",
        "  ",
        "    ",
        "1. ",
        "# ",
        "## ",
        "|",
        "|-|-|\n",
        "---",
        "===",
        "[",
        "](",
        "](https://a.test/",
        ")",
        "![",
        "]",
        "]: ",
        "(",
        "<",
        ">",
        "<br>",
        "<b>",
        "<https://a.test>",
        "\\",
        "&amp;",
        "&#96;",
        "&#10;",
        "!",
        ".",
        "+",
        "=",
        "{",
        "}",
        "a",
        "b c",
        "word",
        "é",
        "😀",
        "\t",
        "\r\n",
        "\u{a0}",
        "^",
        "$",
        "||",
    ]);
    prop::collection::vec(pieces, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_becomes_valid(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn any_heap_of_markup_becomes_valid(text in markup()) {
        check(&text);
    }

    // Without the backticks and tildes of fences, because the language beside them is not visible.
    #[test]
    fn words_are_never_lost(text in "[a-c你😀*_>#+!.|\\\\ \n-]{0,120}") {
        let words = |text: &str| text.chars().filter(|letter| letter.is_alphabetic() || *letter == '😀').collect();
        let (said, seen): (String, String) = (words(&text), words(&check(&text)));
        prop_assert_eq!(said, seen);
    }

    #[test]
    fn blank_only_when_nothing_was_said(text in markup()) {
        prop_assert_eq!(check(&text).trim().is_empty(), text.trim().is_empty());
    }
}
