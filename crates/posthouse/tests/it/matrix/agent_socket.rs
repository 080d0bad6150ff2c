//! Permission matrix of an agent's socket: every action in a conversation with a program, and every frame,
//! about objects of another agent.

use futures_util::{SinkExt, StreamExt};
use posthouse_wire::action::{MediaKind, Metadata, PromptKind, PromptOption, RenameGuard};
use posthouse_wire::frame::{Hello, Outbound};
use posthouse_wire::{Action, CorrelationId, FromGateway};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use super::actors::{Actors, gateway_token};
use super::{Cells, Name};
use crate::talk::PATIENCE;

/// Every action of an op about a question in another's conversation.
fn actions(op: &str, asked: &str) -> Option<Vec<Action>> {
    let chat_id = || format!("post-x-{asked}").as_str().into();
    let content = || "I am heron".to_owned();
    // An SDK agent echoes the question's id, a stock one marks its answer.
    let echo = Metadata { correlation_id: Some(CorrelationId::from(asked)), ..Metadata::default() };
    let mark = Metadata { notify: Some(true), ..Metadata::default() };
    let said = [Metadata::default(), echo, mark];
    Some(match op {
        "send" => said
            .map(|metadata| Action::Send { chat_id: chat_id(), content: content(), reply_to: None, metadata })
            .into(),
        "edit" => said
            .map(|metadata| Action::Edit {
                chat_id: chat_id(),
                message_id: "m-1".into(),
                content: content(),
                metadata,
            })
            .into(),
        "typing" => {
            vec![Action::Typing { chat_id: chat_id(), content: None, metadata: Metadata::default() }]
        }
        "get_chat_info" => vec![Action::GetChatInfo { chat_id: chat_id() }],
        "follow_up" => said
            .map(|metadata| Action::FollowUp {
                session_key: session(asked).as_str().into(),
                kind: "interaction".into(),
                content: content(),
                metadata,
            })
            .into(),
        "send_media" => said
            .map(|metadata| Action::SendMedia {
                chat_id: chat_id(),
                media_kind: MediaKind::Document,
                source_url: "https://files.example/a.txt".to_owned(),
                content: Some(content()),
                filename: None,
                reply_to: None,
                metadata,
            })
            .into(),
        "prompt" => said
            .map(|metadata| Action::Prompt {
                chat_id: chat_id(),
                prompt_kind: PromptKind::Choice,
                prompt_id: "p1".into(),
                content: content(),
                options: vec![PromptOption { id: "yes".into(), label: "Yes".to_owned(), style: None }],
                reply_to: None,
                metadata,
            })
            .into(),
        "react" => vec![Action::React {
            chat_id: chat_id(),
            message_id: "m-1".into(),
            emoji: "👀".to_owned(),
            remove: false,
            metadata: Metadata::default(),
        }],
        "thread_create" => vec![Action::ThreadCreate {
            chat_id: chat_id(),
            thread_name: content(),
            message_id: None,
            metadata: Metadata::default(),
        }],
        "thread_rename" => vec![Action::ThreadRename {
            chat_id: chat_id(),
            thread_id: "t-1".into(),
            thread_name: content(),
            guard: RenameGuard::default(),
            metadata: Metadata::default(),
        }],
        "draft" => vec![Action::Draft {
            chat_id: chat_id(),
            draft_id: 1,
            content: content(),
            is_final: true,
            metadata: Metadata::default(),
        }],
        _ => return None,
    })
}

fn session(asked: &str) -> String {
    format!("agent:main:post:dm:post-x-{asked}")
}

/// What a frame is about, and the frame itself by that name.
type About = (Name, fn(&str) -> FromGateway);

/// A frame of every kind about an object of another agent, with the name of the object. The match has no
/// wildcard arm, so a new kind of frame needs a row before this compiles.
fn frames(actors: &Actors) -> Vec<About> {
    let about = |frame: &FromGateway| -> Option<About> {
        match frame {
            FromGateway::Hello(_) => Some((actors.instance.clone(), |bot| hello("post", bot))),
            FromGateway::InboundAck { .. } => {
                Some((actors.entry.clone(), |entry| FromGateway::InboundAck { entry: entry.into() }))
            }
            FromGateway::Interrupt { .. } => Some((actors.asked.clone(), |asked| FromGateway::Interrupt {
                session_key: session(asked).as_str().into(),
                reason: None,
            })),
            // Its actions have rows of their own; it names nothing; the post makes no fires.
            FromGateway::Outbound(_) | FromGateway::GoingIdle | FromGateway::CronFired { .. } => None,
        }
    };
    let kinds = [
        hello("post", "post"),
        FromGateway::InboundAck { entry: "".into() },
        FromGateway::Interrupt { session_key: "".into(), reason: None },
        FromGateway::GoingIdle,
    ];
    kinds.iter().filter_map(about).collect()
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

fn outbound(id: &str, action: Action, tagged: bool) -> FromGateway {
    FromGateway::Outbound(Outbound {
        request_id: id.into(),
        action,
        platform: tagged.then(|| "post".into()),
        bot_id: tagged.then(|| "post".into()),
    })
}

pub async fn fill(actors: &Actors, cells: &mut Cells) {
    // The owner can use the conversation; otherwise the refusals would prove nothing.
    for op in ["get_chat_info", "typing"] {
        for action in actions(op, &actors.asked.there).unwrap() {
            assert!(actors.heron_rides.asks("post", "post", action).await.success, "{op}");
        }
    }
    let mut stranger = actors.wren.clone();
    stranger["gateway_id"] = "gw-nobody".into();
    let mut guess = actors.heron.clone();
    guess["secret"] = "0".repeat(64).into();
    let owners: [(&str, &Value, bool); 5] = [
        ("another agent of acme", &actors.wren, true),
        ("an agent of umbrella", &actors.otter, true),
        ("a removed agent", &actors.gone, false),
        ("an unknown agent", &stranger, false),
        ("a guess at heron's secret", &guess, false),
    ];
    for (who, agent, is_known) in owners {
        let mut about: Vec<(String, Name, FromGateway, FromGateway)> = Vec::new();
        for op in Action::OPS {
            let rows = |asked: &str| {
                actions(op, asked).unwrap_or_else(|| panic!("op {op} has no row: what would it name?"))
            };
            for (there, absent) in rows(&actors.asked.there).into_iter().zip(rows(&actors.asked.absent)) {
                for tagged in [true, false] {
                    let frame = |action: &Action| outbound("r-1", action.clone(), tagged);
                    about.push((op.to_owned(), actors.asked.clone(), frame(&there), frame(&absent)));
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
    let fence = outbound("fence", Action::GetChatInfo { chat_id: "post-fence".into() }, true);
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
