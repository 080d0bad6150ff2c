//! Crash test of the post: SIGKILL while programs notify, wake and ask. No receipt is lost, no SDK agent
//! handles a dispatch twice, and every question is answered by the agent that was asked.

mod agents;
mod hook;
mod program;
mod sum;

use std::sync::Arc;
use std::time::Duration;

use posthouse_agent::post::{ApiCredential, Client};
use posthouse_wire::Secret;
use serde_json::json;
use tokio::sync::watch;

use super::{Dice, PATIENCE, kills};
use crate::house::House;
use crate::talk::provide_crypto;
use agents::Crew;
use hook::Hook;
use program::{Door, Program};
use sum::Sum;

/// Agents that connect. The webhook also knows the first one, so its messages are sent both ways.
const AGENTS: usize = 4;
const PROGRAMS: usize = 12;
/// The agent that only the webhook knows.
const HOOKED: &str = "desk";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_receipt_given_is_lost_and_no_dispatch_is_handled_twice_whenever_the_house_is_killed() {
    provide_crypto();
    let mut house = House::open(&[]);
    house.does(&["tenant", "create", "acme"]);
    let names: Vec<String> = (0..AGENTS).map(|number| format!("agent{number}")).collect();
    let (lives, lived) = watch::channel(0);
    let mut crew = Crew::default();
    for name in &names {
        let agent = house.does(&["agent", "create", name, "--tenant", "acme"]);
        crew.dial(&house.url, name, &agent, lived.clone());
    }
    let hook = Hook::open().await;
    let wired = json!({ "agents": { HOOKED: { "url": hook.url }, &names[0]: { "url": hook.url } } });
    let settings = house.secret_file("hooks.json", &wired.to_string());
    house.does(&[
        "connector",
        "create",
        "hooks",
        "--tenant",
        "acme",
        "--kind",
        "webhook",
        "--settings",
        &settings,
    ]);
    let credential = house.does(&["client", "create", "--tenant", "acme"]);
    let text = |name: &str| credential[name].as_str().unwrap().to_owned();
    let credential =
        ApiCredential::Client { id: text("client_id"), secret: Secret::new(text("client_secret")) };
    let door = Door {
        house: house.url.clone(),
        id: text("client_id"),
        secret: text("client_secret"),
        http: reqwest::Client::new(),
    };
    // Programs retry themselves here: at once, and countably.
    let client = Client::new(&house.url, credential).patience(Duration::ZERO);

    let (enough, is_enough) = watch::channel(false);
    let programs: Vec<_> = (0..PROGRAMS)
        .map(|number| {
            let dice = Dice(0x2545_f491_4f6c_dd1d ^ (number as u64 + 1));
            let program = Program::new(number, client.clone(), door.clone(), names.clone(), dice);
            tokio::spawn(program.writes(is_enough.clone()))
        })
        .collect();

    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for kill in 1..=kills() {
        // Some more messages are delivered, then the server is killed during the next ones.
        crew.handles_more(1 + dice.below(80)).await;
        tokio::time::sleep(Duration::from_micros(dice.below(4000) as u64)).await;
        tokio::task::block_in_place(|| house.kill());
        lives.send_replace(kill);
        tokio::task::block_in_place(|| house.start());
        if kill % 20 == 0 {
            println!("{kill} kills, {} dispatches handled", crew.handled());
        }
    }
    // Answers that were waiting for another kill are now sent.
    lives.send_replace(usize::MAX);
    enough.send_replace(true);
    let mut written = Vec::new();
    for program in programs {
        written.extend(program.await.unwrap());
    }
    let receipts = sum::settled(&client, &written).await;
    let answers = sum::attached(&client, &written).await;
    let seen = Arc::clone(&crew.seen);
    crew.leave().await;
    let sum = Sum::of(&written, &receipts, &answers, &seen.lock().unwrap(), &hook.calls());
    sum.is_right(kills());
    house.kill();
}
