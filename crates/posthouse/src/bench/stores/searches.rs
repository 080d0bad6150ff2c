//! Search part of `bench stores`: searches of data by two words.

use std::collections::{HashMap, HashSet};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::super::report::{Report, Spread, at_most};
use super::super::server::ServerProcess;
use super::StoresArgs;
use super::corpus::Corpus;
use super::fixtures::DataFixture;
use super::store_caller::StoreCaller;

pub const COMMON_P99: &str = "two of the 50 commonest words, p99";
/// The rarer of two words is in at most this many texts of the tenant.
const RARE: usize = 1_000;
const SEED: u64 = 1212;

pub async fn measure(
    server: &ServerProcess,
    fixture: &DataFixture,
    args: &StoresArgs,
    report: &mut Report,
) -> anyhow::Result<()> {
    let [large, small, ..] = fixture.tenants.as_slice() else { anyhow::bail!("there are no two tenants") };
    let mut corpus = Corpus::new(SEED);
    let pairs = rare_pairs(fixture, args, &mut corpus)?;
    let mut caller = StoreCaller::connect(server, &large.token).await?;
    // The first search opens the index and brings it up to date.
    search(&mut caller, &pairs[0], true).await?;
    let cpu = server.cpu()?;
    let took = searches(&mut caller, &pairs, true).await?;
    let cpu = server.cpu()?.saturating_sub(cpu);
    report.judged("search", "rare word and another, p50", took.percentile(50.0), "ms", at_most(2.0));
    report.judged("search", "rare word and another, p99", took.percentile(99.0), "ms", at_most(15.0));
    report.figure("search", "rare word and another, slowest", took.percentile(100.0), "ms");
    let each = cpu.as_secs_f64() * 1e6 / pairs.len() as f64;
    report.figure("search", "rare word and another, server CPU", each, "us");

    let pairs: Vec<String> = (0..args.searches).map(|_| corpus.two_common_words()).collect();
    let mut caller = StoreCaller::connect(server, &small.token).await?;
    search(&mut caller, &pairs[0], false).await?;
    let took = searches(&mut caller, &pairs, false).await?;
    report.figure("search", "two of the 50 commonest words, p50", took.percentile(50.0), "ms");
    report.judged("search", COMMON_P99, took.percentile(99.0), "ms", at_most(10.0));
    Ok(())
}

async fn searches(caller: &mut StoreCaller, pairs: &[String], all_found: bool) -> anyhow::Result<Spread> {
    let mut took = Vec::with_capacity(pairs.len());
    for pair in pairs {
        took.push(search(caller, pair, all_found).await?);
    }
    Ok(Spread::of(took))
}

async fn search(caller: &mut StoreCaller, words: &str, must_find: bool) -> anyhow::Result<u64> {
    let query = json!({ "query": words, "limit": 10, "mode": "fts" });
    let answer = caller.call("POST", "/v1/data/query", &query).await?;
    let found = answer.json()?;
    let items = found["items"].as_array().context("a search has no items")?;
    ensure!(!must_find || !items.is_empty(), "no text has the words {words}, but one was written");
    ensure!(items.iter().all(|item| has_words(item, words)), "a text without the words {words} was found");
    Ok(answer.took)
}

/// Whether an item has all words, in its text or in its summary. A summary that is cut can end with a part of a word,
/// which is searched like a word.
fn has_words(item: &Value, words: &str) -> bool {
    let text = |field: &str| item[field].as_str().unwrap_or_default().trim_end_matches("...").to_owned();
    let (detail, summary) = (text("detail"), text("summary"));
    let found: HashSet<&str> = detail.split(' ').chain(summary.split(' ')).collect();
    words.split(' ').all(|word| found.contains(word))
}

/// Pairs of words of one text, of which the rarer is in at most 1,000 texts of the tenant, judged by the sample.
fn rare_pairs(fixture: &DataFixture, args: &StoresArgs, corpus: &mut Corpus) -> anyhow::Result<Vec<String>> {
    let mut texts_with: HashMap<&str, usize> = HashMap::new();
    for text in &fixture.sample {
        for word in text.split(' ').collect::<HashSet<_>>() {
            *texts_with.entry(word).or_default() += 1;
        }
    }
    let texts = args.rows as usize / 2;
    let is_rare = |word: &&str| texts_with[*word] * texts <= RARE * fixture.sample.len();
    let mut pairs = Vec::new();
    while pairs.len() < args.searches as usize {
        let text = &fixture.sample[corpus.below(fixture.sample.len() as u64) as usize];
        let words: Vec<&str> = text.split(' ').collect();
        let rare: Vec<&str> = words.iter().copied().filter(is_rare).collect();
        if rare.is_empty() {
            continue;
        }
        let rare = rare[corpus.below(rare.len() as u64) as usize];
        let other = words[corpus.below(words.len() as u64) as usize];
        if other != rare {
            pairs.push(format!("{other} {rare}"));
        }
    }
    ensure!(!pairs.is_empty(), "there is nothing to search for");
    Ok(pairs)
}
