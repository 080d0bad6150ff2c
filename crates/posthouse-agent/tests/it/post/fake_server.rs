//! Test server for programs on loopback: stores what it gets, and stops and restarts as a test says.

mod routes;

use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use posthouse_agent::post::{ApiCredential, Client};
use posthouse_agent::wire::Secret;
use posthouse_time::{Moment, Timepiece};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::test_server::{seconds, soon};

pub const CLIENT_SECRET: &str = "a secret of the program";

pub struct FakeServer {
    pub url: String,
    pub clock: Timepiece,
    pub recorded: watch::Sender<RecordedCalls>,
    task: Arc<Mutex<ServerTask>>,
    /// Ends the listener.
    listening: CancellationToken,
}

/// Everything that it keeps across a restart, and its instructions.
#[derive(Clone, Default)]
pub struct RecordedCalls {
    /// Method and path of every accepted call, with its body if it has one.
    pub calls: Vec<(String, Value)>,
    /// Connections while the server was down.
    pub missed: usize,
    pub tokens: u32,
    /// Tokens up to this one are no longer accepted.
    pub spent: u32,
    /// By dispatch id: each message once.
    pub messages: BTreeMap<String, Value>,
    pub questions: BTreeMap<String, Question>,
    /// Answers "not yet" at once.
    pub impatient: bool,
    /// Stops after the next commit, before the answer.
    pub dies_with_the_answer: bool,
    /// Ends each connection after one answer.
    pub hangs_up: bool,
    /// Answers everything with this.
    pub answers: Option<(u16, &'static str)>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    Open,
    Answered(String),
    TimedOut,
}

struct ServerTask {
    up: bool,
    /// Ends the connections of the present run.
    end: CancellationToken,
}

impl FakeServer {
    pub async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = Arc::new(Mutex::new(ServerTask { up: true, end: CancellationToken::new() }));
        let recorded = watch::Sender::new(RecordedCalls::default());
        let listening = CancellationToken::new();
        let serving = serve(listener, recorded.clone(), Arc::clone(&task));
        tokio::spawn(listening.clone().run_until_cancelled_owned(serving));
        let clock = Timepiece::wound(Moment::from_seconds(1_765_000_000));
        Self { url, clock, recorded, task, listening }
    }

    /// A program with a very long patience.
    pub fn client(&self) -> Client {
        let secret = Secret::new(CLIENT_SECRET);
        let credential = ApiCredential::Client { id: "tenant:acme".into(), secret };
        Client::with_timepiece(&self.url, credential, self.clock.clone()).patience(seconds(1 << 30))
    }

    pub fn dies(&self) {
        die(&self.task);
    }

    /// Its address refuses connections from now on.
    pub fn closes(&self) {
        self.listening.cancel();
    }

    pub fn returns(&self) {
        *self.task.lock() = ServerTask { up: true, end: CancellationToken::new() };
    }

    pub fn set(&self, change: impl FnOnce(&mut RecordedCalls)) {
        self.recorded.send_modify(change);
    }

    pub fn answers(&self, question: &str, content: &str) {
        self.set(|recorded| {
            recorded.questions.insert(question.to_owned(), Question::Answered(content.to_owned()));
        });
    }

    /// Number of calls that begin like this.
    pub fn count(&self, call: &str) -> usize {
        self.recorded.borrow().calls.iter().filter(|(made, _)| made.starts_with(call)).count()
    }

    /// The body of the last call that begins like this.
    pub fn body(&self, call: &str) -> Value {
        let recorded = self.recorded.borrow();
        recorded.calls.iter().rev().find(|(made, _)| made.starts_with(call)).unwrap().1.clone()
    }

    /// Waits until the server has received that call, while the clock stands still.
    pub async fn hears(&self, enough: impl Fn(&RecordedCalls) -> bool) {
        let mut recorded = self.recorded.subscribe();
        drop(soon(recorded.wait_for(enough)).await.unwrap());
    }

    /// Advances the clock until the server has received the call.
    pub async fn until(&self, enough: impl Fn(&RecordedCalls) -> bool) {
        let mut recorded = self.recorded.subscribe();
        let happened = async { drop(recorded.wait_for(enough).await.unwrap()) };
        self.while_time_passes(happened).await;
    }

    /// Runs a future while the clock advances.
    pub async fn while_time_passes<T>(&self, work: impl Future<Output = T>) -> T {
        let passing = async {
            loop {
                self.clock.wind(std::time::Duration::from_millis(50));
                // Time must not run ahead of a call under way.
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        };
        soon(async {
            tokio::select! {
                biased;
                done = work => done,
                () = passing => unreachable!("time has no end"),
            }
        })
        .await
    }
}

fn die(task: &Mutex<ServerTask>) {
    let mut task = task.lock();
    task.up = false;
    task.end.cancel();
}

async fn serve(listener: TcpListener, recorded: watch::Sender<RecordedCalls>, task: Arc<Mutex<ServerTask>>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (up, end) = {
            let task = task.lock();
            (task.up, task.end.clone())
        };
        if !up {
            recorded.send_modify(|recorded| recorded.missed += 1);
            continue;
        }
        let doors = routes::open(recorded.clone(), Arc::clone(&task));
        tokio::spawn(async move {
            let talk =
                http1::Builder::new().serve_connection(TokioIo::new(stream), TowerToHyperService::new(doors));
            tokio::select! {
                _ = talk => {}
                () = end.cancelled() => {}
            }
        });
    }
}
