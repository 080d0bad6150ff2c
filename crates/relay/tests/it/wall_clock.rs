//! Steps of the wall clock: every duration is measured by the monotonic one.

use std::time::Duration;

use ledger::Location;
use posthouse_time::Timepiece;
use relay::Config;

use crate::outbound::is_noted;
use crate::recorder::Habit;
use crate::test_server::{TestServer, eventually, seconds};
use crate::wake::{asleep, time_passes};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_step_of_two_minutes_closes_no_healthy_socket() {
    let server = TestServer::open().await;
    let (heron, crow) = (server.heron().await, server.enrol("rival", "crow", &[]).await);
    let mut live = heron.sits_settled().await;
    let mut silent = crow.dials().await;
    silent.hears_nothing().await;
    heron.hears_from("one").await;
    let (_, entry) = live.hears_inbound().await;
    server.clock.set(server.clock.now() + seconds(120));
    live.hears_nothing().await;
    silent.hears_nothing().await;
    live.acknowledges(&entry).await;
    heron.has_unread(0).await;
    assert!(server.relay.connections().presence(&heron.instance).connected);
}

#[tokio::test]
async fn a_frozen_agent_is_noticed_although_the_clock_went_back_an_hour() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    heron.hears_from("one").await;
    let mut gateway = heron.sits_settled().await;
    gateway.hears_inbound().await;
    server.clock.set(server.clock.now() - HOUR);
    let lease = Config::default().ack_lease.0;
    server.winds(lease - lease / 6);
    gateway.leaves_a_ping_unanswered().await;
    server.winds(lease / 6);
    eventually(|| !server.relay.connections().presence(&heron.instance).connected).await;
}

#[tokio::test]
async fn a_silent_peer_is_dropped_although_the_clock_went_back_an_hour() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut gateway = heron.sits().await;
    server.clock.set(server.clock.now() - HOUR);
    server.winds(seconds(30));
    gateway.leaves_a_ping_unanswered().await;
    server.winds(seconds(60));
    eventually(|| !server.relay.connections().presence(&heron.instance).connected).await;
}

#[tokio::test]
async fn a_step_of_an_hour_fails_no_open_send() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    heron.hears_from("hello").await;
    let mut gateway = heron.sits_with_window(1).await;
    gateway.takes("hello").await;
    server.egress.in_chat("c1", Habit::Until(server.clock.now() + HOUR));
    // The second waits behind the first when the clock steps.
    gateway.sends("r1", "c1", "one").await;
    gateway.sends("r2", "c1", "two").await;
    server.egress.has_begun(1).await;
    gateway.hears_nothing().await;
    server.clock.set(server.clock.now() + HOUR);
    assert_eq!(gateway.hears_result("r1").await["success"], true);
    assert_eq!(gateway.hears_result("r2").await["success"], true);
}

#[tokio::test]
async fn an_owed_result_survives_a_step_of_an_hour() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    heron.hears_from("hello").await;
    let mut gateway = heron.sits_with_window(1).await;
    gateway.takes("hello").await;
    heron.has_unread(0).await;
    server.egress.in_chat("c1", Habit::Until(server.clock.now() + HOUR));
    gateway.sends("r1", "c1", "one").await;
    server.egress.has_begun(1).await;
    gateway.dies();
    eventually(|| server.relay.connections().presence(&heron.instance).sockets == 0).await;
    server.clock.set(server.clock.now() + HOUR);
    is_noted(&heron).await;
    server.clock.set(server.clock.now() + HOUR);
    let mut again = heron.sits_with_window(1).await;
    assert_eq!(again.hears_result("r1").await["success"], true);
}

#[tokio::test]
async fn the_wake_back_off_is_moved_by_no_step() {
    let (server, heron, alarm) = asleep().await;
    heron.hears_from("one").await;
    alarm.has_rung(1).await;
    server.clock.set(server.clock.now() + HOUR);
    time_passes(&server, "other").await;
    alarm.has_rung(1).await;
    server.clock.set(server.clock.now() - HOUR - HOUR);
    server.winds(seconds(60));
    alarm.has_rung(2).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_socket_needs_no_timer_of_the_kernel() {
    let server = TestServer::build(Location::Memory, Config::default(), Timepiece::wall()).await;
    let heron = server.heron().await;
    let mut sockets = Vec::new();
    for _ in 0..3 {
        sockets.push(heron.sits().await);
    }
    let timers = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|descriptor| std::fs::read_link(descriptor.ok()?.path()).ok())
        .filter(|target| target.to_string_lossy().contains("timerfd"))
        .count();
    assert_eq!(timers, 0);
}
