//! `posthouse bench edge`: how fast the deliveries of platforms are verified, normalized and stripped, and long answers
//! split.
//!
//! One thread works through each case, so that rates are per core. The same thread also checks the bare proof of the
//! delivery, and parses and writes its payload as plain JSON. Both are the floor that the case is compared with. They
//! are measured in turns, so that a busy machine slows all of them down alike.

mod cases;
mod discord;
mod feishu;
mod matrix;
mod signed;
mod telegram;
mod wecom;

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use edge::platform::{VerifiedRequest, verify_request};
use edge::split::{Unit, split};
use futures_util::FutureExt;
use serde_json::Value;

use cases::{Delivered, EdgeCase};

use super::report::{Report, at_most};
use super::stopwatch::Stopwatch;
use super::{machine, print_progress};

/// Deliveries of one round. Their copies are made before the round.
const ROUND: usize = 100;
/// Most time that a case may take, in times of its floor.
const MOST_FLOORS: f64 = 3.0;
/// Size of the answer that is split, in bytes, and the most milliseconds that it may take.
const LONG_ANSWER: usize = 100_000;
const MOST_SPLIT_MS: f64 = 2.0;

/// Options of `bench edge`.
#[derive(Args, Clone, Debug)]
pub struct EdgeArgs {
    /// How long each case lasts
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Measure only the cases of this platform; can be repeated
    #[arg(long, value_name = "PLATFORM")]
    only: Vec<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Measures and prints. An error means that a delivery was refused, or has not become an event.
pub fn edge(args: &EdgeArgs) -> anyhow::Result<()> {
    let mut report = Report::new(machine::describe(&std::env::temp_dir())?);
    for case in cases::all() {
        let platform = case.platform.name();
        if !args.only.is_empty() && !args.only.iter().any(|only| only == platform) {
            continue;
        }
        print_progress(&format!("{}: {} s", case.name, args.seconds));
        measure(&case, Duration::from_secs(args.seconds), &mut report).context(case.name)?;
    }
    print_progress("split: a long answer");
    measure_split(&mut report);
    if args.json {
        report.print_json()
    } else {
        report.print()
    }
    Ok(())
}

fn measure(case: &EdgeCase, lasts: Duration, report: &mut Report) -> anyhow::Result<()> {
    read(case, case.delivered.clone())?;
    let (mut edge, mut proof, mut json) =
        (RoundTimes::default(), RoundTimes::default(), RoundTimes::default());
    let whole = Stopwatch::start();
    while whole.elapsed() < lasts {
        let deliveries = vec![case.delivered.clone(); ROUND];
        edge.round(|| deliveries.into_iter().try_for_each(|delivered| read(case, delivered)))?;
        proof.round(|| (0..ROUND).try_for_each(|_| (case.bare_proof)().then_some(()).ok_or_else(refused)))?;
        json.round(|| (0..ROUND).try_for_each(|_| rewrite(case)))?;
    }
    let (edge, proof, json) = (edge.median_us(), proof.median_us(), json.median_us());
    let part = case.platform.name();
    report.figure(part, format!("{}, verified and normalized", case.name), 1e6 / edge, "/s core");
    report.figure(part, format!("{}, bare proof", case.name), proof, "us");
    report.figure(part, format!("{}, JSON parsed and written", case.name), json, "us");
    let floors = edge / (proof + json);
    report.judged(part, format!("{}, in floors", case.name), floors, "x", at_most(MOST_FLOORS));
    Ok(())
}

fn refused() -> anyhow::Error {
    anyhow!("the delivery was refused")
}

/// Verifies and normalizes a delivery, which must become an event.
fn read(case: &EdgeCase, delivered: Delivered) -> anyhow::Result<()> {
    let (platform, bot) = (&*case.platform, &case.bot);
    let verified = match delivered {
        Delivered::Webhook(raw) => {
            let verified = verify_request(platform, bot, raw).now_or_never();
            verified.context("the verification waits for something")?
        }
        Delivered::Fetched(body, received) => Ok(VerifiedRequest::fetched(body, received)),
    };
    let reading = verified.and_then(|verified| platform.normalize(bot, verified));
    let reading = reading.map_err(|refusal| anyhow!("the delivery was refused: {}", refusal.reason))?;
    anyhow::ensure!(!reading.arrivals.is_empty(), "the delivery has not become an event");
    black_box(reading);
    Ok(())
}

fn rewrite(case: &EdgeCase) -> anyhow::Result<()> {
    let parsed: Value = serde_json::from_slice(black_box(&case.json))?;
    black_box(serde_json::to_vec(&parsed)?);
    Ok(())
}

/// The times of rounds.
#[derive(Default)]
struct RoundTimes(Vec<u64>);

impl RoundTimes {
    fn round(&mut self, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
        let watch = Stopwatch::start();
        work()?;
        self.0.push(watch.nanos());
        Ok(())
    }

    /// Microseconds of one delivery in the round of middle length.
    fn median_us(mut self) -> f64 {
        self.0.sort_unstable();
        self.0[self.0.len() / 2] as f64 / ROUND as f64 / 1e3
    }
}

/// An answer with prose, lists and code, as models write it.
fn long_answer() -> String {
    let part = "Here is what I found — a few lines of prose, with **emphasis** and a [link](https://example.org).\n\n\
                - one\n- two\n- three 👩‍👩‍👧‍👦\n\n```rust\nfn main() {\n    println!(\"hello\");\n}\n```\n\n";
    part.repeat(LONG_ANSWER / part.len() + 1)
}

fn measure_split(report: &mut Report) {
    let answer = long_answer();
    for (name, limit, unit) in
        [("2,000 characters", 2_000, Unit::Chars), ("4,096 UTF-16 units", 4_096, Unit::Utf16)]
    {
        let mut took: Vec<u64> = (0..21)
            .map(|_| {
                let watch = Stopwatch::start();
                black_box(split(black_box(&answer), limit, unit));
                watch.nanos()
            })
            .collect();
        took.sort_unstable();
        let name = format!("answer of 100 kB in parts of {name}");
        report.judged("split", name, took[took.len() / 2] as f64 / 1e6, "ms", at_most(MOST_SPLIT_MS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_verified_and_becomes_an_event() {
        for case in cases::all() {
            read(&case, case.delivered.clone()).unwrap_or_else(|error| panic!("{}: {error:#}", case.name));
            assert!((case.bare_proof)() && rewrite(&case).is_ok(), "{}", case.name);
        }
        assert!(long_answer().len() >= LONG_ANSWER);
    }
}
