//! Tests of the conversion to mrkdwn.

use proptest::prelude::*;

use super::to_mrkdwn;

#[test]
fn markdown_becomes_mrkdwn() {
    for (markdown, expected) in [
        ("**bold** and *italic* and ~~gone~~ and `code`", "*bold* and _italic_ and ~gone~ and `code`"),
        ("***both***", "_*both*_"),
        ("# Title\n\ntext", "*Title*\n\ntext"),
        ("## A **bold** title", "*A bold title*"),
        ("[label](https://a.test/?a=1&b=2)", "<https://a.test/?a=1&amp;b=2|label>"),
        ("![chart](https://a.test/c.png)", "<https://a.test/c.png|chart>"),
        ("<https://a.test>", "https://a.test"),
        ("- one\n- two\n    - deep\n", "• one\n• two\n    • deep"),
        ("3. c\n4. d", "3. c\n4. d"),
        ("> quoted\n> more\n\nafter", "> quoted\n> more\n\nafter"),
        ("```rust\nlet a = b < c;\n```", "```\nlet a = b &lt; c;\n```"),
        ("a\n\n---\n\nb", "a\n\n———\n\nb"),
        ("[1]: https://a.test", "[1]: https://a.test"),
        ("1 < 2 & 3 > 2", "1 &lt; 2 &amp; 3 &gt; 2"),
        ("x = a * b * c", "x = a * b * c"),
    ] {
        assert_eq!(to_mrkdwn(markdown), expected, "{markdown}");
    }
    assert_eq!(to_mrkdwn("| a | b |\n|---|---|\n| 1 | 2 |"), "```\na | b\n--+--\n1 | 2\n```");
}

#[test]
fn no_text_of_an_agent_notifies_anybody() {
    for text in [
        "<!channel> <!here> <@U012345678> <#C1>",
        "[x](!channel) [y](@U012345678) [z](<!here>) [w](#C012345678)",
        "[https://a.test](javascript:x) `<!channel>`",
        "```\n<!everyone>\n```",
        "<!channel>\n\n**<@U1>**",
        "[a|<!channel>](https://a.test/|b<c)",
    ] {
        let converted = to_mrkdwn(text);
        for sign in ["<!", "<@", "<#"] {
            assert!(!converted.contains(sign), "{text} -> {converted}");
        }
    }
}

#[test]
fn marks_inside_words_have_borders_and_spaces_stay_outside() {
    assert_eq!(to_mrkdwn("foo**bar**baz"), "foo\u{200b}*bar*\u{200b}baz");
    assert_eq!(to_mrkdwn("这是**粗体**文字"), "这是\u{200b}*粗体*\u{200b}文字");
    assert_eq!(to_mrkdwn("**bold**, then"), "*bold*, then");
}

#[test]
fn what_would_show_nothing_is_sent_as_it_was_written() {
    for text in ["***", "```", "- ", "> ", "[](x)"] {
        assert!(!to_mrkdwn(text).trim().is_empty(), "{text}");
    }
    assert_eq!(to_mrkdwn(""), "");
}

proptest! {
    #[test]
    fn nothing_becomes_a_mention(text in "[a-z*_~`<>@#!|\\[\\]()& \n.-]{0,80}") {
        let converted = to_mrkdwn(&text);
        for sign in ["<!", "<@", "<#"] {
            prop_assert!(!converted.contains(sign), "{:?} -> {:?}", text, converted);
        }
    }

    #[test]
    fn every_word_is_kept(text in "[a-z*_~<>@#!| \n.-]{0,80}") {
        let converted = to_mrkdwn(&text);
        // The escapes add letters.
        let letters = |text: &str| text.chars().filter(|letter| letter.is_ascii_lowercase()).count();
        prop_assert!(letters(&converted) >= letters(&text), "{:?} -> {:?}", text, converted);
    }
}
