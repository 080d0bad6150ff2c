//! Waking slow agents ahead of their due time, if the operator allows it.

use std::time::Duration;

use crate::agent::{Answer, Callback};
use crate::town::{Agent, Town, eventually, seconds};

/// An agent that was asleep at its first fire and took it some seconds later.
async fn slow_to_wake(allowed: bool) -> (Town, Agent, Callback) {
    let town = Town::open_with(clock::Config { pre_wake: allowed, ..clock::Config::default() }).await;
    let wake = Callback::open(town.time.clone()).await;
    let heron = town.enrol("acme", "heron", Some(format!("{}/wake", wake.url()))).await;
    town.callback.answers([Answer::Status(503, ""), Answer::Status(503, ""), Answer::Status(503, "")]);
    heron.arms("job", &town.at(seconds(10))).await;
    town.winds_until(|| town.callback.fires().len() == 4).await;
    heron.history_begins(&["delivered"]).await;
    wake.called(1).await;
    (town, heron, wake)
}

#[tokio::test]
async fn an_agent_that_was_slow_to_wake_is_poked_that_much_before_its_next_fire() {
    let (town, heron, wake) = slow_to_wake(true).await;
    let took = town.clock.waking(&heron.instance).await.unwrap().unwrap();
    assert!(took >= seconds(5) && took <= seconds(10), "{took:?}");
    heron.arms("job", &town.at(seconds(900))).await;
    let due = crate::town::start() + seconds(900);
    // Nothing happens too early. At the due time minus the waking time there is one wake call, before the fire.
    town.time.wind((due - took - seconds(2)).since(town.time.now()));
    town.settles().await;
    assert_eq!(wake.fires().len(), 1);
    town.time.wind(seconds(2) + Duration::from_millis(10));
    wake.called(2).await;
    assert_eq!(town.callback.fires().len(), 4);
    town.time.wind(took + Duration::from_millis(100));
    town.callback.called(5).await;
    assert_eq!(wake.fires().len(), 2);
}

#[tokio::test]
async fn a_time_that_was_told_ahead_is_woken_for_too() {
    let (town, heron, wake) = slow_to_wake(true).await;
    let took = town.clock.waking(&heron.instance).await.unwrap().unwrap();
    let mut wish = heron.wish("job", &town.at(seconds(60)));
    wish["then"] = serde_json::json!([town.at(seconds(900)).text()]);
    heron.arms_with(wish).await;
    town.winds_until(|| town.callback.fires().len() == 5).await;
    heron.history_begins(&["delivered"]).await;
    let poked = wake.fires().len();
    let due = crate::town::start() + seconds(900);
    town.time.wind((due - took + Duration::from_millis(10)).since(town.time.now()));
    wake.called(poked + 1).await;
    assert_eq!(town.callback.fires().len(), 5);
}

#[tokio::test]
async fn without_leave_it_is_measured_and_nobody_is_poked() {
    let (town, heron, wake) = slow_to_wake(false).await;
    let standing = async || town.clock.waking(&heron.instance).await.unwrap();
    assert!(standing().await.is_some());
    heron.arms("job", &town.at(seconds(900))).await;
    town.time.wind(seconds(880));
    town.settles().await;
    assert_eq!(wake.fires().len(), 1);
    let told = town.clock.job(&heron.instance, &"job".into()).await.unwrap().unwrap();
    assert_eq!(told.waking, standing().await);
    eventually(async || heron.lists().await.len() == 1).await;
}
