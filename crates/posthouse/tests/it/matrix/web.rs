//! Permission matrix of the chat page: rooms and agents of other people.

use serde_json::{Value, json};

use super::actors::{Actors, RecordedResponse};
use super::doors::{self, DoorRequest, DoorRow, Probe, WrongCaller, asks};
use super::{Cells, Name};

/// Ana has a room with heron. The others have a session of their own.
struct Visitors {
    ana: WrongCaller,
    room: Name,
    /// A file in that room.
    file: Name,
    used_link: Name,
    withdrawn_link: Name,
    /// Invited, but not to heron.
    elsewhere: Vec<WrongCaller>,
    /// Invited to heron too, with a room of their own.
    same_agent: WrongCaller,
    /// Without a session, or with one that has ended.
    uninvited: Vec<WrongCaller>,
}

/// The secret of the link that a command printed.
pub fn link(made: &Value) -> String {
    made["url"].as_str().unwrap().split_once("#invite=").unwrap().1.to_owned()
}

/// A session, by its cookie.
pub async fn signs_in(actors: &Actors, who: &str, secret: &str) -> WrongCaller {
    let url = format!("{}/chat/api/session", actors.server.url);
    let body = json!({ "secret": secret }).to_string();
    let request = reqwest::Client::new().post(url).header("origin", &actors.server.url).body(body);
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 200, "{who}");
    let cookie = answer.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap();
    WrongCaller::new(who, &[("origin", &actors.server.url), ("cookie", cookie)])
}

impl Visitors {
    async fn make(actors: &Actors) -> Self {
        let invites = |person: &str, tenant: &str, more: &[&str]| {
            let words = ["invite", "create", person, "--tenant", tenant];
            link(&actors.server.does(&[&words[..], more].concat()))
        };
        let used = invites("ana", "acme", &["--agent", "heron"]);
        let ana = signs_in(actors, "ana", &used).await;
        let bob =
            signs_in(actors, "bob of acme, for wren", &invites("bob", "acme", &["--agent", "wren"])).await;
        let carol =
            signs_in(actors, "carol of acme, for heron", &invites("carol", "acme", &["--agent", "heron"]))
                .await;
        let ivan = signs_in(actors, "ivan of umbrella", &invites("ivan", "umbrella", &[])).await;
        let dave = signs_in(actors, "dave, withdrawn", &invites("dave", "acme", &["--agent", "heron"])).await;
        let withdrawn = link(&actors.server.does(&["invite", "link", "dave"]));
        actors.server.does(&["invite", "remove", "dave"]);
        let enters = DoorRequest::to("/chat/api/rooms").json(&json!({ "agent": actors.instance.there }));
        let room = actors.sends(&ana, "POST", &enters).await.json()["room"].as_str().unwrap().to_owned();
        let stored = actors.sends(&ana, "POST", &uploads(&room)).await;
        assert_eq!(stored.status, 200, "{}", stored.whole());
        let file = stored.json()["media_id"].as_str().unwrap().to_owned();
        let origin = ("origin", actors.server.url.as_str());
        let cookie = ana.headers.iter().find(|(name, _)| *name == "cookie").unwrap();
        let guess = format!("{}=guess", cookie.1.split_once('=').unwrap().0);
        Self {
            file: Name::new(&file, &"0".repeat(32)),
            room: Name::of_id(&room),
            used_link: Name::of_id(&used),
            withdrawn_link: Name::of_id(&withdrawn),
            elsewhere: vec![bob, ivan],
            same_agent: carol,
            uninvited: vec![
                dave,
                WrongCaller::new("nobody", &[origin]),
                WrongCaller::new("a guessed session", &[origin, ("cookie", &guess)]),
                WrongCaller::new("acme's program", &[origin, ("authorization", "Bearer guess")]),
            ],
            ana,
        }
    }

    fn everybody_else(&self) -> Vec<WrongCaller> {
        [&self.elsewhere[..], std::slice::from_ref(&self.same_agent), &self.uninvited].concat()
    }
}

