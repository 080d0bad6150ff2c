//! Mutations of an input: one small change each, of bytes, of texts that parsers treat specially, or of structure.

use crate::crash::Dice;

/// Texts that parsers of these contracts treat specially.
const WORDS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\",
    b":",
    b",",
    b".",
    b"\n",
    b"\r\n",
    b"\0",
    b"\xff",
    b"\xc3",
    b"\xef\xbb\xbf",
    b"null",
    b"true",
    b"false",
    b"{}",
    b"[]",
    b"\"\"",
    b"0",
    b"-1",
    b"1e999",
    b"1.0",
    b"18446744073709551616",
    b"-9223372036854775808",
    b"\\u0000",
    b"\\ud800",
    b"\\udc00\\ud800",
    b"\\ud83d\\ude00",
    b"\\x",
    b" ",
    b"=",
    b"-",
    b"_",
    b"+",
    b"/",
    b"\"type\":",
    b"\"op\":",
    b"\"hello\"",
    b"\"outbound\"",
    b"\"inbound_ack\"",
    b"\"interrupt\"",
    b"\"going_idle\"",
    b"\"cron_fire_result\"",
    b"\"send\"",
    b"\"edit\"",
    b"\"typing\"",
    b"\"follow_up\"",
    b"\"get_chat_info\"",
    b"\"chat_id\":",
    b"\"content\":",
    b"\"metadata\":",
    b"\"requestId\":",
    b"\"bufferId\":",
    b"\"platform\":",
    b"\"botId\":",
    b"\"platform\":\"\"",
    b"\"requireAddress\":",
    b"\"freeResponseScopes\":",
    b"\"allowOtherBots\":",
    b"\"enrollmentToken\":",
    b"\"gatewayId\":",
    b"\"alg\":\"none\"",
    b"\"exp\":",
];

/// Changes the input once; `other` is a second input to take parts of.
pub fn mutate(input: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
    let at = dice.below(input.len() + 1);
    let end = at + dice.below((input.len() - at).min(32) + 1);
    match dice.below(10) {
        0 => input.truncate(at),
        1 => drop(input.drain(at..end)),
        2 => flip(input, dice),
        3 => drop(input.splice(at..at, WORDS[dice.below(WORDS.len())].iter().copied())),
        4 => drop(input.splice(at..end, WORDS[dice.below(WORDS.len())].iter().copied())),
        5 => {
            let part = input[at..end].to_vec();
            let times = 1 << dice.below(8);
            drop(input.splice(at..at, part.repeat(times)));
        }
        6 => {
            let from = dice.below(other.len() + 1);
            let to = from + dice.below(other.len() - from + 1);
            drop(input.splice(at..end, other[from..to].iter().copied()));
        }
        7 => nest(input, at, dice),
        8 => swap_member(input, other, dice),
        _ => {
            let byte = dice.below(256) as u8;
            drop(input.splice(at..at, [byte]));
        }
    }
}

fn flip(input: &mut [u8], dice: &mut Dice) {
    if !input.is_empty() {
        let at = dice.below(input.len());
        input[at] ^= 1 << dice.below(8);
    }
}

/// Puts a deep nesting into the input, closed or not.
fn nest(input: &mut Vec<u8>, at: usize, dice: &mut Dice) {
    let depth = [2, 100, 127, 128, 129, 10_000][dice.below(6)];
    let (open, close) = [(&b"["[..], &b"]"[..]), (b"{\"a\":", b"}")][dice.below(2)];
    let mut nested = open.repeat(depth);
    if dice.below(2) == 0 {
        nested.extend_from_slice(b"1");
        nested.extend(close.repeat(depth));
    }
    drop(input.splice(at..at, nested));
}

/// Gives a member of an object the value of a member of another input.
fn swap_member(input: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
    let Ok(serde_json::Value::Object(mut members)) = serde_json::from_slice(input) else { return };
    let Ok(serde_json::Value::Object(others)) = serde_json::from_slice(other) else { return };
    if members.is_empty() || others.is_empty() {
        return;
    }
    let name = members.keys().nth(dice.below(members.len())).cloned();
    let value = others.values().nth(dice.below(others.len())).cloned();
    if let (Some(name), Some(value)) = (name, value) {
        members.insert(name, value);
        *input = serde_json::Value::Object(members).to_string().into_bytes();
    }
}
