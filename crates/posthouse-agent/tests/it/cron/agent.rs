//! Cron inside an agent: fires arrive on the agent's own relay connection.

use std::sync::Arc;

use posthouse_agent::cron::{Chronos, CronState, Trigger};
use posthouse_agent::jobs::NewJob;
use posthouse_agent::wire::cron::Fired;
use posthouse_agent::wire::{FromGateway, RequestId, ToGateway};
use posthouse_agent::{Agent, WebSocketTransport};
use tokio::sync::Notify;

use super::portal::FakePortal;
use super::{Fixture, fire_of, until};
use crate::jobs::at;
use crate::test_server::{TestServer, soon};

#[tokio::test]
async fn cron_an_agent_hands_the_fires_of_its_connection_to_its_cron_and_stops_it_with_itself() {
    let (fixture, portal, server) = (Fixture::open(), FakePortal::open().await, TestServer::open().await);
    let job = fixture.job(NewJob::new("every 5m")).await;
    let chronos = Chronos::by_socket(fixture.client(&portal));
    let cron = fixture.cron(fixture.builder().trigger(Trigger::Chronos(chronos)));
    let settings = server.settings().taking_fires();
    let transport = WebSocketTransport::with_timepiece(settings, server.clock.clone()).unwrap();
    cron.follow(&transport);
    let agent = Agent::builder(transport).cron(cron.clone()).on_message(|_, _| async { Ok(()) });
    let stop = Arc::new(Notify::new());
    let running = tokio::spawn({
        let stop = Arc::clone(&stop);
        async move { agent.run(async move { stop.notified().await }).await }
    });
    let mut seat = server.answers().await;
    assert!(seat.welcomes().await.fires);
    soon(cron.until(|state| state == CronState::Managed)).await;
    let body = portal.body(&job.id());
    assert_eq!(body["deliver"], "socket");
    assert!(body.get("agent_callback_url").is_none());

    fixture.winds(300);
    let request_id = RequestId::from("rq-1");
    seat.says(ToGateway::CronFire { request_id: request_id.clone(), fire: fire_of(&job) }).await;
    let answer = FromGateway::CronFired { request_id, status: 202, fired: Fired::Accepted };
    assert_eq!(seat.hears().await, answer);
    until(|| fixture.diary.len() == 1).await;
    assert_eq!(fixture.diary.times(), [Some(at(300))]);

    // The connection is lost and comes back: the portal is asked for its arms.
    assert!(soon(cron.reconcile()).await);
    portal.forgets_its_calls();
    drop(seat);
    let mut dialed = std::pin::pin!(server.answers());
    let mut seat = loop {
        tokio::select! {
            seat = &mut dialed => break seat,
            () = tokio::time::sleep(std::time::Duration::from_millis(5)) => {
                server.clock.wind(std::time::Duration::from_secs(1));
            }
        }
    };
    seat.welcomes().await;
    until(|| portal.count("list") == 1).await;

    stop.notify_one();
    assert_eq!(seat.hears().await, FromGateway::GoingIdle);
    seat.says(ToGateway::GoingIdleAck).await;
    while seat.next().await.is_some() {}
    soon(running).await.unwrap().unwrap();
    assert_eq!(cron.state(), CronState::Off);
}
