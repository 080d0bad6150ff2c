//! Fuzz targets: what peers send before anything of it is trusted. Inputs are mutated bytes of the vectors and of the
//! corpus in `fuzz/corpus`. Nothing may panic, and each target checks what else must hold.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `FUZZ_SECONDS` | time for each target; 1 s by default, 10 s in `./test` |
//! | `FUZZ_SEED` | repeats a run; a failure prints its seed |
//! | `FUZZ_KEEP=1` | writes short inputs with new results into the corpus |

mod buttons;
mod discord;
mod feishu;
mod issuer_tokens;
mod json_rpc;
mod matrix;
mod mutation;
mod skills;
mod slack;
mod targets;
mod telegram;
mod webhooks;
mod wecom;
mod whatsapp;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

use posthouse_time::Timepiece;
use serde_json::Value;

use crate::crash::Dice;
use mutation::mutate;

/// Most inputs that are mutated further.
const POOL: usize = 4_096;
/// Longest input. Mutations that add bytes stop there.
const LONGEST: usize = 16 * 1024;
/// Longest input that is written into the corpus.
const LONGEST_KEPT: usize = 1_024;

/// One function that reads bytes of a peer.
struct Target {
    /// The folder of its corpus.
    corpus: &'static str,
    /// Files of the vectors whose texts and objects it starts with.
    vectors: &'static [&'static str],
    read: Reader,
}

/// Reads an input and checks what must hold. The result names what was read, in few different words: an input with a
/// new result is worth mutating.
type Reader = Box<dyn Fn(&[u8]) -> String>;

#[test]
fn mutated_vectors_of_frames_are_read_or_refused() {
    run(&targets::frames());
}

#[test]
fn mutated_vectors_of_actions_are_read_or_refused() {
    run(&targets::actions());
}

#[test]
fn mutated_vectors_of_tokens_prove_nothing() {
    run(&targets::tokens());
}

#[test]
fn mutated_vectors_of_policies_are_read_or_refused() {
    run(&targets::policies());
}

#[test]
fn mutated_tokens_of_issuers_prove_nothing() {
    run(&issuer_tokens::issuer_tokens());
}

#[test]
fn mutated_requests_of_discord_prove_nothing() {
    run(&discord::signatures());
}

#[test]
fn mutated_payloads_of_discord_are_read_without_their_secrets_or_refused() {
    run(&discord::payloads());
}

#[test]
fn mutated_requests_of_feishu_prove_nothing() {
    run(&feishu::signatures());
}

#[test]
fn mutated_payloads_of_feishu_are_read_without_their_secrets_or_refused() {
    run(&feishu::payloads());
}

#[test]
fn mutated_frames_of_feishu_are_read_or_refused() {
    run(&feishu::frames());
}

#[test]
fn mutated_requests_of_matrix_prove_nothing() {
    run(&matrix::tokens());
}

#[test]
fn mutated_payloads_of_matrix_are_read_or_refused() {
    run(&matrix::payloads());
}

#[test]
fn mutated_requests_of_slack_prove_nothing() {
    run(&slack::signatures());
}

#[test]
fn mutated_payloads_of_slack_are_read_without_their_secrets_or_refused() {
    run(&slack::payloads());
}

#[test]
fn mutated_secrets_of_telegram_prove_nothing() {
    run(&telegram::secrets());
}

#[test]
fn mutated_updates_of_telegram_are_read_without_their_secrets_or_refused() {
    run(&telegram::updates());
}

#[test]
fn mutated_callbacks_of_wecom_prove_nothing() {
    run(&wecom::signatures());
}

#[test]
fn mutated_payloads_of_wecom_applications_are_read_without_their_secrets_or_refused() {
    run(&wecom::app_payloads());
}

#[test]
fn mutated_payloads_of_wecom_ai_bots_are_read_without_their_secrets_or_refused() {
    run(&wecom::bot_payloads());
}

#[test]
fn mutated_requests_of_whatsapp_prove_nothing() {
    run(&whatsapp::signatures());
}

#[test]
fn mutated_payloads_of_whatsapp_are_read_without_their_secrets_or_refused() {
    run(&whatsapp::payloads());
}

#[test]
fn mutated_requests_of_webhooks_prove_nothing() {
    run(&webhooks::webhook_signatures());
}

#[test]
fn mutated_tokens_and_stripe_signatures_of_webhooks_prove_nothing() {
    run(&webhooks::webhook_tokens());
}

#[test]
fn mutated_bodies_of_webhooks_are_read_without_masked_fields_or_refused() {
    run(&webhooks::webhook_bodies());
}

#[test]
fn mutated_forms_of_twilio_prove_nothing_and_are_read_or_refused() {
    run(&webhooks::twilio_forms());
}

