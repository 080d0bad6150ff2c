//! Permission matrix of an agent's socket: every action in a conversation with a program or a person, and every frame,
//! about objects of another agent.

use futures_util::{SinkExt, StreamExt};
use posthouse_wire::action::{MediaKind, Metadata, PromptKind, PromptOption, RenameGuard};
use posthouse_wire::cron::Fired;
use posthouse_wire::frame::{Hello, Outbound};
use posthouse_wire::{Action, CorrelationId, FromGateway};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use super::actors::{Actors, gateway_token};
use super::{Cells, Name};
use crate::talk::PATIENCE;

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
    bot: (&'static str, &'static str),
    chat: fn(&str) -> String,
}

impl Conversation {
    /// Actions of every op in it, or in one that does not exist.
    fn actions(&self, is_there: bool) -> Vec<Action> {
        let name = self.name.form(is_there);
        let chat = (self.chat)(name);
        actions(&chat, &format!("agent:main:{}:dm:{chat}", self.bot.0), name)
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
        Action::FollowUp { .. } => said()
            .map(|metadata| Action::FollowUp {
                session_key: session.into(),
                kind: "interaction".into(),
                content: content(),
                metadata,
            })
            .to_vec(),
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

fn outbound(id: &str, action: Action, bot: Option<(&str, &str)>) -> FromGateway {
    FromGateway::Outbound(Outbound {
        request_id: id.into(),
        action,
        platform: bot.map(|(platform, _)| platform.into()),
        bot_id: bot.map(|(_, bot)| bot.into()),
    })
}

pub async fn fill(actors: &mut Actors, cells: &mut Cells) {
    let person = Name::new("770077", "770078");
    crate::talk::says(&actors.telegram, 7001, 770_077, "hello heron");
    assert_eq!(actors.heron_rides.hears().await.event.text, "hello heron");
    let conversations = [
        Conversation {
            name: actors.asked.clone(),
            bot: ("post", "post"),
            chat: |asked| format!("post-x-{asked}"),
        },
        Conversation { name: person, bot: ("telegram", "7001"), chat: str::to_owned },
    ];
    // The owner can use the conversations; otherwise the refusals would prove nothing.
    for conversation in &conversations {
        let (platform, bot) = conversation.bot;
        for action in conversation.actions(true) {
            if let Action::GetChatInfo { .. } | Action::Typing { .. } = action {
                assert!(actors.heron_rides.asks(platform, bot, action.clone()).await.success, "{action:?}");
            }
        }
    }
    let actors = &*actors;
    let mut stranger = actors.wren.clone();
    stranger["gateway_id"] = "gw-nobody".into();
    let mut guess = actors.heron.clone();
    guess["secret"] = "0".repeat(64).into();
    let owners: [(&str, &Value, bool); 6] = [
        ("another agent of acme", &actors.wren, true),
        ("an agent of umbrella", &actors.otter, true),
        ("a revoked agent", &actors.finch, false),
        ("a removed agent", &actors.gone, false),
        ("an unknown agent", &stranger, false),
        ("a guess at heron's secret", &guess, false),
    ];
    for (who, agent, is_known) in owners {
        let mut about: Vec<(String, Name, FromGateway, FromGateway)> = Vec::new();
        for conversation in &conversations {
            let name = &conversation.name;
            for (there, absent) in conversation.actions(true).iter().zip(&conversation.actions(false)) {
                for bot in [Some(conversation.bot), None] {
                    let frame = |action: &Action| outbound("r-1", action.clone(), bot);
                    about.push((there.op().to_owned(), name.clone(), frame(there), frame(absent)));
                }
            }
        }
        for (name, frame) in frames(actors) {
            let (there, absent) = (frame(&name.there), frame(&name.absent));
            about.push((there.line(), name, there, absent));
        }
        if !is_known {
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
}

/// All answers to these frames, up to the answer to a later request.
async fn says(actors: &Actors, agent: &Value, frames: &[FromGateway]) -> String {
    let address = actors.server.url.trim_start_matches("http://");
    let mut request = format!("ws://{address}/relay").into_client_request().unwrap();
    let bearer = format!("Bearer {}", gateway_token(agent));
    request.headers_mut().insert("authorization", bearer.parse().unwrap());
    request.headers_mut().insert("x-forwarded-for", actors.caller().parse().unwrap());
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
    let fence =
        outbound("fence", Action::GetChatInfo { chat_id: "post-fence".into() }, Some(("post", "post")));
    for frame in [&hello("post", "post")].into_iter().chain(frames).chain([&fence]) {
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
    if asked && !heard.iter().any(|line| line.contains(r#""r-1""#)) {
        let next = tokio::time::timeout(PATIENCE, socket.next()).await.expect("it was never answered");
        heard.push(next.unwrap().unwrap().into_text().unwrap().to_string());
    }
    heard.concat()
}