fn row(actors: &Actors, visitors: &Visitors, method: &str, at: &str) -> Option<DoorRow> {
    let is_absent: fn(&RecordedResponse) -> bool = |heard| heard.status == 404;
    let is_uninvited: fn(&RecordedResponse) -> bool = |heard| heard.status == 401;
    let of_room = |request: Box<dyn Fn(&str) -> DoorRequest>| {
        asks([Probe::new(&visitors.room, request)
            .refused_to(&visitors.elsewhere, is_absent)
            .refused_to(std::slice::from_ref(&visitors.same_agent), is_absent)
            .refused_to(&visitors.uninvited, is_uninvited)])
    };
    match (method, at) {
        ("GET", "/" | "/chat" | "/chat/" | "/chat/{asset}") => Some(DoorRow::Public),
        ("POST", "/chat/api/session") => {
            let redeems =
                |secret: &str| DoorRequest::to("/chat/api/session").json(&json!({ "secret": secret }));
            let probe = |link: &Name| {
                Probe::new(link, redeems).refused_to(&visitors.everybody_else(), |heard| heard.status == 403)
            };
            asks([probe(&visitors.used_link), probe(&visitors.withdrawn_link)])
        }
        ("GET", "/chat/api/agents") => {
            let lists = Probe::new(&Name::new("", ""), |_| DoorRequest::to("/chat/api/agents"));
            asks([lists
                .refused_to(&visitors.elsewhere, |heard| {
                    heard.status == 200 && !heard.body.contains(r#""heron""#)
                })
                .refused_to(&visitors.uninvited, is_uninvited)])
        }
        ("POST", "/chat/api/agents") => {
            let makes = |name: &str| DoorRequest::to("/chat/api/agents").json(&json!({ "name": name }));
            let probe = Probe::new(&actors.agent, makes).refused_to(&visitors.elsewhere, is_absent);
            asks([probe.refused_to(&visitors.uninvited, is_uninvited)])
        }
        ("POST", "/chat/api/rooms") => {
            let enters = |agent: &str| DoorRequest::to("/chat/api/rooms").json(&json!({ "agent": agent }));
            let probe = Probe::new(&actors.instance, enters).exists_for(&visitors.ana);
            asks([probe
                .refused_to(&visitors.elsewhere, is_absent)
                .refused_to(&visitors.uninvited, is_uninvited)])
        }
        ("GET", "/chat/api/rooms/{room}/stream") => {
            of_room(Box::new(|room| DoorRequest::to(&format!("/chat/api/rooms/{room}/stream"))))
        }
        ("POST", "/chat/api/rooms/{room}/messages") => of_room(Box::new(|room| {
            let message = json!({ "text": "psst", "nonce": "probe-0001" });
            DoorRequest::to(&format!("/chat/api/rooms/{room}/messages")).json(&message)
        })),
        ("POST", "/chat/api/rooms/{room}/presses") => of_room(Box::new(|room| {
            let press = json!({ "message_id": "w1", "option_id": "once" });
            DoorRequest::to(&format!("/chat/api/rooms/{room}/presses")).json(&press)
        })),
        ("POST", "/chat/api/rooms/{room}/files") => of_room(Box::new(uploads)),
        ("GET", "/chat/api/rooms/{room}/files/{file}") => {
            let room = visitors.room.there.clone();
            let gets = move |file: &str| DoorRequest::to(&format!("/chat/api/rooms/{room}/files/{file}"));
            asks([Probe::new(&visitors.file, gets)
                .exists_for(&visitors.ana)
                .refused_to(&visitors.elsewhere, is_absent)
                .refused_to(std::slice::from_ref(&visitors.same_agent), is_absent)
                .refused_to(&visitors.uninvited, is_uninvited)])
        }
        ("POST", "/chat/api/stop") => {
            of_room(Box::new(|room| DoorRequest::to("/chat/api/stop").json(&json!({ "room": room }))))
        }
        _ => None,
    }
}

fn uploads(room: &str) -> DoorRequest {
    let path = format!("/chat/api/rooms/{room}/files");
    DoorRequest { body: Some("a file".to_owned()), ..DoorRequest::to(&path) }
}

pub async fn fill(actors: &mut Actors, cells: &mut Cells) {
    let visitors = Visitors::make(actors).await;
    doors::fill(actors, cells, "web", edge::web::OPERATIONS, |method, at| row(actors, &visitors, method, at))
        .await;
    // What others wrote in ana's room would have arrived before this.
    let said = json!({ "text": "written by ana", "nonce": "ana-00001" });
    let says = DoorRequest::to(&format!("/chat/api/rooms/{}/messages", visitors.room.there)).json(&said);
    let heard = actors.sends(&visitors.ana, "POST", &says).await;
    assert_eq!(heard.status, 200, "{}", heard.whole());
    assert_eq!(actors.heron_rides.hears().await.event.text, "written by ana");
}
