//! Discord with the real binary: two platforms on one socket, two servers of one bot, and what stays secret.

use posthouse_agent::RelayTransport;
use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, Outcome};
use serde_json::{Value, json};
use stand_ins::discord::{DiscordBot, DiscordStandIn, Settings};

use crate::talk::{PATIENCE, Rider, is_told, make_bot, provide_crypto, says, telegram};
use crate::test_server::{TestServer, files};

const BOT: &str = "4001";
const TOKEN: &str = "CANARY.discord.token";

async fn discord() -> DiscordStandIn {
    provide_crypto();
    let bots = vec![DiscordBot::new(BOT, TOKEN, "posty")];
    let stand_in = DiscordStandIn::start(Settings { bots, ..Settings::default() }).await.unwrap();
    for (guild, name, channel) in [("900", "Acme", "910"), ("901", "Umbrella", "920")] {
        let guild = json!({"id": guild, "name": name, "channels": [{"id": channel, "name": "general"}],
            "members": [{"user": {"id": "77", "username": "ana"}}]});
        stand_in.add_guild(serde_json::from_value(guild).unwrap());
    }
    stand_in
}

/// A bot that is connected to the gateway.
async fn make_discord_bot(server: &TestServer, stand_in: &DiscordStandIn, more: &[&str]) -> Value {
    let token = server.secret_file("discord-token", TOKEN);
    let made = server.does(&[&["bot", "create", "discord", "--open", "--token-file", &token], more].concat());
    assert_eq!(made["delivery"], "socket");
    let connected = |stand_in: &DiscordStandIn| stand_in.sessions().iter().any(|session| session.connected);
    assert!(stand_in.until(PATIENCE, connected).await, "the bot is not connected");
    made
}

fn mention(stand_in: &DiscordStandIn, guild: &str, channel: &str, text: &str) {
    let text = format!("<@{BOT}> {text}");
    let what = json!({"do": "message", "text": text, "in": {"guild_id": guild, "channel_id": channel}});
    stand_in.inject(serde_json::from_value(what).unwrap()).unwrap();
}

fn sent(stand_in: &DiscordStandIn, channel: &str) -> Vec<String> {
    let filter = serde_json::from_value(json!({"chat": channel, "kind": "sent"})).unwrap();
    stand_in.transcript(&filter).into_iter().filter_map(|row| row.text).collect()
}

