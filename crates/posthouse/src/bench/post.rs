//! `posthouse bench post`: messages of programs to agents, compared with messages from a platform.
//!
//! Both loads go to the same agents on the same server, in turn, so that noise affects both: the peak load
//! of the relay, and programs that call `notify` over HTTP, each message with a durable receipt. Nothing
//! may be lost, repeated or out of order, and every receipt must end as acknowledged.

mod programs;

pub use programs::passes;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use super::fixtures::{BenchFolder, Plan, ServerFixture};
use super::peak::{LoadResult, LoadedServer, WARM_UP};
use super::report::{PEAK_CPU, PEAK_RATE, Report, Spread, at_least, at_most};
use super::{machine, print_progress, process};

/// Names of figures, as those of the relay.
const POST_RATE: &str = "messages, notify to acknowledged";
const POST_CPU: &str = "server CPU";
/// How much more a notify may cost than a message from a platform.
const FACTOR: f64 = 1.5;

/// Options of `bench post`. Programs use one token throughout, so a run must not outlast it.
#[derive(Args, Clone, Debug)]
pub struct PostArgs {
    /// How long each load lasts
    #[arg(long, value_name = "SECONDS", default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=30))]
    seconds: u64,
    /// How often each of the two loads runs, in turn
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=10))]
    rounds: u64,
    /// Connections that post at the same time; each waits for its answer before it posts again
    #[arg(long, value_name = "COUNT", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    posters: u32,
    /// Connected agents
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    agents: u32,
    /// Folder on the disk to measure; a temporary folder is created in it and removed [default: the
    /// system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Measures and prints. An error means that there is no result, or that a message was lost or repeated.
pub async fn post(args: PostArgs) -> anyhow::Result<()> {
    super::unless_stopped(measure(&args)).await
}

async fn measure(args: &PostArgs) -> anyhow::Result<()> {
    process::raise_file_limit()?;
    let bench_folder = BenchFolder::new(args.dir.as_deref())?;
    let mut report = Report::new(machine::describe(bench_folder.path())?);
    print_progress(&format!(
        "{} times in turn: {} posters, then as many programs, to {} agents, {} s each",
        args.rounds, args.posters, args.agents, args.seconds
    ));
    let [relay, post] = loads(&bench_folder, args).await.context("post")?;
    report_load(&mut report, "relay", PEAK_RATE, PEAK_CPU, &relay);
    report_load(&mut report, "post", POST_RATE, POST_CPU, &post);
    for (part, answers) in [("relay", relay.answers), ("post", post.answers)] {
        let answers = Spread::of(answers);
        for (name, percent) in [("p50", 50.0), ("p95", 95.0), ("p99", 99.0)] {
            report.figure(part, format!("request to 200, {name}"), answers.percentile(percent), "ms");
        }
    }
    report.judged("post", "lost, repeated or out of order", 0.0, "", at_most(0.0));
    report.judged("post", "receipts not acknowledged", 0.0, "", at_most(0.0));
    compare(&mut report);
    if args.json {
        report.print_json()
    } else {
        report.print()
    }
    Ok(())
}

/// Both loads in turn, on one server.
async fn loads(bench_folder: &BenchFolder, args: &PostArgs) -> anyhow::Result<[LoadResult; 2]> {
    let plan = Plan { loaded: args.agents, chats: args.posters, shared: false, idle: 0 };
    let fixture = ServerFixture::prepare(bench_folder, plan).await?;
    let passes = programs::passes(&fixture).await?;
    let mut loaded = LoadedServer::start(&fixture, args.posters, 2 * args.seconds * args.rounds + 1).await?;
    let mut programs = programs::connect(loaded.process(), &fixture, &passes, args.posters).await?;
    let warm_up = loaded.load_by(&mut programs, WARM_UP).await?.messages;
    let span = Duration::from_secs(args.seconds);
    let (mut relay, mut post) = (Vec::new(), Vec::new());
    for round in 1..=args.rounds {
        // The posters of the last round were idle, perhaps for longer than the server keeps an idle
        // connection.
        loaded.redial().await?;
        relay.push(loaded.load(span).await?);
        programs.redial(loaded.process()).await?;
        post.push(loaded.load_by(&mut programs, span).await?);
        if let (Some(relay), Some(post)) = (relay.last(), post.last()) {
            print_progress(&format!(
                "  {round}: {:.0} and {:.0} messages/s, {:.1} and {:.1} us of server CPU each",
                relay.rate(),
                post.rate(),
                relay.cpu_micros(),
                post.cpu_micros()
            ));
        }
    }
    loaded.stop().await?;
    let [relay, post] = [relay, post].map(LoadResult::of);
    programs::every_receipt_is_acknowledged(&fixture, warm_up + post.messages).await?;
    Ok([relay, post])
}

fn report_load(report: &mut Report, part: &'static str, rate: &str, cpu: &str, load: &LoadResult) {
    report.figure(part, rate, load.rate(), "/s");
    report.figure(part, cpu, load.cpu_micros(), "us/msg");
}

/// Ratios of the post to the relay.
fn compare(report: &mut Report) {
    for (name, [post, relay], bar) in [
        ("post's rate, part of the relay's", [POST_RATE, PEAK_RATE], at_least(1.0 / FACTOR)),
        ("CPU of a notify, in messages of the relay", [POST_CPU, PEAK_CPU], at_most(FACTOR)),
    ] {
        if let (Some(post), Some(relay)) = (report.value("post", post), report.value("relay", relay)) {
            report.judged("ratio", name, post / relay, "x", bar);
        }
    }
}
