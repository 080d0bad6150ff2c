//! Permission matrix of an agent's socket: every action in a conversation with a program or a person, and every frame,
//! about objects of another agent.

use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::{SinkExt, StreamExt};
use posthouse_wire::action::{MediaKind, Metadata, PromptKind, PromptOption, RenameGuard};
use posthouse_wire::cron::Fired;
use posthouse_wire::frame::{Hello, Outbound};
use posthouse_wire::{Action, CorrelationId, FromGateway, MediaId, Source, session_key};
use serde_json::Value;
use stand_ins::telegram::{Filter, RowKind};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use super::actors::{Actors, gateway_token};
use super::doors::{DoorRequest, WrongCaller};
use super::pressed_button::AnasPage;
use super::{Cells, Name, shared_bot};
use crate::talk::PATIENCE;

/// The capability that the press of a button brings.
const REPLY_TOKEN: &str = "web.reply_token";

/// The rows of every variant of an enum, in one list. A variant without an arm does not compile, so a new frame or op
/// needs a row here.
macro_rules! rows_of_every {
    ($enum:ty: $($variant:pat => $rows:expr),+ $(,)?) => {{
        let _ = |every: &$enum| match every { $($variant => {}),+ };
        [$($rows),+].concat()
    }};
}

/// A conversation of heron, and the bot that has it.
struct Conversation {
    /// The question of a program, or the chat of a person.
    name: Name,
    bot: (&'static str, String),
    chat: fn(&str) -> String,
}

impl Conversation {
    /// Actions of every op in it, or in one that does not exist.
    fn actions(&self, is_there: bool) -> Vec<Action> {
        let name = self.name.form(is_there);
        let chat = (self.chat)(name);
        actions(&chat, &self.session(&chat), name)
    }

