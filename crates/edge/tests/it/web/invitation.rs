//! Invitations: a link that works once, for one person, a tenant and perhaps some of its agents.

use std::time::Duration;

use edge::web::LINK_LIFE;
use http::StatusCode;
use serde_json::json;

use super::actors::{From, TestServer};

#[tokio::test]
async fn a_link_is_spent_by_a_post_once_and_never_by_a_get() {
    let server = TestServer::open_to_the_world().await;
    let (_, secret) = server.invites("ann", false).await;
    // A link preview, and a person who opened the link from their mail and closed the page again.
    let mail = From::of(
        "203.0.113.9",
        &[("host", "post.example"), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")],
    );
    for path in [format!("/chat?invite={}", secret.expose()), "/chat".to_owned()] {
        let page = server.get(&mail, &path).await;
        assert_eq!(page.status, StatusCode::OK);
        assert!(!page.headers.contains_key("set-cookie") && !page.text.contains(secret.expose()));
    }
    let spent = server.spends(&From::outside(), &secret).await;
    assert_eq!((spent.status, &spent.json()["person"]), (StatusCode::OK, &json!("ann")));
    let again = server.spends(&From::outside(), &secret).await;
    assert_eq!((again.status, &again.json()["code"]), (StatusCode::FORBIDDEN, &json!("bad_link")));
    assert!(!again.headers.contains_key("set-cookie"));
    let page = From::outside().with("cookie", &spent.cookie());
    assert_eq!(server.get(&page, "/chat/api/agents").await.json()["person"], "ann");
}

#[tokio::test]
async fn whoever_is_not_signed_in_sends_a_small_body_only() {
    let server = TestServer::open().await;
    let long = json!({ "secret": "f".repeat(8 * 1024) });
    let refused = server.post(&From::here(), "/chat/api/session", long).await;
    assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn the_cookie_counts_for_the_page_alone() {
    let server = TestServer::open_to_the_world().await;
    let (_, secret) = server.invites("ann", false).await;
    let spent = server.spends(&From::outside(), &secret).await;
    let cookie = spent.headers["set-cookie"].to_str().unwrap();
    for attribute in ["Path=/inn/chat;", "HttpOnly", "SameSite=Strict", "Secure"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    assert!(!cookie.contains(secret.expose()), "the cookie is another secret than the link's");
}

#[tokio::test]
async fn a_link_that_nobody_used_in_time_is_none() {
    let server = TestServer::open().await;
    let (_, secret) = server.invites("ann", false).await;
    server.clock.wind(LINK_LIFE - Duration::from_secs(1));
    let (_, other) = server.invites("bob", false).await;
    server.clock.wind(Duration::from_secs(1));
    assert_eq!(server.spends(&From::here(), &secret).await.status, StatusCode::FORBIDDEN);
    assert_eq!(server.spends(&From::here(), &other).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_session_ends_by_itself_in_the_end() {
    let server = TestServer::open().await;
    let ann = server.page_of("ann").await;
    server.clock.wind(Duration::from_secs(181 * 24 * 60 * 60));
    assert!(server.get(&ann, "/chat/api/agents").await.is_uninvited());
}

#[tokio::test]
async fn a_link_never_silently_replaces_another_persons_cookie() {
    let server = TestServer::open().await;
    let ann = server.page_of("ann").await;
    let (bobs, secret) = server.invites("bob", false).await;
    let asked = server.spends(&ann, &secret).await;
    assert_eq!((asked.status, &asked.json()["code"]), (StatusCode::CONFLICT, &json!("other_invitation")));
    assert_eq!((&asked.json()["person"], &asked.json()["invited"]), (&json!("ann"), &json!("bob")));
    assert!(!asked.headers.contains_key("set-cookie"));
    assert_eq!(server.get(&ann, "/chat/api/agents").await.json()["person"], "ann");
    // The person confirms, and the link is still valid.
    let wanted = json!({ "secret": secret.expose(), "replace": true });
    let replaced = server.post(&ann, "/chat/api/session", wanted).await;
    assert_eq!(replaced.status, StatusCode::OK);
    let bob = From::here().with("cookie", &replaced.cookie());
    assert_eq!(server.get(&bob, "/chat/api/agents").await.json()["person"], "bob");
    assert!(server.get(&ann, "/chat/api/agents").await.is_uninvited(), "the session that was left has ended");
    // Another link of the same invitation needs no confirmation.
    let own = server.web.renew_link(&bobs).await.unwrap().unwrap();
    assert_eq!(server.spends(&bob, &own).await.status, StatusCode::OK);
}

#[tokio::test]
async fn an_invitation_reaches_its_tenants_agents_only_or_those_it_names() {
    let server = TestServer::open().await;
    let (heron, otter) = (server.enrol("heron").await, server.enrol("otter").await);
    let foreign = server.enrol_for("umbrella", "zebra").await;
    let named = Some(vec![otter.instance.clone()]);
    let (_, secret) = server.invites_to("acme", named, "bob", false).await;
    let bob = server.signs_in(From::here(), &secret).await;
    let ann = server.page_of("ann").await;
    for (page, sees, not) in
        [(&ann, vec![&heron, &otter], vec![&foreign]), (&bob, vec![&otter], vec![&heron, &foreign])]
    {
        let listed = server.get(page, "/chat/api/agents").await;
        for agent in sees {
            assert!(listed.text.contains(agent.instance.as_str()));
            server.enters_by(page, &agent.instance).await;
        }
        for agent in not {
            assert!(!listed.text.contains(agent.instance.as_str()));
            let entered = server.post(page, "/chat/api/rooms", json!({ "agent": agent.instance })).await;
            assert!(entered.is_absence());
        }
    }
}

#[tokio::test]
async fn an_invitation_whose_agents_are_all_gone_is_for_none() {
    let server = TestServer::open().await;
    let (heron, otter) = (server.enrol("heron").await, server.enrol("otter").await);
    let (_, secret) = server.invites_to("acme", Some(vec![heron.instance.clone()]), "bob", false).await;
    let bob = server.signs_in(From::here(), &secret).await;
    server.removes(&heron.instance).await;
    assert_eq!(server.get(&bob, "/chat/api/agents").await.json()["agents"], json!([]));
    assert!(server.post(&bob, "/chat/api/rooms", json!({ "agent": otter.instance })).await.is_absence());
}

#[tokio::test]
async fn a_room_belongs_to_the_invitation_and_not_to_a_name() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let mut pages = Vec::new();
    for _ in 0..2 {
        let (_, secret) = server.invites("ann", false).await;
        pages.push(server.signs_in(From::here(), &secret).await);
    }
    let rooms = [
        server.enters_by(&pages[0], &heron.instance).await,
        server.enters_by(&pages[1], &heron.instance).await,
    ];
    assert_ne!(rooms[0], rooms[1]);
    let path = |of: usize, what: &str| format!("/chat/api/rooms/{}/{what}", rooms[of]);
    let said = json!({"text": "hello", "nonce": "nonce-0001"});
    for (whose, allowed) in [(0, true), (1, false)] {
        let spoken = server.post(&pages[0], &path(whose, "messages"), said.clone()).await;
        assert_eq!(spoken.status == StatusCode::OK, allowed);
        assert_eq!(spoken.is_absence(), !allowed);
    }
    assert!(server.get(&pages[0], &path(1, "stream")).await.is_absence());
    assert!(server.post(&pages[0], "/chat/api/stop", json!({"room": rooms[1]})).await.is_absence());
    // The agent sees two people, too.
    server.post(&pages[1], &path(1, "messages"), said).await;
    let ids: Vec<_> = heron.unread().await.into_iter().map(|(_, event)| event.source.user_id).collect();
    assert_eq!(ids.len(), 2);
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test]
async fn withdrawing_an_invitation_ends_its_open_streams_at_once() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let (id, secret) = server.invites("bob", false).await;
    let bob = server.signs_in(From::here(), &secret).await;
    let room = server.enters_by(&bob, &heron.instance).await;
    let mut streams = [server.watches(&bob, &room, "").await, server.watches(&bob, &room, "").await];
    let of_ann = server.enters("ann", &heron.instance).await;
    let mut ann = server.watches(&server.page_of("ann").await, &of_ann, "").await;
    let link = server.web.renew_link(&id).await.unwrap().unwrap();

    assert!(server.web.withdraw(&id).await.unwrap());
    for stream in &mut streams {
        assert_eq!(stream.next().await, None);
    }
    assert!(server.get(&bob, "/chat/api/agents").await.is_uninvited());
    assert_eq!(server.spends(&From::here(), &link).await.status, StatusCode::FORBIDDEN);
    assert!(!heron.does(super::actors::send(&room, "are you there?")).await.success, "nobody would read it");
    assert!(!server.web.withdraw(&id).await.unwrap());
    // Nobody else's stream ended.
    heron.does(super::actors::send(&of_ann, "still here")).await;
    assert_eq!(ann.hears().await.data["text"], "still here");
}

#[tokio::test]
async fn the_ledger_knows_secrets_by_their_hashes_alone() {
    let server = TestServer::open().await;
    let (id, secret) = server.invites("ann", false).await;
    assert!(server.invitations().behind_link(secret.expose()).await.unwrap().is_none());
    let spent = server.spends(&From::here(), &secret).await;
    let session = spent.cookie().split_once('=').unwrap().1.to_owned();
    assert!(server.invitations().session(&session).await.unwrap().is_none());
    assert_eq!(server.invitations().invitations().await.unwrap()[0].id, id);
}
