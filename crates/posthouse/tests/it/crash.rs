//! Crash tests: the real binary is killed with SIGKILL under load, again and again, and every message is
//! counted.

mod clock;
mod post;
mod runs;
mod sdk;
pub mod stepping;
mod stores;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthouse_agent::{Agent, Conversation, Message, Settings, WebSocketTransport};
use posthouse_time::Timepiece;
use posthouse_wire::Secret;
use stand_ins::telegram::{Filter, Injection, RowKind, StandInBot, TelegramStandIn};

use crate::talk::{make_bot, provide_crypto};
use crate::test_server::TestServer;
use stepping::SteppingClock;

const CHATS: i64 = 8;
/// Messages under way at a time: enough that every kill hits something.
const UNDER_WAY: usize = 64;
const PATIENCE: Duration = Duration::from_secs(60);

/// What the agent saw and did.
#[derive(Default)]
struct Seen {
    /// How often the handler was given each text.
    handled: HashMap<String, u32>,
    /// The order in which each chat's texts were handled.
    order: HashMap<String, Vec<u64>>,
    done: Vec<String>,
    /// Actions whose end the agent was not told as done.
    cut_off: Vec<String>,
}

fn kills() -> usize {
    std::env::var("CRASH_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(20)
}

/// What came of one run.
struct Tally {
    said: u64,
    /// Acknowledged towards the platform.
    confirmed: u64,
    lost: u64,
    handled_twice: usize,
    /// Reported as done, and not at the platform exactly once.
    untrue: usize,
    cut_off_twice: usize,
    in_order: bool,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_and_nothing_is_done_twice_whenever_the_server_is_killed() {
    let tally = kill_under_load(None).await;
    assert_eq!(tally.confirmed, tally.said);
    assert_eq!((tally.lost, tally.handled_twice, tally.untrue, tally.cut_off_twice), (0, 0, 0, 0));
    assert!(tally.in_order);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_done_twice_while_the_clock_steps_back_and_forth_by_days() {
    let folder = tempfile::tempdir().unwrap();
    let tally = kill_under_load(Some(SteppingClock::build(folder.path()))).await;
    assert_eq!(tally.confirmed, tally.said);
    assert_eq!((tally.lost, tally.handled_twice, tally.untrue, tally.cut_off_twice), (0, 0, 0, 0));
    assert!(tally.in_order);
}

async fn kill_under_load(clock: Option<SteppingClock>) -> Tally {
    provide_crypto();
    let bots: [StandInBot; 2] = ["7001:crash-test-token@crash_bot", "7002:sleeper-test-token@sleeper_bot"]
        .map(|bot| bot.parse().unwrap());
    let telegram = Arc::new(
        TelegramStandIn::start(stand_ins::telegram::Settings {
            bots: bots.to_vec(),
            retry_first: Duration::from_millis(20),
            retry_most: Duration::from_millis(200),
            ..Default::default()
        })
        .await
        .unwrap(),
    );
    let mut env = vec![("POSTHOUSE_PLATFORMS__TELEGRAM__API_BASE_URL", telegram.base_url())];
    env.extend(clock.iter().flat_map(SteppingClock::environment));
    let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut server = TestServer::open(&env);
    server.does(&["tenant", "create", "acme"]);
    make_bot(&server, "7001", "7001:crash-test-token", &["--mode", "webhook"]);
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme", "--bot", "telegram:7001"]);
    // One message waits through all of it for an agent that dials in at the end.
    make_bot(&server, "7002", "7002:sleeper-test-token", &["--mode", "webhook"]);
    let sleeper = server.does(&["agent", "create", "sleeper", "--tenant", "acme", "--bot", "telegram:7002"]);
    telegram.inject(Injection::text(99, "good morning").to_bot(7002)).unwrap();
    let taken = |telegram: &TelegramStandIn| telegram.deliveries(Some(7002)).confirmed.len() == 1;
    assert!(telegram.until(PATIENCE, taken).await, "the first message is taken");

    let seen = Arc::new(Mutex::new(Seen::default()));
    let (leave, left) = tokio::sync::oneshot::channel::<()>();
    let agent = tokio::spawn(run_agent(server.url.clone(), heron, Arc::clone(&seen), left));
    let (enough, mut stop_talking) = tokio::sync::watch::channel(false);
    let talking = tokio::spawn({
        let (telegram, seen) = (Arc::clone(&telegram), Arc::clone(&seen));
        async move {
            let mut number = 0_u64;
            while !*stop_talking.borrow_and_update() {
                let handled = seen.lock().unwrap().handled.len() as u64;
                if number - handled < UNDER_WAY as u64 {
                    let chat = 1 + (number as i64) % CHATS;
                    telegram.inject(Injection::text(chat, &format!("m{number}")).to_bot(7001)).unwrap();
                    number += 1;
                } else {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
            number
        }
    });

    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let kills = kills();
    for kill in 0..kills {
        // Some more get through, then it dies in the middle of the next ones.
        let wanted = seen.lock().unwrap().handled.len() + 1 + dice.below(40);
        wait(&seen, |seen| seen.handled.len() >= wanted).await;
        if let Some(clock) = &clock {
            // A step while everybody is connected: everything goes on.
            clock.set_wrong(&mut dice);
            wait(&seen, |seen| seen.handled.len() >= wanted + 5).await;
        }
        tokio::time::sleep(Duration::from_micros(dice.below(3000) as u64)).await;
        server.kill();
        if let Some(clock) = &clock {
            // The machine boots with a clock that is far behind, takes messages, and falls once more; it comes
            // back with the right time.
            clock.set_behind(&mut dice);
            server.start();
            let made = server.does(&["tenant", "create", &format!("behind-{kill}")]);
            let week_ago = Timepiece::wall().now() - Duration::from_secs(7 * 24 * 3600);
            let created = made["created_at"].as_str().expect("a tenant says when it was made");
            assert!(*created < *week_ago.to_string(), "the server's clock is behind: {created}");
            let confirmed = telegram.deliveries(Some(7001)).confirmed.len();
            let more =
                |telegram: &TelegramStandIn| telegram.deliveries(Some(7001)).confirmed.len() >= confirmed + 5;
            assert!(telegram.until(PATIENCE, more).await, "nothing is taken while the clock is behind");
            server.kill();
            clock.set(0);
        }
        server.start();
        if (kill + 1) % 20 == 0 {
            println!("{} kills, {} messages handled", kill + 1, seen.lock().unwrap().handled.len());
        }
    }
    enough.send(true).unwrap();
    let said = talking.await.unwrap();

    assert!(telegram.until(PATIENCE, |telegram| telegram.deliveries(Some(7001)).pending == 0).await);
    wait(&seen, |seen| {
        let handled: u32 = seen.handled.values().sum();
        seen.handled.len() as u64 == said && seen.done.len() + seen.cut_off.len() == handled as usize
    })
    .await;
    leave.send(()).unwrap();
    agent.await.unwrap();
    assert_eq!(first_message(server.url.clone(), &sleeper).await, "good morning");

    let confirmed = telegram.deliveries(Some(7001)).confirmed.len() as u64;
    let seen = seen.lock().unwrap();
    let mut posted: HashMap<String, u32> = HashMap::new();
    let sent = Filter { kinds: vec![RowKind::Sent], ..Filter::default() };
    for row in telegram.transcript(&sent) {
        *posted.entry(row.text.unwrap_or_default()).or_default() += 1;
    }
    let times = |text: &String| posted.get(text).copied().unwrap_or(0);
    let tally = Tally {
        said,
        confirmed,
        lost: said - seen.handled.len() as u64,
        handled_twice: seen.handled.values().filter(|times| **times > 1).count(),
        untrue: seen.done.iter().filter(|text| times(text) != 1).count(),
        cut_off_twice: seen.cut_off.iter().filter(|text| times(text) > 1).count(),
        in_order: seen.order.values().all(|order| order.is_sorted()),
    };
    println!(
        "{kills} kills, {said} messages, {confirmed} acknowledged: {} lost, {} handled twice; \
         {} actions reported as done, {} of them not at the platform exactly once; \
         {} cut off by a kill, {} of them there twice",
        tally.lost,
        tally.handled_twice,
        seen.done.len(),
        tally.untrue,
        seen.cut_off.len(),
        tally.cut_off_twice,
    );
    drop(seen);
    server.kill();
    tally
}

/// What the agent that slept through everything is given first.
async fn first_message(url: String, agent: &serde_json::Value) -> String {
    let text = |name: &str| agent[name].as_str().unwrap().to_owned();
    let settings = Settings::new(url, text("gateway_id").as_str(), Secret::new(text("secret")))
        .with_bots([posthouse_agent::BotIdentity::new("telegram", "7002")]);
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let running = Agent::builder(WebSocketTransport::new(settings).unwrap())
        .on_message(move |message: Message, _conversation: Conversation| {
            let _ = tell.send(message.text().to_owned());
            async { Ok(()) }
        })
        .run(std::future::pending());
    tokio::select! {
        ended = running => panic!("it stays until it has heard something: {ended:?}"),
        first = tokio::time::timeout(PATIENCE, told.recv()) => {
            first.expect("the message that waited is there").expect("the agent runs")
        }
    }
}

async fn run_agent(
    url: String,
    heron: serde_json::Value,
    seen: Arc<Mutex<Seen>>,
    left: tokio::sync::oneshot::Receiver<()>,
) {
    let text = |name: &str| heron[name].as_str().unwrap().to_owned();
    let settings = Settings::new(url, text("gateway_id").as_str(), Secret::new(text("secret")))
        .with_bots([posthouse_agent::BotIdentity::new("telegram", "7001")]);
    Agent::builder(WebSocketTransport::new(settings).unwrap())
        .on_message(move |message: Message, conversation: Conversation| {
            let seen = Arc::clone(&seen);
            async move {
                let text = message.text().to_owned();
                {
                    let mut seen = seen.lock().unwrap();
                    *seen.handled.entry(text.clone()).or_default() += 1;
                    let number = text[1..].parse().unwrap();
                    seen.order.entry(conversation.chat_id().to_string()).or_default().push(number);
                }
                let answer = format!("re {text}");
                let outcome = conversation.say(&answer).await;
                let mut seen = seen.lock().unwrap();
                match outcome {
                    Ok(_) => seen.done.push(answer),
                    Err(_) => seen.cut_off.push(answer),
                }
                Ok(())
            }
        })
        .run(async move {
            let _ = left.await;
        })
        .await
        .unwrap();
}

async fn wait(seen: &Mutex<Seen>, enough: impl Fn(&Seen) -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !enough(&seen.lock().unwrap()) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    if waited.await.is_err() {
        let seen = seen.lock().unwrap();
        panic!(
            "stuck: {} handled, {} done, {} cut off",
            seen.handled.len(),
            seen.done.len(),
            seen.cut_off.len()
        );
    }
}

/// The same every time.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most as u64) as usize
    }
}
