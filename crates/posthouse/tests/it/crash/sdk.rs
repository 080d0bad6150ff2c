//! Crash test of SDK cron jobs: SIGKILL while one agent is called back and another takes its fires over the
//! socket. Every job goes on, and no fire time of any job runs twice or early.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthouse_agent::cron::schedule::{Dialect, zone};
use posthouse_agent::cron::{ApiCredential, Chronos, Cron, Portal, Run, Trigger};
use posthouse_agent::jobs::{JobStore, JobStoreSettings, JsonFile, NewJob, SqliteFile};
use posthouse_agent::verify::{Expected, verifier};
use posthouse_agent::{Agent, Settings, WebSocketTransport};
use posthouse_time::Timepiece;
use posthouse_wire::Secret;
use serde_json::Value;

use super::{Dice, PATIENCE, kills};
use crate::talk::provide_crypto;
use crate::test_server::TestServer;

const JOBS: usize = 6;

/// A job that ran: which, for which due time, and when, in milliseconds.
type Ran = Arc<Mutex<Vec<(String, i64, i64)>>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_sdk_agents_go_on_and_no_fire_runs_twice_or_early_whenever_the_server_is_killed() {
    provide_crypto();
    let mut server = TestServer::open(&[("POSTHOUSE_CLOCK__REQUESTS_PER_SECOND", "1000")]);
    server.does(&["tenant", "create", "acme"]);
    let store_settings = || JobStoreSettings {
        dialect: Dialect::Posthouse,
        ..JobStoreSettings::new(Timepiece::wall(), zone(Some("UTC")))
    };

    let called = server.does(&["agent", "create", "called", "--tenant", "acme"]);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let callback = format!("http://{}", listener.local_addr().unwrap());
    let store = SqliteFile::open(server.dir.path().join("called.db"), store_settings()).unwrap();
    let trigger = Trigger::Chronos(Chronos::by_callback(portal(&server, &called), callback));
    let expected =
        Expected { audience: text(&called, "audience"), issuer: Some(text(&called, "portal_url")) };
    let checks = verifier(&text(&called, "jwks_url"), expected, Timepiece::wall()).unwrap();
    let by_callback = Ran::default();
    let cron =
        Cron::builder(store, store_settings()).trigger(trigger).verifier(checks).on_job(notes(&by_callback));
    set_jobs(cron.store().as_ref()).await;
    cron.start();
    tokio::spawn({
        let route = cron.route();
        async move { axum::serve(listener, route).await }
    });

    let dials = server.does(&["agent", "create", "dials", "--tenant", "acme"]);
    let store = JsonFile::open(server.dir.path().join("dials"), store_settings()).unwrap();
    let trigger = Trigger::Chronos(Chronos::by_socket(portal(&server, &dials)));
    let by_socket = Ran::default();
    let dialing = Cron::builder(store, store_settings()).trigger(trigger).on_job(notes(&by_socket));
    set_jobs(dialing.store().as_ref()).await;
    let settings =
        Settings::new(&*server.url, text(&dials, "gateway_id"), Secret::new(text(&dials, "secret")));
    let line = WebSocketTransport::new(settings.taking_fires()).unwrap();
    dialing.follow(&line);
    let (leave, left) = tokio::sync::oneshot::channel::<()>();
    let agent = Agent::builder(line).cron(dialing).on_message(|_, _| async { Ok(()) });
    let agent = tokio::spawn(async move {
        agent
            .run(async move {
                let _ = left.await;
            })
            .await
    });

    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for _ in 0..kills() {
        tokio::time::sleep(Duration::from_millis(300 + dice.below(1500) as u64)).await;
        tokio::task::block_in_place(|| server.kill());
        tokio::task::block_in_place(|| server.start());
    }
    let last = Timepiece::wall().now().millis();
    for ran in [&by_callback, &by_socket] {
        all_run_again(ran, last).await;
    }
    cron.stop().await;
    let _ = leave.send(());
    let _ = agent.await.unwrap();

    for (how, ran) in [("called back", by_callback), ("down the socket", by_socket)] {
        let ran = ran.lock().unwrap();
        let fires: HashSet<_> = ran.iter().map(|(job, due, _)| (job, due)).collect();
        let early = ran.iter().filter(|(_, due, at)| at < due).count();
        println!(
            "{how}: {} kills, {} runs of {JOBS} jobs, {} twice, {early} early",
            kills(),
            ran.len(),
            ran.len() - fires.len()
        );
        assert_eq!((ran.len() - fires.len(), early), (0, 0));
    }
}

fn text(agent: &Value, name: &str) -> String {
    agent[name].as_str().unwrap().to_owned()
}

fn portal(server: &TestServer, agent: &Value) -> Portal {
    let secret = Secret::new(text(agent, "client_secret"));
    let credential = ApiCredential::Client { id: text(agent, "client_id"), secret };
    Portal::new(&server.url, credential, Timepiece::wall())
}

async fn set_jobs(store: &dyn JobStore) {
    for number in 0..JOBS {
        store.create(NewJob::new("every 1s").name(format!("job {number}"))).await.unwrap();
    }
}

fn notes(ran: &Ran) -> impl Fn(Run) -> std::future::Ready<Result<(), String>> + Send + Sync + 'static {
    let ran = Arc::clone(ran);
    move |run| {
        let due = run.fire_at().unwrap().as_millisecond();
        let at = Timepiece::wall().now().millis();
        ran.lock().unwrap().push((run.job().id().to_string(), due, at));
        std::future::ready(Ok(()))
    }
}

/// Waits until every job has run since a moment.
async fn all_run_again(ran: &Ran, since: i64) {
    let waited = tokio::time::timeout(PATIENCE, async {
        loop {
            let jobs: HashSet<String> = ran
                .lock()
                .unwrap()
                .iter()
                .filter(|(.., at)| *at > since)
                .map(|(job, ..)| job.clone())
                .collect();
            if jobs.len() == JOBS {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    assert!(waited.await.is_ok(), "a job has stopped: {:?}", ran.lock().unwrap());
}
