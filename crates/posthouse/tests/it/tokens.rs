//! Clients and logins: created by the command line, used over HTTP.

use serde_json::{Value, json};

use crate::house::House;
use crate::talk::provide_crypto;

/// What a client's secret is exchanged for.
pub async fn exchanges(house: &House, credential: &Value) -> Value {
    let (status, answer) = tries_to_exchange(house, credential).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

async fn tries_to_exchange(house: &House, credential: &Value) -> (u16, Value) {
    let text = |name: &str| credential[name].as_str().unwrap().to_owned();
    let form = [
        ("grant_type", "client_credentials".to_owned()),
        ("client_id", text("client_id")),
        ("client_secret", text("client_secret")),
    ];
    let request = reqwest::Client::new().post(format!("{}/oauth/token", house.url)).form(&form);
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

/// A refresh as a stock agent asks for it.
pub async fn refreshes(house: &House, token: &str) -> (u16, Value) {
    let form = [("grant_type", "refresh_token"), ("client_id", "hermes-cli-vps")];
    let request = reqwest::Client::new()
        .post(format!("{}/api/oauth/token", house.url))
        .header("x-nous-refresh-token", token)
        .form(&form);
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_agent_create_prints_opens_the_doors_and_survives_a_restart() {
    provide_crypto();
    let mut house = House::open(&[]);
    house.does(&["tenant", "create", "acme"]);
    let callback = "http://127.0.0.1:9/agent";
    let heron = house.does(&["agent", "create", "heron", "--tenant", "acme", "--callback-url", callback]);
    assert_eq!(heron["portal_url"], house.url);
    assert_eq!(heron["env"]["HERMES_PORTAL_BASE_URL"], house.url);
    assert_eq!(heron["cron"]["cron.chronos.callback_url"], callback);
    assert_eq!(exchanges(&house, &heron).await["expires_in"], 3600);
    let token = heron["auth"]["providers"]["nous"]["refresh_token"].as_str().unwrap();
    let (status, refreshed) = refreshes(&house, token).await;
    assert_eq!(status, 200, "{refreshed}");
    house.kill();
    house.start();
    exchanges(&house, &heron).await;
    assert_eq!(refreshes(&house, refreshed["refresh_token"].as_str().unwrap()).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_made_listed_and_revoked_by_command() {
    provide_crypto();
    let house = House::open(&[]);
    house.does(&["tenant", "create", "acme"]);
    house.does(&["tenant", "create", "umbrella"]);
    let heron = house.does(&["agent", "create", "heron", "--tenant", "acme"]);
    let own = house.does(&["client", "create", "--tenant", "acme"]);
    assert_eq!(own["client_id"], format!("tenant:{}", heron["tenant_id"].as_str().unwrap()));
    exchanges(&house, &own).await;
    let again = house.does(&["client", "create", "--agent", "heron", "--tenant", "acme"]);
    assert_eq!(again["client_id"], heron["client_id"]);
    let refused = house.tries(&["client", "create", "--agent", "heron", "--tenant", "umbrella"]);
    assert!(!refused.status.success(), "another tenant's agent is nobody here");

    let listed = house.does(&["client", "list", "--tenant", "acme"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 3);
    assert_eq!(house.does(&["client", "list", "--tenant", "umbrella"])["items"], json!([]));
    house.does(&["client", "revoke", own["client_id"].as_str().unwrap()]);
    let (status, answer) = tries_to_exchange(&house, &own).await;
    assert_eq!((status, &answer["error"]), (401, &json!("invalid_client")));
    exchanges(&house, &heron).await;
    exchanges(&house, &again).await;

    let login = listed["items"].as_array().unwrap().iter().find(|item| item["client_id"] == "hermes-cli-vps");
    house.does(&["client", "revoke", login.unwrap()["id"].as_str().unwrap()]);
    let (status, answer) = refreshes(&house, heron["refresh_token"].as_str().unwrap()).await;
    assert_eq!((status, &answer["error"]), (400, &json!("invalid_grant")));
}
