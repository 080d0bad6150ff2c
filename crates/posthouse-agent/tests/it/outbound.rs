//! Outbound actions get one result each, across as many sockets as it takes.

use posthouse_agent::wire::action::Metadata;
use posthouse_agent::wire::frame::Outbound;
use posthouse_agent::wire::{Action, ChatInfo, FromGateway, Outcome, ToGateway};
use posthouse_agent::{ConnectionState, Fault, RelayTransport, Tag, WebSocketTransport};
use tokio::task::JoinHandle;

use crate::test_server::{Seat, TestServer, seconds, soon};

fn send(text: &str) -> Action {
    let (content, metadata) = (text.to_owned(), Metadata::default());
    Action::Send { chat_id: "c1".into(), content, reply_to: None, metadata }
}

fn asks(transport: &WebSocketTransport, action: Action) -> JoinHandle<Outcome> {
    let transport = transport.clone();
    tokio::spawn(async move { transport.send_outbound(action, &Tag::default()).await })
}

async fn answers(seat: &mut Seat, request: &Outbound, result: Outcome) {
    seat.says(ToGateway::OutboundResult { request_id: request.request_id.clone(), result }).await;
}

#[tokio::test]
async fn answers_find_their_requests_in_any_order() {
    let server = TestServer::open().await;
    let (transport, mut seat, _received) = server.connected().await;
    let (one, two) = (asks(&transport, send("one")), asks(&transport, send("two")));
    let (first, second) = (seat.hears_request().await, seat.hears_request().await);
    assert_eq!((&first.action, &second.action), (&send("one"), &send("two")));
    assert_ne!(first.request_id, second.request_id);
    answers(&mut seat, &second, Outcome::sent("m2".into())).await;
    answers(&mut seat, &first, Outcome::failed("no")).await;
    assert_eq!(soon(one).await.unwrap(), Outcome::failed("no"));
    assert_eq!(soon(two).await.unwrap(), Outcome::sent("m2".into()));
}

#[tokio::test]
async fn a_request_carries_the_identity_it_is_made_under() {
    let alpha = |bot: Option<&str>| Tag { platform: Some("alpha".into()), bot_id: bot.map(Into::into) };
    check_identity(alpha(Some("a2")), alpha(Some("a2"))).await;
    // The agent's only bot there is named even if the caller did not name it.
    check_identity(alpha(None), alpha(Some("a1"))).await;
    check_identity(Tag::default(), Tag::default()).await;
}

async fn check_identity(tag: Tag, expected: Tag) {
    let server = TestServer::open().await;
    let (transport, mut seat, _received) = server.connected().await;
    let asking = transport.send_outbound(send("x"), &tag);
    let (outcome, ()) = tokio::join!(asking, async {
        let request = seat.hears_request().await;
        let carried = Tag { platform: request.platform.clone(), bot_id: request.bot_id.clone() };
        assert_eq!(carried, expected);
        answers(&mut seat, &request, Outcome::done()).await;
    });
    assert!(outcome.success);
}

#[tokio::test]
async fn an_unanswered_request_is_said_again_under_its_own_id_on_the_next_socket() {
    let server = TestServer::open().await;
    let (transport, mut seat, _received) = server.connected().await;
    let (sent, answered) = (asks(&transport, send("hello")), asks(&transport, send("done")));
    let first = seat.hears_request().await;
    let second = seat.hears_request().await;
    answers(&mut seat, &second, Outcome::done()).await;
    soon(answered).await.unwrap();
    seat.closes(1012, "").await;
    soon(transport.until(|state| state == ConnectionState::Waiting)).await;
    // Asked without a connection: this request waits as well.
    let later = asks(&transport, send("later"));
    tokio::task::yield_now().await;
    server.clock.wind(seconds(1));
    let mut seat = server.seats().await;
    assert_eq!(seat.hears_request().await, first);
    let third = seat.hears_request().await;
    assert_eq!(third.action, send("later"));
    answers(&mut seat, &first, Outcome::sent("m1".into())).await;
    answers(&mut seat, &third, Outcome::done()).await;
    assert_eq!(soon(sent).await.unwrap(), Outcome::sent("m1".into()));
    assert!(soon(later).await.unwrap().success);
}

#[tokio::test]
async fn a_late_result_on_the_next_socket_is_accepted_without_being_asked_again() {
    let server = TestServer::open().await;
    let (transport, mut seat, _received) = server.connected().await;
    let sent = asks(&transport, send("hello"));
    let request = seat.hears_request().await;
    seat.closes(1012, "").await;
    soon(transport.until(|state| state == ConnectionState::Waiting)).await;
    server.clock.wind(seconds(1));
    let mut seat = server.answers().await;
    seat.hears().await;
    answers(&mut seat, &request, Outcome::sent("m1".into())).await;
    assert_eq!(soon(sent).await.unwrap(), Outcome::sent("m1".into()));
}

#[tokio::test]
async fn after_thirty_seconds_the_asker_is_told_honestly_what_is_known() {
    let server = TestServer::open().await;
    let (transport, mut seat, received) = server.connected().await;
    let sent = asks(&transport, send("perhaps"));
    let request = seat.hears_request().await;
    server.clock.wind(seconds(29));
    // The agent has had time to act on the new time: it has handled an entry meanwhile.
    received.takes();
    seat.brings("ent_1", "the marker").await;
    seat.hears_ack("ent_1").await;
    assert!(!sent.is_finished());
    server.clock.wind(seconds(1));
    assert!(soon(sent).await.unwrap().error.unwrap().starts_with("timed out"));
    // The late result is ignored.
    answers(&mut seat, &request, Outcome::done()).await;

    seat.closes(4409, "superseded").await;
    soon(transport.until(|state| state == ConnectionState::Waiting)).await;
    let unsent = asks(&transport, send("surely not"));
    let unsent = server.clock.wind_until(seconds(30), unsent).await;
    assert!(unsent.unwrap().error.unwrap().starts_with("network"));
}

