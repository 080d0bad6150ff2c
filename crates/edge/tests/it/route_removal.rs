//! Removal of a route while a message that uses it is being stored.

use ledger::{Decision, Discriminator};

use crate::access::{Fixture, direct, user};

#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_route_is_removed_before_it_is_kept_ends_with_a_trace() {
    let fixture = Fixture::owned().await;
    fixture.decides(user("5"), Decision::Allowed).await;
    let (relay, on) = (fixture.server.relay.clone(), fixture.on());
    let removes =
        async move { assert!(relay.route_removals().remove_route(&on, &Discriminator::Any).await.is_ok()) };
    let runtime = tokio::runtime::Handle::current();
    *fixture.pigeon.meanwhile.lock().unwrap() =
        Some(Box::new(move || tokio::task::block_in_place(|| runtime.block_on(removes))));
    assert!(fixture.comes_through(direct("5")).await, "it was kept");
    assert!(fixture.server.texts().await.is_empty(), "and does not wait");
}