    /// The key under which stock gateways know it.
    fn session(&self, chat: &str) -> String {
        let source = Source {
            platform: self.bot.0.into(),
            chat_id: Some(chat.into()),
            chat_type: "dm".to_owned(),
            ..Source::default()
        };
        session_key::plausible(&source)[0].to_string()
    }
}

/// Actions of every op in another's conversation.
fn actions(chat: &str, session: &str, asked: &str) -> Vec<Action> {
    let chat_id = || chat.into();
    let content = || "I am heron".to_owned();
    // An SDK agent echoes the question's id, a stock one marks its answer.
    let echo = Metadata { correlation_id: Some(CorrelationId::from(asked)), ..Metadata::default() };
    let mark = Metadata { notify: Some(true), ..Metadata::default() };
    let said = || [Metadata::default(), echo.clone(), mark.clone()];
    let actions: Vec<Action> = rows_of_every! { Action:
        Action::Send { .. } => said()
            .map(|metadata| Action::Send { chat_id: chat_id(), content: content(), reply_to: None, metadata })
            .to_vec(),
        Action::Edit { .. } => said()
            .map(|metadata| Action::Edit {
                chat_id: chat_id(),
                message_id: "m-1".into(),
                content: content(),
                metadata,
            })
            .to_vec(),
        Action::Typing { .. } => {
            vec![Action::Typing { chat_id: chat_id(), content: None, metadata: Metadata::default() }]
        },
        Action::GetChatInfo { .. } => vec![Action::GetChatInfo { chat_id: chat_id() }],
        Action::FollowUp { .. } => ["interaction", REPLY_TOKEN]
            .into_iter()
            .flat_map(|kind| said().map(|metadata| Action::FollowUp {
                session_key: session.into(),
                kind: kind.into(),
                content: content(),
                metadata,
            }))
            .collect(),
        Action::SendMedia { .. } => said()
            .map(|metadata| Action::SendMedia {
                chat_id: chat_id(),
                media_kind: MediaKind::Document,
                source_url: "https://files.example/a.txt".to_owned(),
                content: Some(content()),
                filename: None,
                reply_to: None,
                metadata,
            })
            .to_vec(),
        Action::Prompt { .. } => said()
            .map(|metadata| Action::Prompt {
                chat_id: chat_id(),
                prompt_kind: PromptKind::Choice,
                prompt_id: "p1".into(),
                content: content(),
                options: vec![PromptOption { id: "yes".into(), label: "Yes".to_owned(), style: None }],
                reply_to: None,
                metadata,
            })
            .to_vec(),
        Action::React { .. } => vec![Action::React {
            chat_id: chat_id(),
            message_id: "m-1".into(),
            emoji: "👀".to_owned(),
            remove: false,
            metadata: Metadata::default(),
        }],
        Action::ThreadCreate { .. } => vec![Action::ThreadCreate {
            chat_id: chat_id(),
            thread_name: content(),
            message_id: None,
            metadata: Metadata::default(),
        }],
        Action::ThreadRename { .. } => vec![Action::ThreadRename {
            chat_id: chat_id(),
            thread_id: "t-1".into(),
            thread_name: content(),
            guard: RenameGuard::default(),
            metadata: Metadata::default(),
        }],
        Action::Draft { .. } => vec![Action::Draft {
            chat_id: chat_id(),
            draft_id: 1,
            content: content(),
            is_final: true,
            metadata: Metadata::default(),
        }],
        // Refused for its op, whatever it names.
        Action::Unsupported { .. } => Vec::new(),
    };
    let missing = Action::OPS.iter().find(|op| !actions.iter().any(|action| action.op() == **op));
    assert_eq!(missing, None, "this op has a row without an action");
    actions
}

fn session(asked: &str) -> String {
    format!("agent:main:post:dm:post-x-{asked}")
}

/// What a frame is about, and the frame itself by that name.
type About = (Name, fn(&str) -> FromGateway);

/// Frames of every kind about an object of another agent, with the name of the object.
fn frames(actors: &Actors) -> Vec<About> {
    let about = |name: &Name, frame: fn(&str) -> FromGateway| vec![(name.clone(), frame)];
    rows_of_every! { FromGateway:
        FromGateway::Hello(_) => [
            about(&actors.instance, |bot| hello("post", bot)),
            about(&actors.instance, |bot| hello("web", bot)),
            about(&Name::new("7001", "7009"), |bot| hello("telegram", bot)),
        ]
        .concat(),
        FromGateway::InboundAck { .. } => {
            about(&actors.entry, |entry| FromGateway::InboundAck { entry: entry.into() })
        },
        FromGateway::Interrupt { .. } => about(&actors.asked, |asked| FromGateway::Interrupt {
            session_key: session(asked).as_str().into(),
            reason: None,
        }),
        FromGateway::CronFired { .. } => about(&Name::new("f-heron", "f-robin"), |request| {
            FromGateway::CronFired { request_id: request.into(), status: 202, fired: Fired::Accepted }
        }),
        // Its actions have rows of their own.
        FromGateway::Outbound(_) => Vec::new(),
        // Names nothing.
        FromGateway::GoingIdle => Vec::new(),
    }
}

fn hello(platform: &str, bot: &str) -> FromGateway {
    FromGateway::Hello(Hello {
        platform: platform.into(),
        bot_id: bot.into(),
        client: None,
        window: None,
        fires: false,
        command_manifest: None,
    })
}

/// A request. [`says`] gives it its id.
fn asks(action: Action, bot: Option<(&str, &str)>) -> FromGateway {
    outbound("", action, bot)
}

fn outbound(id: &str, action: Action, bot: Option<(&str, &str)>) -> FromGateway {
    FromGateway::Outbound(Outbound {
        request_id: id.into(),
        action,
        platform: bot.map(|(platform, _)| platform.into()),
        bot_id: bot.map(|(_, bot)| bot.into()),
    })
}

/// Somebody who is not heron, with the credential and the bots that it has.
struct WrongAgent<'a> {
    who: &'static str,
    created: &'a Value,
    is_known: bool,
    /// The person whom it may write to on the shared bot.
    person: Option<i64>,
    bots: Vec<(&'static str, String)>,
}

impl<'a> WrongAgent<'a> {
    /// It is connected for the chat page and the shared bot.
    fn known(who: &'static str, created: &'a Value, person: i64) -> Self {
        let page = created["instance_id"].as_str().unwrap().to_owned();
        let bots = vec![("web", page), ("telegram", shared_bot::BOT.to_owned())];
        Self { who, created, is_known: true, person: Some(person), bots }
    }

