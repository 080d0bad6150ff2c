//! Test server for programs on loopback: stores what it gets, and stops and restarts as a test says.

mod doors;

use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use posthouse_agent::post::{Client, Credential};
use posthouse_agent::wire::Secret;
use posthouse_time::{Moment, Timepiece};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::house::{seconds, soon};

pub const CLIENT_SECRET: &str = "a secret of the program";

pub struct FakeHouse {
    pub url: String,
    pub clock: Timepiece,
    pub heard: watch::Sender<Heard>,
    life: Arc<Mutex<Life>>,
}

/// Everything that it keeps across a restart, and its instructions.
#[derive(Clone, Default)]
pub struct Heard {
    /// Method and path of every accepted call, with its body if it has one.
    pub calls: Vec<(String, Value)>,
    /// Connections while the server was down.
    pub missed: usize,
    pub tokens: u32,
    /// Tokens up to this one are no longer accepted.
    pub spent: u32,
    /// By dispatch id: each message once.
    pub told: BTreeMap<String, Value>,
    pub questions: BTreeMap<String, Question>,
    /// Answers "not yet" at once.
    pub impatient: bool,
    /// Stops after the next commit, before the answer.
    pub dies_with_the_answer: bool,
    /// Answers everything with this.
    pub answers: Option<(u16, &'static str)>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    Open,
    Answered(String),
    TimedOut,
}

struct Life {
    up: bool,
    /// Ends the connections of the present run.
    end: CancellationToken,
}

impl FakeHouse {
    pub async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let life = Arc::new(Mutex::new(Life { up: true, end: CancellationToken::new() }));
        let heard = watch::Sender::new(Heard::default());
        tokio::spawn(serve(listener, heard.clone(), Arc::clone(&life)));
        let clock = Timepiece::wound(Moment::from_seconds(1_765_000_000));
        Self { url, clock, heard, life }
    }

    /// A program with a very long patience.
    pub fn client(&self) -> Client {
        let secret = Secret::new(CLIENT_SECRET);
        let credential = Credential::Client { id: "tenant:acme".into(), secret };
        Client::with_timepiece(&self.url, credential, self.clock.clone()).patience(seconds(1 << 30))
    }

    pub fn dies(&self) {
        die(&self.life);
    }

    pub fn returns(&self) {
        *self.life.lock() = Life { up: true, end: CancellationToken::new() };
    }

    pub fn told(&self, change: impl FnOnce(&mut Heard)) {
        self.heard.send_modify(change);
    }

    pub fn answers(&self, question: &str, content: &str) {
        self.told(|heard| {
            heard.questions.insert(question.to_owned(), Question::Answered(content.to_owned()));
        });
    }

    /// Number of calls that begin like this.
    pub fn count(&self, call: &str) -> usize {
        self.heard.borrow().calls.iter().filter(|(made, _)| made.starts_with(call)).count()
    }

    /// The body of the last call that begins like this.
    pub fn body(&self, call: &str) -> Value {
        let heard = self.heard.borrow();
        heard.calls.iter().rev().find(|(made, _)| made.starts_with(call)).unwrap().1.clone()
    }

    /// Waits until the server has received that call, while the clock stands still.
    pub async fn hears(&self, enough: impl Fn(&Heard) -> bool) {
        let mut heard = self.heard.subscribe();
        drop(soon(heard.wait_for(enough)).await.unwrap());
    }

    /// Advances the clock until the server has received the call.
    pub async fn until(&self, enough: impl Fn(&Heard) -> bool) {
        let mut heard = self.heard.subscribe();
        let happened = async { drop(heard.wait_for(enough).await.unwrap()) };
        self.while_time_passes(happened).await;
    }

    /// Runs a future while the clock advances.
    pub async fn while_time_passes<T>(&self, work: impl Future<Output = T>) -> T {
        let passing = async {
            loop {
                self.clock.wind(std::time::Duration::from_millis(50));
                tokio::task::yield_now().await;
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

fn die(life: &Mutex<Life>) {
    let mut life = life.lock();
    life.up = false;
    life.end.cancel();
}

async fn serve(listener: TcpListener, heard: watch::Sender<Heard>, life: Arc<Mutex<Life>>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (up, end) = {
            let life = life.lock();
            (life.up, life.end.clone())
        };
        if !up {
            heard.send_modify(|heard| heard.missed += 1);
            continue;
        }
        let doors = doors::open(heard.clone(), Arc::clone(&life));
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