#[test]
fn mutated_requests_with_a_shared_key_of_twilio_prove_nothing() {
    run(&webhooks::twilio_shared_key());
}

#[test]
fn mutated_payloads_of_buttons_are_read_or_are_no_press_of_a_prompt() {
    run(&buttons::buttons());
}

#[test]
fn mutated_vectors_of_json_rpc_are_read_or_refused() {
    run(&json_rpc::json_rpc());
}

#[test]
fn mutated_vectors_of_skills_are_parsed_and_checked() {
    run(&skills::skills());
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number")))
}

fn run(target: &Target) {
    let time = Duration::from_secs(number("FUZZ_SECONDS").unwrap_or(1));
    // Zero would be the end of this generator.
    let seed = number("FUZZ_SEED").unwrap_or_else(|| RandomState::new().hash_one(target.corpus)).max(1);
    let mut dice = Dice(seed);
    let mut seen = BTreeSet::new();
    // Most inputs of the vectors are refused for the same reason, so the first input with each result is chosen more
    // often.
    let (mut pool, mut firsts): (Vec<Vec<u8>>, Vec<usize>) = (Vec::new(), Vec::new());
    for (name, input) in inputs(target) {
        if seen.insert(read(target, &input, &name)) {
            firsts.push(pool.len());
        }
        pool.push(input);
    }
    assert!(pool.len() >= 5, "{}: the vectors and the corpus have {} inputs", target.corpus, pool.len());
    let (timepiece, mut count) = (Timepiece::wall(), 0_u64);
    let started = timepiece.instant();
    while timepiece.instant().since(started) < time {
        count += 1;
        let chosen = match dice.below(4) {
            0 => dice.below(pool.len()),
            _ => firsts[dice.below(firsts.len())],
        };
        let mut input = pool[chosen].clone();
        let other = dice.below(pool.len());
        for _ in 0..=dice.below(4) {
            mutate(&mut input, &pool[other], &mut dice);
        }
        input.truncate(LONGEST);
        let result = read(target, &input, &format!("FUZZ_SEED={seed}, input {count}"));
        if seen.insert(result) && pool.len() < POOL {
            keep(target, &input);
            firsts.push(pool.len());
            pool.push(input);
        }
    }
    println!("{}: {count} inputs from seed {seed}, {} different results", target.corpus, seen.len());
}

/// Reads one input. A failure shows where the input came from and the input itself.
fn read(target: &Target, input: &[u8], from: &str) -> String {
    catch_unwind(AssertUnwindSafe(|| (target.read)(input))).unwrap_or_else(|_| {
        panic!(
            "{} failed ({from}). Put the input into a file of fuzz/corpus/{}:\n{}",
            target.corpus,
            target.corpus,
            input.escape_ascii()
        )
    })
}

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The corpus, and every text and object of the vectors, each with its place.
fn inputs(target: &Target) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let folder = root().join("fuzz/corpus").join(target.corpus);
    for file in std::fs::read_dir(&folder).unwrap_or_else(|_| panic!("{} is missing", folder.display())) {
        let file = file.unwrap().path();
        found.insert(file.display().to_string(), std::fs::read(&file).unwrap());
    }
    let ours = root().join("vectors");
    let vectors = std::env::var_os("POSTHOUSE_VECTORS").map_or_else(|| ours.clone(), PathBuf::from);
    for name in target.vectors {
        // Some files are specific to this project; other folders may lack them.
        let read = std::fs::read(vectors.join(name)).or_else(|_| std::fs::read(ours.join(name)));
        let read = read.unwrap_or_else(|_| panic!("{name} is missing"));
        let vector: Value = serde_json::from_slice(&read).unwrap();
        collect(name, &vector, &mut found);
    }
    found
}

fn collect(place: &str, value: &Value, into: &mut BTreeMap<String, Vec<u8>>) {
    match value {
        Value::String(text) => {
            into.insert(place.to_owned(), text.clone().into_bytes());
        }
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                collect(&format!("{place}/{number}"), item, into);
            }
        }
        Value::Object(members) => {
            into.insert(place.to_owned(), value.to_string().into_bytes());
            for (name, member) in members {
                collect(&format!("{place}/{name}"), member, into);
            }
        }
        _ => {}
    }
}

fn keep(target: &Target, input: &[u8]) {
    if number("FUZZ_KEEP") != Some(1) || input.len() > LONGEST_KEPT {
        return;
    }
    let name = &identity::fingerprint(&input.escape_ascii().to_string())[..16];
    let file = root().join("fuzz/corpus").join(target.corpus).join(name);
    std::fs::write(file, input).unwrap();
}