    fn unknown(who: &'static str, created: &'a Value) -> Self {
        Self { who, created, is_known: false, person: None, bots: Vec::new() }
    }
}

/// A file, sent as a document.
fn sends_media(chat: &str, url: &str) -> Action {
    Action::SendMedia {
        chat_id: chat.into(),
        media_kind: MediaKind::Document,
        source_url: url.to_owned(),
        content: None,
        filename: None,
        reply_to: None,
        metadata: Metadata::default(),
    }
}

fn follows_up(session: &str) -> Action {
    let (session_key, kind) = (session.into(), REPLY_TOKEN.into());
    Action::FollowUp { session_key, kind, content: "thank you".to_owned(), metadata: Metadata::default() }
}

/// What bots did in Telegram after this row, as bot, chat and text.
fn done_after(actors: &Actors, row: u64) -> Vec<(i64, Option<i64>, Option<String>)> {
    let rows = actors.telegram.transcript(&Filter { after: Some(row), ..Filter::default() });
    let by_bots = rows.into_iter().filter(|row| row.kind != RowKind::Received);
    by_bots.map(|row| (row.bot, row.chat, row.text.clone())).collect()
}

pub async fn fill(actors: &mut Actors, cells: &mut Cells) {
    actors.share_a_bot().await;
    let page = AnasPage::open(actors).await;
    let heron = WrongCaller::bearer("heron", &gateway_token(&actors.heron));
    let upload = DoorRequest { body: Some("a file".to_owned()), ..DoorRequest::to("/relay/media") };
    let stored = actors.sends(&heron, "POST", &upload).await.json();
    let media = Name::new(stored["id"].as_str().unwrap(), MediaId::mint().as_str());
    let media_url = |id: &str| format!("{}/relay/media/{id}", actors.server.url);

    let person = Name::new("770077", "770078");
    crate::talk::says(&actors.telegram, 7001, 770_077, "hello heron");
    assert_eq!(actors.heron_rides.hears().await.event.text, "hello heron");
    let conversations = [
        Conversation {
            name: actors.asked.clone(),
            bot: ("post", "post".to_owned()),
            chat: |asked| format!("post-x-{asked}"),
        },
        Conversation { name: person, bot: ("telegram", "7001".to_owned()), chat: str::to_owned },
        Conversation {
            name: shared_bot::person(),
            bot: ("telegram", shared_bot::BOT.to_owned()),
            chat: str::to_owned,
        },
        Conversation {
            name: Name::of_id(&page.room),
            bot: ("web", actors.instance.there.clone()),
            chat: str::to_owned,
        },
    ];
    // The owner can use the conversations; otherwise the refusals would prove nothing.
    for conversation in &conversations {
        let (platform, bot) = &conversation.bot;
        for action in conversation.actions(true) {
            if let Action::GetChatInfo { .. } | Action::Typing { .. } = action {
                assert!(actors.heron_rides.asks(platform, bot, action.clone()).await.success, "{action:?}");
            }
        }
    }
    let herons_person = shared_bot::person().there;
    let sends = sends_media(&herons_person, &media_url(&media.there));
    assert!(actors.heron_rides.asks("telegram", shared_bot::BOT, sends).await.success);
    let before = actors.telegram.transcript(&Filter::default()).last().unwrap().seq;
    let shown_before = page.shows(actors).await;

    let mut stranger = actors.wren.clone();
    stranger["gateway_id"] = "gw-nobody".into();
    let mut guess = actors.heron.clone();
    guess["secret"] = "0".repeat(64).into();
    let mut otter = WrongAgent::known("an agent of umbrella", &actors.otter, shared_bot::OTTERS_PERSON);
    otter.bots.push(("telegram", "8001".to_owned()));
    let wrong = [
        WrongAgent::known("another agent of acme", &actors.wren, shared_bot::WRENS_PERSON),
        otter,
        WrongAgent::unknown("a revoked agent", &actors.finch),
        WrongAgent::unknown("a removed agent", &actors.gone),
        WrongAgent::unknown("an unknown agent", &stranger),
        WrongAgent::unknown("a guess at heron's secret", &guess),
    ];
    for agent in &wrong {
        let mut about: Vec<(String, Name, FromGateway, FromGateway)> = Vec::new();
        for conversation in &conversations {
            let name = &conversation.name;
            let own = agent.bots.iter().find(|(platform, _)| *platform == conversation.bot.0);
            for (there, absent) in conversation.actions(true).iter().zip(&conversation.actions(false)) {
                for bot in [Some(&conversation.bot), own, None] {
                    let bot = bot.map(|(platform, bot)| (*platform, bot.as_str()));
                    let frame = |action: &Action| asks(action.clone(), bot);
                    about.push((there.op().to_owned(), name.clone(), frame(there), frame(absent)));
                }
            }
        }
        // Heron's file, sent to a person of its own.
        if let Some(person) = agent.person {
            let frame = |id: &str| {
                let action = sends_media(&person.to_string(), &media_url(id));
                asks(action, Some(("telegram", shared_bot::BOT)))
            };
            let (there, absent) = (frame(&media.there), frame(&media.absent));
            about.push(("send_media of heron's file".to_owned(), media.clone(), there, absent));
        }
        for (name, frame) in frames(actors) {
            let (there, absent) = (frame(&name.there), frame(&name.absent));
            about.push((there.line(), name, there, absent));
        }
        let who = agent.who;
        if !agent.is_known {
            // A refused socket gets all frames at once, because repeated attempts are slowed down.
            let (there, absent): (Vec<_>, Vec<_>) =
                about.iter().map(|(_, _, there, absent)| (there.clone(), absent.clone())).unzip();
            let (there, absent) = (says(actors, agent, &there).await, says(actors, agent, &absent).await);
            for (what, ..) in about {
                let refused = there == "closed 4401 unauthorized";
                cells.cell("the socket", &format!("{what} by {who}"), refused, &there, &absent);
            }
            continue;
        }
        for (what, name, there, absent) in about {
            let there = name.without(true, &says(actors, agent, &[there]).await);
            let absent = name.without(false, &says(actors, agent, &[absent]).await);
            let refused = !there.contains(r#""success":true"#) && !there.contains("closed");
            cells.cell("the socket", &format!("{what} by {who}"), refused, &there, &absent);
        }
    }
    nothing_was_posted(actors, &wrong[..2], before).await;
    assert_eq!(page.shows(actors).await, shown_before, "somebody wrote to ana");
    // Nobody has spent heron's capability.
    let (session, bot) = (conversations[3].session(&page.room), actors.instance.there.clone());
    let answered = actors.heron_rides.asks("web", &bot, follows_up(&session)).await;
    assert!(answered.success, "{answered:?}");
    assert!(
        !actors.heron_rides.asks("web", &bot, follows_up(&session)).await.success,
        "it is good for one use"
    );
    assert_eq!(page.shows(actors).await, [&shown_before[..], &["thank you".to_owned()]].concat());
}

/// Every agent writes to its own person last. Whatever was posted in spite of a refusal would have come before.
async fn nothing_was_posted(actors: &Actors, known: &[WrongAgent<'_>], after: u64) {
    let mut expected = Vec::new();
    for agent in known {
        let chat = agent.person.unwrap();
        let marker = message(&chat.to_string(), "the last message");
        let heard = says(actors, agent, &[asks(marker, Some(("telegram", shared_bot::BOT)))]).await;
        assert!(heard.contains(r#""success":true"#), "{}: {heard}", agent.who);
        expected.push((6001, Some(chat), Some("the last message".to_owned())));
    }
    for (bot, chat) in [(6001, shared_bot::HERONS_PERSON), (7001, 770_077)] {
        let marker = message(&chat.to_string(), "the last message");
        assert!(actors.heron_rides.asks("telegram", &bot.to_string(), marker).await.success);
        expected.push((bot, Some(chat), Some("the last message".to_owned())));
    }
    assert_eq!(done_after(actors, after), expected, "somebody wrote to others");
}

fn message(chat: &str, text: &str) -> Action {
    let metadata = Metadata::default();
    Action::Send { chat_id: chat.into(), content: text.to_owned(), reply_to: None, metadata }
}

/// All answers to these frames, up to the answer to a later request.
async fn says(actors: &Actors, agent: &WrongAgent<'_>, frames: &[FromGateway]) -> String {
    // The id of an earlier request would get that request's answer.
    static REQUESTS: AtomicU32 = AtomicU32::new(0);
    let id = format!("r-{}", REQUESTS.fetch_add(1, Ordering::Relaxed));
    let mut frames = frames.to_vec();
    for frame in &mut frames {
        if let FromGateway::Outbound(outbound) = frame {
            outbound.request_id = id.as_str().into();
        }
    }
    let address = actors.server.url.trim_start_matches("http://");
    let mut request = format!("ws://{address}/relay").into_client_request().unwrap();
    let bearer = format!("Bearer {}", gateway_token(agent.created));
    request.headers_mut().insert("authorization", bearer.parse().unwrap());
    request.headers_mut().insert("x-forwarded-for", actors.caller().parse().unwrap());
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
    let fence =
        outbound("fence", Action::GetChatInfo { chat_id: "post-fence".into() }, Some(("post", "post")));
    let hellos = agent.bots.iter().map(|(platform, bot)| hello(platform, bot));
    let hellos: Vec<FromGateway> = [hello("post", "post")].into_iter().chain(hellos).collect();
    for frame in hellos.iter().chain(&frames).chain([&fence]) {
        let _ = socket.send(Message::text(frame.line())).await;
    }
    let mut heard = Vec::new();
    loop {
        let next = tokio::time::timeout(PATIENCE, socket.next()).await.expect("nothing was heard");
        match next.expect("it ended without a word").unwrap() {
            Message::Text(line) if line.contains(r#""fence""#) => break,
            Message::Text(line) => heard.push(line.to_string()),
            Message::Close(close) => {
                let close = close.unwrap();
                return format!("closed {} {}", u16::from(close.code), close.reason);
            }
            _ => {}
        }
    }
    // Requests of different chats can be answered in any order.
    let asked = frames.iter().any(|frame| matches!(frame, FromGateway::Outbound(_)));
    let quoted = format!("{id:?}");
    if asked && !heard.iter().any(|line| line.contains(&quoted)) {
        let next = tokio::time::timeout(PATIENCE, socket.next()).await.expect("it was never answered");
        heard.push(next.unwrap().unwrap().into_text().unwrap().to_string());
    }
    heard.concat().replace(&quoted, "(the request)")
}