#[tokio::test]
async fn a_request_whose_asker_left_is_not_said_again() {
    let server = TestServer::open().await;
    let (transport, mut seat, _received) = server.connected().await;
    let left = asks(&transport, send("never mind"));
    seat.hears_request().await;
    left.abort();
    assert!(left.await.unwrap_err().is_cancelled());
    seat.closes(1012, "").await;
    soon(transport.until(|state| state == ConnectionState::Waiting)).await;
    server.clock.wind(seconds(1));
    let mut seat = server.seats().await;
    let kept = asks(&transport, send("still here"));
    assert_eq!(seat.hears_request().await.action, send("still here"));
    kept.abort();
}

#[tokio::test]
async fn disconnecting_tells_whoever_waits() {
    let server = TestServer::open().await;
    let (transport, mut seat, _received) = server.connected().await;
    let sent = asks(&transport, send("hello"));
    seat.hears_request().await;
    tokio::join!(transport.disconnect(), seat.next());
    assert!(soon(sent).await.unwrap().error.unwrap().starts_with("timed out"));
    assert!(transport.send_outbound(send("x"), &Tag::default()).await.error.unwrap().starts_with("network"));
}

#[tokio::test]
async fn a_long_request_goes_out_in_messages_of_half_a_mebibyte() {
    let server = TestServer::open().await;
    let (transport, mut seat, _received) = server.connected().await;
    let text = "ü".repeat(900_000);
    let sent = asks(&transport, send(&text));
    seat.sizes.clear();
    let request = seat.hears_request().await;
    assert!(request.action == send(&text));
    assert!(seat.sizes.len() >= 4 && seat.sizes.iter().all(|size| *size <= 512 << 10), "{:?}", seat.sizes);
    answers(&mut seat, &request, Outcome::done()).await;
    assert!(soon(sent).await.unwrap().success);
}

#[tokio::test]
async fn a_request_longer_than_the_server_reads_is_refused_here_and_costs_no_socket() {
    let server = TestServer::open().await;
    let (transport, mut seat, _received) = server.connected().await;
    let refused = transport.send_outbound(send(&"x".repeat(5 << 20)), &Tag::default()).await;
    assert!(refused.error.unwrap().starts_with("too long"));
    let sent = asks(&transport, send("short"));
    let request = seat.hears_request().await;
    answers(&mut seat, &request, Outcome::done()).await;
    assert!(soon(sent).await.unwrap().success);
}

#[tokio::test]
async fn chat_info_and_follow_ups_ride_as_requests() {
    let server = TestServer::open().await;
    let (transport, mut seat, _received) = server.connected().await;
    let (chat, untagged) = ("c1".into(), Tag::default());
    let asking = transport.get_chat_info(&chat, &untagged);
    let info = ChatInfo { name: "Reeds".to_owned(), kind: "group".to_owned() };
    let (told, ()) = tokio::join!(asking, async {
        let request = seat.hears_request().await;
        assert_eq!(request.action, Action::GetChatInfo { chat_id: "c1".into() });
        answers(&mut seat, &request, Outcome::info(info.clone())).await;
    });
    assert_eq!(told, Ok(info));

    for (kind, tagged) in [("alpha.reply", Some("alpha")), ("gamma.reply", None)] {
        let follow_up = Action::FollowUp {
            session_key: "agent:main:x".into(),
            kind: kind.into(),
            content: "and then".to_owned(),
            metadata: Metadata::default(),
        };
        let (outcome, ()) = tokio::join!(transport.send_follow_up(follow_up.clone()), async {
            let request = seat.hears_request().await;
            assert_eq!(request.action, follow_up);
            assert_eq!(request.platform.as_ref().map(|platform| platform.as_str()), tagged);
            assert_eq!(request.bot_id.as_ref().map(|bot| bot.as_str()), tagged.map(|_| "a1"));
            answers(&mut seat, &request, Outcome::failed("nothing to follow up")).await;
        });
        assert!(!outcome.success);
    }
    let (told, ()) = tokio::join!(transport.get_chat_info(&chat, &untagged), async {
        let request = seat.hears_request().await;
        answers(&mut seat, &request, Outcome::failed("chat not found")).await;
    });
    assert_eq!(told, Err(Fault::Untold("chat not found".to_owned())));
}

#[tokio::test]
async fn an_interrupt_is_said_on_a_live_connection_and_never_kept() {
    let server = TestServer::open().await;
    let (transport, mut seat, _received) = server.connected().await;
    let session = "agent:main:x".into();
    assert!(transport.send_interrupt(&session, None).await);
    assert_eq!(seat.hears().await, FromGateway::Interrupt { session_key: session.clone(), reason: None });
    seat.closes(1012, "").await;
    soon(transport.until(|state| state == ConnectionState::Waiting)).await;
    assert!(!transport.send_interrupt(&session, Some("stop")).await);
    server.clock.wind(seconds(1));
    let mut seat = server.seats().await;
    let kept = asks(&transport, send("x"));
    seat.hears_request().await;
    kept.abort();
}
