//! CPU cost of an idle agent.

use std::time::Duration;

use crate::house::{House, eventually, seconds};

/// CPU time of this thread so far, in clock ticks. All tasks of the test run on it; other threads may belong to
/// other tests.
fn ticks_used() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[tokio::test]
async fn idle_sockets_in_every_state_cost_no_cpu() {
    let house = House::open().await;
    let heron = house.heron().await;
    let other = heron.with_another_gateway("gw-other").await;
    heron.hears_from("one").await;
    // Arriving, standby, reserve, live with an entry outstanding: all of them past their settling.
    let _arriving = heron.dials().await;
    let mut sockets = Vec::new();
    for agent in [&heron, &heron, &other, &other] {
        sockets.push(agent.sits().await);
    }
    house.winds(seconds(4));
    sockets[3].hears_inbound().await;
    eventually(|| house.relay.presence(&heron.instance).sockets == 5).await;
    let before = ticks_used();
    tokio::time::sleep(Duration::from_millis(500)).await;
    // A socket that spins takes a whole core: 50 ticks in this time.
    let used = ticks_used() - before;
    assert!(used < 15, "{used} ticks of CPU for sockets that do nothing");
}