fn follow_up(session_key: &str, content: &str) -> Action {
    Action::FollowUp {
        session_key: session_key.into(),
        kind: "discord.interaction_token".into(),
        content: content.to_owned(),
        metadata: Metadata::default(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_leave_by_the_platform_that_the_message_came_from() {
    let (telegram, discord) = (telegram(&["7001:token@posty_bot"]).await, discord().await);
    let server = TestServer::open(&[
        ("POSTHOUSE_PLATFORMS__TELEGRAM__API_BASE_URL", &telegram.base_url()),
        ("POSTHOUSE_PLATFORMS__DISCORD__API_BASE_URL", &discord.api_url()),
    ]);
    server.does(&["tenant", "create", "acme"]);
    make_bot(&server, "7001", "7001:token", &[]);
    make_discord_bot(&server, &discord, &[]).await;
    let bots = ["--bot", "telegram:7001", "--bot", "discord:4001"];
    let heron = server.does(&[&["agent", "create", "heron", "--tenant", "acme"], &bots[..]].concat());
    let mut rider = Rider::dial(&server, &heron, &[("telegram", "7001"), ("discord", BOT)]).await;
    mention(&discord, "900", "910", "from Discord");
    let heard = rider.hears().await.event;
    assert_eq!((heard.text.as_str(), heard.source.scope_id.unwrap().as_str()), ("from Discord", "900"));
    assert!(rider.sends("discord", BOT, "910", "to Discord").await.success);
    says(&telegram, 7001, 5, "from Telegram");
    assert_eq!(rider.hears().await.event.text, "from Telegram");
    assert!(rider.sends("telegram", "7001", "5", "to Telegram").await.success);
    assert!(is_told(&telegram, 5, "to Telegram").await);
    assert_eq!(sent(&discord, "910"), ["to Discord"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_of_one_bot_never_meet() {
    let discord = discord().await;
    let server = TestServer::open(&[("POSTHOUSE_PLATFORMS__DISCORD__API_BASE_URL", &discord.api_url())]);
    make_discord_bot(&server, &discord, &["--shared"]).await;
    let mut riders = Vec::new();
    for (tenant, agent, guild) in [("acme", "heron", "900"), ("umbrella", "otter", "901")] {
        server.does(&["tenant", "create", tenant]);
        let made = server.does(&["agent", "create", agent, "--tenant", tenant]);
        server.does(&[
            "route",
            "create",
            "discord:4001",
            &format!("scope:{guild}"),
            agent,
            "--tenant",
            tenant,
        ]);
        riders.push(Rider::dial(&server, &made, &[("discord", BOT)]).await);
    }
    let command = |guild: &str, channel: &str, text: &str| {
        let what = json!({"do": "command", "name": "ask", "unregistered": true,
            "options": [{"name": "q", "type": 3, "value": text}], "in": {"guild_id": guild, "channel_id": channel}});
        discord.inject(serde_json::from_value(what).unwrap()).unwrap();
    };
    command("900", "910", "for heron");
    command("901", "920", "for otter");
    let [heron, otter] = &mut riders[..] else { panic!("two riders") };
    assert_eq!(heron.hears().await.event.text, "/ask for heron");
    assert_eq!(otter.hears().await.event.text, "/ask for otter", "and nothing before it");
    // Neither speaks in the other's server, nor with the other's interaction.
    assert!(!otter.sends("discord", BOT, "910", "psst").await.success);
    let declined = otter.sends("discord", BOT, "910", "psst").await;
    for (chat, thread) in [("920", "910"), ("920", "404404")] {
        let named = Action::Send {
            chat_id: chat.into(),
            content: "psst".to_owned(),
            reply_to: None,
            metadata: Metadata { thread_id: Some(thread.into()), ..Metadata::default() },
        };
        assert_eq!(otter.asks("discord", BOT, named).await, declined, "its own chat with a foreign channel");
    }
    let of_heron = "agent:main:discord:group:910:77";
    assert_eq!(
        otter.asks("discord", BOT, follow_up(of_heron, "psst")).await.error,
        Outcome::no_capability().error
    );
    assert!(heron.asks("discord", BOT, follow_up(of_heron, "an answer")).await.success);
    assert!(heron.sends("discord", BOT, "910", "a message").await.success);
    assert!(!sent(&discord, "910").contains(&"psst".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_token_of_discord_is_in_any_frame_log_trace_or_file() {
    let discord = discord().await;
    let mut server = TestServer::open(&[
        ("POSTHOUSE_PLATFORMS__DISCORD__API_BASE_URL", &discord.api_url()),
        ("POSTHOUSE_LOG__LEVEL", "trace"),
    ]);
    server.does(&["tenant", "create", "acme"]);
    let mut answers = vec![make_discord_bot(&server, &discord, &[]).await.to_string()];
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme", "--bot", "discord:4001"]);
    let mut rider = Rider::dial(&server, &heron, &[("discord", BOT)]).await;
    let what = json!({"do": "command", "name": "ask", "unregistered": true, "in": {"guild_id": "900", "channel_id": "910"}});
    discord.inject(serde_json::from_value(what).unwrap()).unwrap();
    let heard = rider.hears().await;
    answers.push(format!("{:?} {}", heard.event, serde_json::to_string(&heard.event).unwrap()));
    answers.push(format!(
        "{:?}",
        rider.asks("discord", BOT, follow_up("agent:main:discord:group:910:77", "yes")).await
    ));
    answers.push(format!("{:?}", rider.sends("discord", BOT, "404404", "nobody").await));
    let entry = heard.entry.unwrap().to_string();
    for words in [vec!["message", "trace", &entry], vec!["bot", "show", "discord:4001"], vec!["bot", "list"]]
    {
        let output = server.tries(&words);
        answers.push(format!("{output:?}"));
    }
    rider.transport.disconnect().await;
    assert!(server.stop(), "a clean stop exits 0");
    let log = server.log.lock().unwrap().clone();
    assert!(log.contains("discord"), "the log was meant to be talkative");
    // The stand-in's interaction tokens begin with these words.
    for canary in [TOKEN, "interaction-token"] {
        assert!(!log.contains(canary), "in the log: {:?}", log.lines().find(|line| line.contains(canary)));
        for answer in &answers {
            assert!(!answer.contains(canary), "in an answer: {answer}");
        }
        for (path, bytes) in files(&server.folder()) {
            let holds = bytes.windows(canary.len()).any(|window| window == canary.as_bytes());
            assert!(!holds, "in {}", path.display());
        }
    }
}
