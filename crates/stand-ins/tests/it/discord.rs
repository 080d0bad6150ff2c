//! Discord stand-in: HTTP API, interactions, limits.

use serde_json::{Value, json};
use stand_ins::{
    discord::{
        DiscordBot, DiscordInjection, DiscordLimits, DiscordPerson, DiscordPlace, DiscordStandIn, Settings,
    },
    harness::{CallFault, CallFaultKind, RowFilter},
};

use crate::{
    actors::{LONG, http},
    vectors::recorded,
};

pub const TOKEN: &str = "canary-token";

pub fn settings() -> Settings {
    Settings { bots: vec![DiscordBot::new("42", TOKEN, "posty")], ..Settings::default() }
}

pub async fn discord() -> DiscordStandIn {
    DiscordStandIn::start(settings()).await.unwrap()
}

/// A call with the bot's token. Returns status, headers and body.
pub async fn call(
    discord: &DiscordStandIn,
    method: &str,
    path: &str,
    body: Value,
) -> (u16, http::HeaderMap, Value) {
    let request = http()
        .request(method.parse().unwrap(), format!("{}{path}", discord.api_url()))
        .header("authorization", format!("Bot {TOKEN}"))
        .header("user-agent", "DiscordBot (https://posthouse.example, 1)")
        .json(&body);
    let answer = request.send().await.unwrap();
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    (status, headers, answer.json().await.unwrap_or_default())
}

fn says(text: &str) -> DiscordInjection {
    DiscordInjection::message(DiscordPerson::new("77", "ana"), DiscordPlace::channel("900", "901"), text)
}

#[tokio::test]
async fn vectors_of_interactions_have_the_key_of_their_seed() {
    let vectors = recorded("platforms/verify_discord.json");
    let seed = hex::decode(vectors["signing_seed_hex"].as_str().unwrap()).unwrap();
    let mut settings = settings();
    settings.bots[0].signing_seed = Some(seed.try_into().unwrap());
    let discord = DiscordStandIn::start(settings).await.unwrap();
    assert_eq!(json!(discord.public_key("42")), vectors["config"]["public_key_hex"]);
}

#[tokio::test]
async fn a_repeated_nonce_sends_one_message() {
    let discord = discord().await;
    discord.inject(says("hi")).unwrap();
    let body = json!({"content": "once", "nonce": "n1", "enforce_nonce": true});
    let (_, _, first) = call(&discord, "POST", "/channels/901/messages", body.clone()).await;
    let (_, _, second) = call(&discord, "POST", "/channels/901/messages", body).await;
    assert_eq!(first["id"], second["id"]);
    assert_eq!(discord.transcript(&RowFilter::sent("901")).len(), 1);
}

#[tokio::test]
async fn a_full_bucket_is_told_in_headers_and_empties_with_time() {
    let limits = DiscordLimits { messages_per_5_seconds: 2, ..DiscordLimits::default() };
    let discord = DiscordStandIn::start(Settings { limits: Some(limits), ..settings() }).await.unwrap();
    discord.inject(says("hi")).unwrap();
    let send = || call(&discord, "POST", "/channels/901/messages", json!({"content": "x"}));
    let (_, headers, _) = send().await;
    assert_eq!(
        (&headers["x-ratelimit-limit"], &headers["x-ratelimit-remaining"]),
        (&"2".parse().unwrap(), &"1".parse().unwrap())
    );
    send().await;
    let (status, headers, body) = send().await;
    assert_eq!(
        (status, &body["global"], &headers["x-ratelimit-scope"]),
        (429, &json!(false), &"user".parse().unwrap())
    );
    assert!(body["retry_after"].as_f64().unwrap() > 0.0);
    assert!(headers.contains_key("retry-after"));
    discord.advance(std::time::Duration::from_secs(5));
    assert_eq!(send().await.0, 200);
}

#[tokio::test]
async fn a_call_without_the_user_agent_of_a_bot_or_without_a_token_is_refused() {
    let discord = discord().await;
    let url = format!("{}/users/@me", discord.api_url());
    let request = http().get(&url).header("authorization", format!("Bot {TOKEN}"));
    assert_eq!(request.send().await.unwrap().status(), 403);
    let request =
        http().get(&url).header("user-agent", "DiscordBot (x, 1)").header("authorization", "Bot wrong");
    assert_eq!(request.send().await.unwrap().status(), 401);
}

#[tokio::test]
async fn faults_apply_to_the_call_and_channel_that_they_name() {
    let discord = discord().await;
    discord.inject(says("hi")).unwrap();
    let fault = CallFault::new(CallFaultKind::TooManyRequests { retry_after: 1.5, global: true });
    let fault = discord.fault(fault.on("POST /channels/{channel}/messages").in_chat("901"));
    assert_eq!(call(&discord, "GET", "/channels/901", Value::Null).await.0, 200);
    let (status, headers, body) =
        call(&discord, "POST", "/channels/901/messages", json!({"content": "x"})).await;
    assert_eq!((status, &body["retry_after"], &body["global"]), (429, &json!(1.5), &json!(true)));
    assert_eq!(headers["retry-after"], "2");
    assert_eq!(discord.struck(fault), 1);
    discord.fault(CallFault::new(CallFaultKind::Hang));
    let (answer, ()) = tokio::join!(call(&discord, "GET", "/channels/901", Value::Null), async {
        assert!(discord.until(LONG, |discord| discord.hanging() == 1).await);
        discord.release();
    });
    assert_eq!(answer.0, 200);
}

#[tokio::test]
async fn an_unanswered_interaction_dies_after_three_seconds_and_a_token_after_fifteen_minutes() {
    let discord = discord().await;
    let command = |name: &str| {
        let command = json!({"do": "command", "name": name, "unregistered": true});
        discord.inject(serde_json::from_value(command).unwrap()).unwrap()
    };
    let path = |made: &Value| {
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        format!("/interactions/{}/{}/callback", text("interaction_id"), text("token"))
    };
    let late = command("late");
    discord.advance(std::time::Duration::from_secs(4));
    let (status, _, body) = call(&discord, "POST", &path(&late), json!({"type": 5})).await;
    assert_eq!((status, &body["code"]), (404, &json!(10062)));
    let made = command("ask");
    let follow_up = format!("/webhooks/42/{}", made["token"].as_str().unwrap());
    assert_eq!(call(&discord, "POST", &follow_up, json!({"content": "x"})).await.2["code"], 10015);
    assert_eq!(call(&discord, "POST", &path(&made), json!({"type": 5})).await.0, 204);
    let original = format!("{follow_up}/messages/@original");
    assert_eq!(call(&discord, "PATCH", &original, json!({"content": "done"})).await.2["content"], "done");
    discord.advance(std::time::Duration::from_secs(900));
    assert_eq!(call(&discord, "POST", &follow_up, json!({"content": "x"})).await.2["code"], 50027);
    let told = format!(
        "{:?}{:?}",
        discord.transcript(&RowFilter::default()),
        discord.refusals(&RowFilter::default())
    );
    assert!(!told.contains("canary") && !told.contains(made["token"].as_str().unwrap()));
}
