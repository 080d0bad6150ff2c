//! Threads: an action names the chat that it is permitted for, and may name a thread of that chat only.

use std::time::Duration;

use edge::platform::{Platform, StoredMedia};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::action::{MediaKind, Metadata, PromptKind, PromptOption, RenameGuard};
use posthouse_wire::{Action, MediaId, Outcome};
use relay::{MEDIA_LIFE, NewMedia};
use serde_json::json;
use stand_ins::discord::Settings;

use super::actors::{CHANNEL, Feed, Fixture, error, open, open_on_wall_time, send};

const FOREIGN_CHANNEL: &str = "920";
const FOREIGN_THREAD: &str = "921";

/// The same bot is in a server of another tenant.
async fn open_on_two_servers() -> Fixture {
    let fixture = open_on_wall_time().await;
    let guild = json!({"id": "901", "name": "Umbrella", "channels": [{"id": FOREIGN_CHANNEL, "name": "secrets"},
        {"id": FOREIGN_THREAD, "type": 11, "name": "plans", "parent_id": FOREIGN_CHANNEL}]});
    fixture.stand_in.add_guild(serde_json::from_value(guild).unwrap());
    fixture
}

/// The actions that go to a thread.
fn actions(chat: &str, thread: &str, message: &str) -> Vec<Action> {
    let metadata = Metadata { thread_id: Some(thread.into()), ..Metadata::default() };
    let options = vec![PromptOption { id: "yes".into(), label: "Yes".to_owned(), style: None }];
    vec![
        Action::Send {
            chat_id: chat.into(),
            content: "psst".to_owned(),
            reply_to: None,
            metadata: metadata.clone(),
        },
        Action::Edit {
            chat_id: chat.into(),
            message_id: message.into(),
            content: "psst".to_owned(),
            metadata: metadata.clone(),
        },
        Action::Typing { chat_id: chat.into(), content: None, metadata: metadata.clone() },
        Action::React {
            chat_id: chat.into(),
            message_id: message.into(),
            emoji: "✅".to_owned(),
            remove: false,
            metadata: metadata.clone(),
        },
        Action::Prompt {
            chat_id: chat.into(),
            prompt_kind: PromptKind::Choice,
            prompt_id: "p1".into(),
            content: "psst?".to_owned(),
            options,
            reply_to: None,
            metadata,
        },
    ]
}

fn rename(chat: &str, thread: &str) -> Action {
    Action::ThreadRename {
        chat_id: chat.into(),
        thread_id: thread.into(),
        thread_name: "psst".to_owned(),
        guard: RenameGuard::default(),
        metadata: Metadata::default(),
    }
}

async fn sends_file(fixture: &Fixture, thread: &str) -> Outcome {
    let store = fixture.server.relay.media().clone();
    let mut writer = store.begin(&"ten_1".into(), &fixture.server.agent, None).await.unwrap();
    writer.write("psst".into()).await.unwrap();
    let filename = Some("psst.txt".to_owned());
    let new = NewMedia { id: MediaId::mint(), mime: None, filename, life: MEDIA_LIFE };
    let media = StoredMedia { store, record: writer.keep(new).await.unwrap() };
    let action = Action::SendMedia {
        chat_id: CHANNEL.into(),
        media_kind: MediaKind::Document,
        source_url: "https://anywhere.example/relay/media/x".to_owned(),
        content: None,
        filename: None,
        reply_to: None,
        metadata: Metadata { thread_id: Some(thread.into()), ..Metadata::default() },
    };
    fixture.discord.send_media(&fixture.bot, fixture.order(action), media).await.outcome
}

#[tokio::test]
async fn an_action_that_names_a_channel_outside_its_chat_is_declined_and_not_carried_out() {
    for knows_servers in [false, true] {
        let fixture = open_on_two_servers().await;
        let feed = match knows_servers {
            true => {
                let feed = Feed::start(&fixture);
                fixture.connected().await;
                fixture.says_until_heard("the servers are known now").await;
                Some(feed)
            }
            false => None,
        };
        let declined = Outcome::egress_declined("discord");
        let mut targets = Vec::new();
        for channel in [FOREIGN_CHANNEL, FOREIGN_THREAD] {
            let message = fixture.outcome(send(channel, "hello")).await.message_id.unwrap();
            targets.push((channel, message));
        }
        // Another channel of the same server, one that does not exist, and what is no id.
        targets.extend(["912", "404404", "../users/@me"].map(|channel| (channel, "5".into())));
        for (channel, message) in &targets {
            let actions = actions(CHANNEL, channel, message.as_str());
            for action in actions.into_iter().chain([rename(CHANNEL, channel)]) {
                let outcome = fixture.outcome(action.clone()).await;
                assert_eq!(outcome, declined, "{channel}: {action:?}");
            }
            assert_eq!(sends_file(&fixture, channel).await, declined, "{channel}");
        }
        for channel in [FOREIGN_CHANNEL, FOREIGN_THREAD] {
            let filter = serde_json::from_value(json!({"chat": channel})).unwrap();
            let rows = fixture.stand_in.transcript(&filter);
            assert!(rows.iter().all(|row| row.text.as_deref() == Some("hello")), "{rows:?}");
        }
        if let Some(feed) = feed {
            feed.stop().await;
        }
    }
}

#[tokio::test]
async fn an_action_in_a_thread_of_its_chat_is_carried_out() {
    let fixture = open_on_two_servers().await;
    for chat in [CHANNEL, "911"] {
        let message = fixture.outcome(send("911", "hello")).await.message_id.unwrap();
        for action in actions(chat, "911", message.as_str()) {
            let outcome = fixture.outcome(action.clone()).await;
            assert!(outcome.success, "{action:?}: {outcome:?}");
        }
    }
    assert!(sends_file(&fixture, "911").await.success);
}

#[tokio::test]
async fn a_channel_that_is_no_thread_is_never_renamed() {
    let fixture = open_on_two_servers().await;
    let outcome = fixture.outcome(rename(CHANNEL, CHANNEL)).await;
    assert_eq!(outcome, Outcome::egress_declined("discord"));
    let info = fixture.outcome(Action::GetChatInfo { chat_id: CHANNEL.into() }).await;
    assert_eq!(info.chat_info.unwrap().name, "general");
}

#[tokio::test]
async fn calls_that_discord_forbids_are_made_a_few_times_in_a_minute() {
    let fixture = open(Timepiece::wound(Moment::from_seconds(1_765_000_000)), Settings::default()).await;
    let channels: Vec<_> = (0..20).map(|number| json!({"id": (960 + number).to_string()})).collect();
    let guild = json!({"id": "903", "name": "Without the bot", "bots": [], "channels": channels});
    fixture.stand_in.add_guild(serde_json::from_value(guild).unwrap());
    let refusals = || fixture.stand_in.refusals(&Default::default()).len();
    for _ in 0..20 {
        assert!(error(&fixture.outcome(send("960", "x")).await).starts_with("forbidden"));
    }
    assert_eq!(refusals(), 5);
    fixture.clock.wind(Duration::from_secs(61));
    assert!(error(&fixture.outcome(send("960", "x")).await).starts_with("forbidden"));
    assert_eq!(refusals(), 6);
    // An agent guesses ids of threads.
    for number in 0..20 {
        let outcome = fixture.outcome(rename(CHANNEL, &(960 + number).to_string())).await;
        assert_eq!(outcome, Outcome::egress_declined("discord"));
    }
    assert_eq!(refusals(), 11);
}
