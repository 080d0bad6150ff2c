//! Files of slash commands: fetched as soon as the command is stored, because their signed URLs end soon.

use std::sync::Arc;
use std::time::Duration;

use edge::platform::{Platform, VerifiedRequest};
use posthouse_time::{Moment, Timepiece};
use relay::{EARLY_MEDIA_LIFE, Egress, media_in_url};
use serde_json::{Value, json};
use stand_ins::discord::Settings;

use super::actors::{APPLICATION, CHANNEL, Fixture, GUILD, TOKEN, discord, open};

/// A file that Discord has, as a slash command describes it.
async fn file_at_discord(fixture: &Fixture, text: &str) -> Value {
    let file = json!({"name": "notes.txt", "content_type": "text/plain", "base64": text});
    let posted = fixture.inject(json!({"do": "message", "text": "a file to borrow", "files": [file],
        "in": {"guild_id": GUILD, "channel_id": CHANNEL}}));
    let path = format!("/channels/{CHANNEL}/messages/{}", posted["message_id"].as_str().unwrap());
    let request = reqwest::Client::new()
        .get(format!("{}{path}", fixture.stand_in.api_url()))
        .header("user-agent", "DiscordBot (https://example.org, 1)")
        .header("authorization", format!("Bot {TOKEN}"));
    let message: Value =
        serde_json::from_slice(&request.send().await.unwrap().bytes().await.unwrap()).unwrap();
    message["attachments"][0].clone()
}

/// Somebody uses a slash command with this file.
async fn reads(fixture: &Fixture, attachment: &Value) {
    let id = attachment["id"].as_str().unwrap();
    let interaction = json!({
        "id": format!("12{id}"), "application_id": APPLICATION, "type": 2, "token": "canary", "version": 1,
        "guild_id": GUILD, "channel_id": CHANNEL, "member": {"user": {"id": "77", "username": "ana"}},
        "data": {"id": "5", "type": 1, "name": "read", "options": [{"type": 11, "name": "what", "value": id}],
            "resolved": {"attachments": {id: attachment}}}});
    let mut verified = VerifiedRequest::fetched(interaction.to_string(), fixture.clock.now());
    verified.door = "/interactions".to_owned();
    let reading = fixture.discord.normalize(&fixture.bot, verified).unwrap();
    let (platform, bot): (Arc<dyn Platform>, _) =
        (Arc::new(fixture.discord.clone()), Arc::new(fixture.bot.clone()));
    let taken = fixture.server.intake().take(&platform, &bot, reading, None).await.unwrap();
    assert_eq!(taken.entries.len(), 1);
    let fetched = async {
        while !fixture.server.relay.tasks().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(super::actors::LONG, fetched).await.expect("the file is never fetched");
}

#[tokio::test]
async fn a_file_of_a_slash_command_outlives_its_url_and_a_restart_for_an_agent_that_sleeps() {
    let clock = Timepiece::wound(Moment::from_seconds(1_765_000_000));
    let fixture = open(clock.clone(), Settings::default()).await;
    let attachment = file_at_discord(&fixture, "aGVsbG8=").await;
    reads(&fixture, &attachment).await;

    // After a restart nobody knows the URL any more.
    let restarted = discord(&fixture.stand_in.api_url(), clock.clone());
    let edge = fixture.server.new_edge(&clock, vec![Arc::new(restarted)]);
    let store = fixture.server.relay.media();
    let mut writer = store.begin(&"ten_1".into(), &fixture.server.agent, None).await.unwrap();
    let reference = format!("discord:command-file:{}", attachment["id"].as_str().unwrap());
    assert!(edge.fetch_media(&fixture.bot.bot_ref(), &reference, &mut writer).await.is_err());
    drop(writer);

    clock.wind(Duration::from_secs(6 * 24 * 3600));
    let event = &fixture.events().await[0];
    let id = media_in_url(event.media[0].url.as_deref().unwrap()).unwrap();
    let record = store.find(&id).await.unwrap().expect("the file is here");
    assert_eq!((record.filename.as_str(), record.mime.as_str(), record.size), ("notes.txt", "text/plain", 5));
    let mut reader = store.open(&record).await.unwrap().unwrap();
    assert_eq!(reader.next().await.unwrap().unwrap(), "hello");
    clock.wind(EARLY_MEDIA_LIFE);
    assert!(store.find(&id).await.unwrap().is_none());
}

#[tokio::test]
async fn a_file_that_is_fetched_early_has_no_room_beyond_the_quota_of_its_tenant() {
    let fixture = open(Timepiece::wound(Moment::from_seconds(1_765_000_000)), Settings::default()).await;
    fixture.server.ledger.usage().set_media_limit(&"ten_1".into(), Some(7)).await.unwrap();
    for text in ["aGVsbG8=", "aGVsbG8y"] {
        let attachment = file_at_discord(&fixture, text).await;
        reads(&fixture, &attachment).await;
    }
    let mut found = Vec::new();
    for event in fixture.events().await {
        let id = media_in_url(event.media[0].url.as_deref().unwrap()).unwrap();
        found.push(fixture.server.relay.media().find(&id).await.unwrap().is_some());
    }
    assert_eq!(found, [true, false]);
}
