//! Delivery as a state machine (sections 16.1 to 16.5): random sequences of what agents, people, networks and time do,
//! over real sockets, compared with a model.

mod driver;
mod model;

use std::sync::atomic::{AtomicBool, Ordering};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestError, TestRunner};
use tokio::runtime::Builder;

use crate::test_server::{PATIENCE, TestServer, seconds};
use driver::Driver;

/// Cases of an ordinary run. `PROPTEST_CASES` overrides it. `./test states` runs 10,000, which take one to two minutes,
/// and is a part of every complete run.
const CASES: u32 = 500;
/// Threads that run cases, each with a server and a clock of its own. A case often waits for the ledger, so there are
/// more of them than cores.
const WORKERS: u32 = 6;
/// Most sequences are short, because a case costs as much time as it has steps. The others are at most this long.
const LONGEST: usize = 25;
const SHORT: usize = 8;

/// A sequence: the steps, and the client that connects at the end and takes what is left.
type Sequence = (Vec<Step>, ClientKind);

#[derive(Clone, Copy, Debug)]
struct Step {
    what: What,
    /// The next step follows without waiting until the server has handled this one.
    races: bool,
}

/// Something that happens. Sockets are counted from the newest open one, which is 0.
#[derive(Clone, Copy, Debug)]
enum What {
    /// Somebody writes in a chat.
    Inbound {
        chat: u8,
    },
    /// Dials and says hello: a first connection, a redial, or a second socket that supersedes the first.
    Connect {
        client: ClientKind,
    },
    /// Acknowledges one of the entries that the socket got, counted from the oldest unacknowledged one.
    Acknowledge {
        socket: usize,
        entry: usize,
    },
    Wind {
        seconds: u64,
    },
    /// The connection is lost, or closed with a goodbye. The socket that takes over, if any, may be busy.
    Drop {
        socket: usize,
        goodbye: bool,
        busy: bool,
    },
    GoIdle {
        socket: usize,
    },
    /// Dials and says nothing yet.
    Dial,
    /// The first hello of a socket that has only dialed, or one more hello.
    Hello {
        socket: usize,
        client: ClientKind,
    },
}

#[derive(Clone, Copy, Debug)]
enum ClientKind {
    /// Gets nothing while it settles, then one entry at a time.
    Stock,
    /// Gets this many entries at a time, at once.
    Sdk { window: u16 },
}

fn client() -> impl Strategy<Value = ClientKind> {
    prop_oneof![2 => Just(ClientKind::Stock), 3 => (1..=4_u16).prop_map(|window| ClientKind::Sdk { window })]
}

fn what() -> impl Strategy<Value = What> {
    // Mostly the newest socket, sometimes an older one.
    let socket = || prop_oneof![4 => Just(0_usize), 1 => 1..4_usize];
    let time = prop_oneof![5 => Just(4_u64), 2 => 1..6_u64, 1 => 6..50_u64];
    prop_oneof![
        7 => (0..3_u8).prop_map(|chat| What::Inbound { chat }),
        4 => client().prop_map(|client| What::Connect { client }),
        6 => (socket(), prop_oneof![3 => Just(0_usize), 1 => 1..5_usize])
            .prop_map(|(socket, entry)| What::Acknowledge { socket, entry }),
        4 => time.prop_map(|seconds| What::Wind { seconds }),
        3 => (socket(), any::<bool>(), any::<bool>())
            .prop_map(|(socket, goodbye, busy)| What::Drop { socket, goodbye, busy }),
        1 => socket().prop_map(|socket| What::GoIdle { socket }),
        1 => Just(What::Dial),
        1 => (socket(), client()).prop_map(|(socket, client)| What::Hello { socket, client }),
    ]
}

fn sequence() -> impl Strategy<Value = Sequence> {
    let step = (what(), any::<bool>()).prop_map(|(what, races)| Step { what, races }).boxed();
    let steps = prop_oneof![4 => vec(step.clone(), 1..=SHORT), 1 => vec(step, SHORT..=LONGEST)];
    (steps, client())
}

#[test]
fn any_sequence_of_connections_losses_and_acknowledgements_keeps_order_loses_nothing_and_repeats_only_the_unacknowledged_tail()
 {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES);
    let stops = AtomicBool::new(false);
    let failures: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..WORKERS).map(|_| scope.spawn(|| run_cases(cases.div_ceil(WORKERS), &stops))).collect();
        workers.into_iter().filter_map(|worker| worker.join().unwrap().err()).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    println!("{cases} cases");
}

/// Runs cases one after the other on one server. Every case has an agent of its own, so a case leaves nothing behind
/// that the next one, or a shrunk one, could notice.
fn run_cases(cases: u32, stops: &AtomicBool) -> Result<(), String> {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let server = runtime.block_on(TestServer::open());
    let failed = AtomicBool::new(false);
    let mut runner = TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        max_shrink_time: 120_000,
        ..ProptestConfig::default()
    });
    let outcome = runner.run(&sequence(), |(steps, last)| {
        let has_failed = failed.load(Ordering::Relaxed);
        if stops.load(Ordering::Relaxed) && !has_failed {
            return Ok(());
        }
        // After the first failure, waiting only makes the search for a shorter sequence take longer.
        let patience = if has_failed { seconds(3) } else { PATIENCE };
        runtime.block_on(run_case(&server, patience, &steps, last)).map_err(|reason| {
            failed.store(true, Ordering::Relaxed);
            stops.store(true, Ordering::Relaxed);
            TestCaseError::fail(reason)
        })
    });
    outcome.map_err(|error| match error {
        TestError::Fail(reason, (steps, last)) => {
            let steps: Vec<String> = steps.iter().map(|step| format!("  {step:?}")).collect();
            format!("{reason}, after\n{}\n  and at the end {last:?}", steps.join("\n"))
        }
        TestError::Abort(reason) => format!("aborted: {reason}"),
    })
}

async fn run_case(
    server: &TestServer,
    patience: std::time::Duration,
    steps: &[Step],
    last: ClientKind,
) -> Result<(), String> {
    let mut driver = Driver::start(server, patience).await;
    for (number, step) in steps.iter().enumerate() {
        let done = async {
            driver.take(step.what).await?;
            if step.races { Ok(()) } else { driver.rest().await }
        };
        done.await.map_err(|reason: String| format!("step {}: {reason}", number + 1))?;
    }
    driver.finish(last).await.map_err(|reason| format!("at the end: {reason}"))
}
