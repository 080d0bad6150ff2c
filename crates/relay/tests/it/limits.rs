//! An inbox holds so much and no more (section 16.2).

use relay::Config;

use crate::house::House;

#[tokio::test]
async fn past_so_many_entries_the_oldest_are_dropped() {
    let house = House::open_with(Config { inbox_entries: 5, ..Config::default() }).await;
    let heron = house.heron().await;
    for number in 0..12 {
        heron.hears_from(&number.to_string()).await;
        assert!(heron.unread().await <= 5);
    }
    let mut gateway = heron.sits_settled().await;
    for number in 7..12 {
        gateway.takes(&number.to_string()).await;
    }
    heron.has_unread(0).await;
    assert_eq!(counted(&house, "posthouse_relay_entries_dropped_total"), 7);
    assert_eq!(counted(&house, "posthouse_relay_entries_kept_total"), 12);
}

#[tokio::test]
async fn past_so_many_bytes_the_oldest_are_dropped() {
    let house = House::open_with(Config { inbox_bytes: 10_000, ..Config::default() }).await;
    let heron = house.heron().await;
    for letter in ["a", "b", "c", "d"] {
        heron.hears_from(&letter.repeat(2_000)).await;
    }
    let held = house.ledger.inbox().size(&heron.instance).await.unwrap();
    assert!(held.bytes <= 10_000 && held.entries >= 1, "{held:?}");
    let mut gateway = heron.sits_settled().await;
    gateway.takes(&"c".repeat(2_000)).await;
    gateway.takes(&"d".repeat(2_000)).await;
}

#[tokio::test]
async fn what_was_acknowledged_makes_room() {
    let house = House::open_with(Config { inbox_entries: 3, ..Config::default() }).await;
    let heron = house.heron().await;
    let mut gateway = heron.sits_with_window(1).await;
    for number in 0..20 {
        heron.hears_from(&number.to_string()).await;
        gateway.takes(&number.to_string()).await;
        heron.has_unread(0).await;
    }
    assert_eq!(counted(&house, "posthouse_relay_entries_dropped_total"), 0);
}

/// What a counter without labels says.
fn counted(house: &House, name: &str) -> u64 {
    let mut registry = prometheus_client::registry::Registry::default();
    house.relay.metrics().register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).expect(name);
    line.rsplit(' ').next().unwrap().parse().unwrap()
}
