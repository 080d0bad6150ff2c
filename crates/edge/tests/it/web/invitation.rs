//! People who were let in from outside.

use edge::web::Person;
use http::StatusCode;
use serde_json::json;

use super::actors::{From, House};

#[tokio::test]
async fn an_invited_person_talks_under_the_invitations_name_in_their_own_room_only() {
    let house = House::open_to_the_world().await;
    let heron = house.enrol("heron").await;
    let token = house.web.invite(&Person::read("ann").unwrap()).await.unwrap();
    let token = token.expose();

    // From a link in somebody's mail: another site's navigation.
    let link = From::of(
        "203.0.113.9",
        &[("host", "post.example"), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")],
    );
    let page = house.get(&link, &format!("/chat?invite={token}")).await;
    assert_eq!(page.status, StatusCode::OK);
    let cookie = page.headers["set-cookie"].to_str().unwrap().to_owned();
    for attribute in ["HttpOnly", "SameSite=Strict", "Secure"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    assert!(!page.text.contains(token));

    let ann = From::outside().with("cookie", cookie.split(';').next().unwrap());
    let around = house.get(&ann, "/chat/api/agents").await.json();
    assert_eq!((&around["person"], &around["may_connect"]), (&json!("ann"), &json!(false)));
    assert_eq!(around["agents"][0]["tenant"], json!(null));
    let entered =
        house.post(&ann, "/chat/api/rooms", json!({"agent": heron.instance, "person": "bob"})).await.json();
    assert_eq!(entered["person"], json!("ann"));
    let room = entered["room"].as_str().unwrap();
    let path = format!("/chat/api/rooms/{room}/messages");
    let said = house.post(&ann, &path, json!({"text": "hello", "nonce": "nonce-0001"})).await;
    assert_eq!(said.status, StatusCode::OK);
    assert_eq!(heron.unread().await[0].1.source.user_name.as_deref(), Some("ann"));

    let of_bob = house.opens_room("bob", &heron.instance).await;
    let elsewhere = format!("/chat/api/rooms/{of_bob}");
    assert!(
        house
            .post(&ann, &format!("{elsewhere}/messages"), json!({"text": "x", "nonce": "nonce-0002"}))
            .await
            .is_absence()
    );
    assert!(house.get(&ann, &format!("{elsewhere}/stream")).await.is_absence());
    assert!(house.post(&ann, "/chat/api/stop", json!({"room": of_bob})).await.is_absence());
    assert!(house.post(&ann, "/chat/api/agents", json!({"name": "otter"})).await.is_absence());

    let foreign = From::of("203.0.113.9", &[("host", "post.example"), ("origin", "https://evil.example")]);
    let foreign = foreign.with("cookie", cookie.split(';').next().unwrap());
    assert!(house.post(&foreign, &path, json!({"text": "x", "nonce": "nonce-0003"})).await.is_absence());
}

#[tokio::test]
async fn a_withdrawn_invitation_is_none() {
    let house = House::open_to_the_world().await;
    let ann = Person::read("ann").unwrap();
    let first = house.web.invite(&ann).await.unwrap();
    let second = house.web.invite(&ann).await.unwrap();
    let outside = From::outside();
    let link = |token: &str| format!("/chat?invite={token}");
    assert!(house.get(&outside, &link(first.expose())).await.is_absence());
    assert_eq!(house.get(&outside, &link(second.expose())).await.status, StatusCode::OK);
    house.rooms().withdraw_invite("ann").await.unwrap();
    assert!(house.get(&outside, &link(second.expose())).await.is_absence());
    let cookie = format!("posthouse_chat={}", second.expose());
    assert!(house.get(&outside.with("cookie", &cookie), "/chat").await.is_absence());
}

#[tokio::test]
async fn the_ledger_knows_an_invitation_by_its_hash_alone() {
    let house = House::open_to_the_world().await;
    let token = house.web.invite(&Person::read("ann").unwrap()).await.unwrap();
    let [kept] = &house.rooms().invites().await.unwrap()[..] else { panic!("one invitation") };
    assert_eq!(kept.hash.len(), 64);
    assert_ne!(kept.hash, token.expose());
}
