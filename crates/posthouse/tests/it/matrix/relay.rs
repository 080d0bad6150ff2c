//! Permission matrix of the relay's HTTP operations. What an agent may do on its socket is in `agent_socket`.

use posthouse_wire::{GatewayId, MediaId, Secret, token};
use serde_json::{Value, json};

use super::actors::{Actors, RecordedResponse, gateway_token};
use super::doors::{self, DoorRequest, DoorRow, Probe, WrongCaller, asks, callers};
use super::{Cells, Name, shared_bot};

/// What belongs to heron at these doors, and who asks for it.
struct RelayThings {
    gateway: Name,
    enrolment_token: Name,
    /// A file that heron uploaded.
    media: Name,
    /// Secrets that do not belong to heron's gateway.
    wrong_secrets: Vec<(&'static str, String)>,
    /// Gateways that are known, each for its own agent.
    other_gateways: Vec<WrongCaller>,
    /// Gateways that were revoked or removed, or never existed, and credentials of another kind.
    no_gateways: Vec<WrongCaller>,
}

fn text(of: &Value, name: &str) -> String {
    of[name].as_str().unwrap().to_owned()
}

impl RelayThings {
    async fn make(actors: &Actors) -> Self {
        let words = ["enroll-token", "create", "--tenant", "acme", "--agent", "heron"];
        let made = actors.server.does(&words);
        let own = WrongCaller::bearer("heron", &gateway_token(&actors.heron));
        let stored = actors.sends(&own, "POST", &uploads()).await;
        assert_eq!(stored.status, 200, "{}", stored.whole());
        let stored = stored.json();
        let mut stranger = actors.wren.clone();
        stranger["gateway_id"] = "gw-nobody".into();
        let mut guess = actors.heron.clone();
        guess["secret"] = "0".repeat(64).into();
        let by = |who: &str, agent: &Value| WrongCaller::bearer(who, &gateway_token(agent));
        let mut no_gateways = vec![
            by("a revoked gateway", &actors.finch),
            by("the gateway of a removed agent", &actors.gone),
            by("an unknown gateway", &stranger),
            by("a guess at the secret of heron's gateway", &guess),
        ];
        no_gateways.extend(callers(&actors.ours));
        no_gateways.extend(callers(&actors.unknown));
        Self {
            gateway: Name::of_id(&text(&actors.heron, "gateway_id")),
            enrolment_token: Name::of_id(&text(&made, "token")),
            media: Name::new(&text(&stored, "id"), MediaId::mint().as_str()),
            wrong_secrets: vec![
                ("a guess", "0".repeat(64)),
                ("another agent of acme", text(&actors.wren, "secret")),
                ("an agent of umbrella", text(&actors.otter, "secret")),
                ("a revoked agent", text(&actors.finch, "secret")),
            ],
            other_gateways: vec![
                by("the gateway of another agent of acme", &actors.wren),
                by("the gateway of an agent of umbrella", &actors.otter),
            ],
            no_gateways,
        }
    }
}

/// A connection with a gateway's name and somebody else's secret. The upgrade is accepted and then closed, because
/// stock agents understand no other refusal; `agent_socket` reads the close code.
fn dials(gateway: &str, secret: &str) -> DoorRequest {
    let presented = token::mint(&GatewayId::new(gateway), &Secret::new(secret), 0, 0);
    DoorRequest::to("/relay")
        .with("authorization", &format!("Bearer {presented}"))
        .with("connection", "upgrade")
        .with("upgrade", "websocket")
        .with("sec-websocket-version", "13")
        .with("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
}

fn row(actors: &Actors, things: &RelayThings, method: &str, at: &str) -> Option<DoorRow> {
    let is_unauthorized: fn(&RecordedResponse) -> bool = |heard| heard.status == 401;
    let lost = callers(actors.revoked.iter().chain(&actors.unknown));
    match (method, at) {
        ("GET", "/relay") => {
            let probes = things.wrong_secrets.iter().map(|(who, secret)| {
                let (secret, by) = (secret.clone(), WrongCaller::new(&format!("{who}'s secret"), &[]));
                Probe::new(&things.gateway, move |gateway| dials(gateway, &secret))
                    .refused_to(&[by], |heard| heard.status == 101)
            });
            asks(probes.collect::<Vec<_>>())
        }
        ("POST", "/relay/enroll") => {
            let others = callers(actors.other_tenants.iter().chain(&actors.other_instances));
            let enrols = |token: &str| {
                DoorRequest::to("/relay/enroll")
                    .json(&json!({ "enrollmentToken": token, "gatewayId": "gw-probe" }))
            };
            asks([Probe::new(&things.enrolment_token, enrols)
                // A credential as HTTP Basic is not accepted here at all.
                .refused_to(&others, |heard| matches!(heard.status, 401 | 403))
                .refused_to(&lost, is_unauthorized)
                .refused_to(&things.other_gateways, is_unauthorized)])
        }
        ("POST", "/relay/policy") => {
            // The credential decides whose policy it is; members that name another agent are ignored.
            let declares = |name: &str| {
                DoorRequest::to("/relay/policy").json(&json!({
                    "platform": "telegram", "requireAddress": false, "freeResponseScopes": ["-1"],
                    "allowOtherBots": true, "instanceId": name, "gatewayId": name, "tenant": name,
                }))
            };
            let probe = |name: &Name| {
                Probe::new(name, declares)
                    .refused_to(&things.other_gateways, |heard| heard.body == r#"{"ok":true}"#)
                    .refused_to(&things.no_gateways, is_unauthorized)
            };
            asks([probe(&actors.instance), probe(&things.gateway)])
        }
        ("POST", "/relay/media") => {
            asks([Probe::new(&Name::new("", ""), |_| uploads())
                .refused_to(&things.no_gateways, is_unauthorized)])
        }
        ("GET", "/relay/media/{id}") => {
            let is_absent: fn(&RecordedResponse) -> bool = |heard| heard.status == 404;
            let own = WrongCaller::bearer("heron", &gateway_token(&actors.heron));
            let nobody = WrongCaller::new("nobody", &[]);
            let gets = |id: &str| DoorRequest::to(&format!("/relay/media/{id}"));
            let guesses = |id: &str| DoorRequest::to(&format!("/relay/media/{id}?k={}", "0".repeat(32)));
            asks([
                Probe::new(&things.media, gets)
                    .exists_for(&own)
                    .refused_to(&things.other_gateways, is_absent)
                    .refused_to(&things.no_gateways, is_absent)
                    .refused_to(std::slice::from_ref(&nobody), is_absent),
                Probe::new(&things.media, guesses)
                    .refused_to(&things.other_gateways, is_absent)
                    .refused_to(&[nobody], is_absent),
            ])
        }
        ("POST", "/relay/provision") => {
            let others = callers(actors.other_tenants.iter().chain(&actors.other_instances));
            let provisions = |instance: &str| {
                DoorRequest::to("/relay/provision").json(&json!({
                    "gatewayId": "gw-probe", "platform": "web", "botId": "", "gatewayEndpoint": "",
                    "routeKeys": [], "instanceId": instance,
                }))
            };
            asks([Probe::new(&actors.instance, provisions)
                .refused_to(&others, |heard| matches!(heard.status, 401 | 403))
                .refused_to(&lost, is_unauthorized)
                .refused_to(&things.other_gateways, is_unauthorized)])
        }
        ("POST", "/relay/sleep") => {
            // A server without an https address makes no token; `sleep` has real ones.
            let sleeps = |token: &str| DoorRequest::to(&format!("/relay/sleep?t={token}"));
            let (guess, other) = (format!("phz_{}", "0".repeat(64)), format!("phz_{}", "1".repeat(64)));
            asks([Probe::new(&Name::new(&guess, &other), sleeps)
                .refused_to(&[WrongCaller::new("nobody", &[])], |heard| heard.status == 404)
                .refused_to(&things.other_gateways, |heard| heard.status == 404)])
        }
        (_, at) if at.starts_with("/manage/") => manages(actors, things, at),
        _ => None,
    }
}

/// Operations about the caller itself. The credential decides whose they are; a body that names another agent is read
/// as if it did not. Heron has what these name: see `shared_bot`.
fn manages(actors: &Actors, things: &RelayThings, at: &str) -> Option<DoorRow> {
    let is_unauthorized: fn(&RecordedResponse) -> bool = |heard| heard.status == 401;
    let row = |name: &Name, member: &'static str, own: fn(&RecordedResponse) -> bool| {
        let path = at.to_owned();
        let asked = move |value: &str| {
            let mut body =
                json!({ "platform": "telegram", "userId": "7", "scopeId": "-100", "policy": "owner-only" });
            body[member] = value.into();
            DoorRequest::to(&path).json(&body)
        };
        Probe::new(name, asked)
            .refused_to(&things.other_gateways, own)
            .refused_to(&things.no_gateways, is_unauthorized)
    };
    let is_done: fn(&RecordedResponse) -> bool = |heard| heard.body == r#"{"ok":true}"#;
    let (person, group) = (shared_bot::person(), shared_bot::group());
    match at {
        "/manage/link" => asks([row(&actors.instance, "instanceId", |heard| heard.status == 200)
            .varying("code")
            .varying("expiresAt")
            .varying("instructions")]),
        "/manage/unlink" => asks([row(&person, "userId", is_done)]),
        "/manage/scope" => asks([row(&group, "scopeId", |heard| heard.status == 409)]),
        "/manage/scope/release" => asks([row(&group, "scopeId", is_done)]),
        "/manage/principal" => asks([row(&actors.instance, "instanceId", is_done)]),
        "/manage/dm-default" => asks([row(&person, "userId", |heard| heard.status == 404)]),
        // It ends its caller, so those who are a gateway ask in `deprovision`.
        "/manage/deprovision" => {
            let asked =
                |name: &str| DoorRequest::to("/manage/deprovision").json(&json!({ "instanceId": name }));
            asks([Probe::new(&actors.instance, asked).refused_to(&things.no_gateways, is_unauthorized)])
        }
        "/manage/status" => {
            let asked = |name: &str| DoorRequest::to(&format!("/manage/status?instanceId={name}"));
            asks([Probe::new(&actors.instance, asked)
                .refused_to(&things.other_gateways, is_nothing_of_herons)
                .refused_to(&things.no_gateways, is_unauthorized)])
        }
        _ => None,
    }
}

/// Whether a status shows an agent of its own: with one link and without a claim.
fn is_nothing_of_herons(heard: &RecordedResponse) -> bool {
    let (person, group) = (shared_bot::person().there, shared_bot::group().there);
    let status = heard.json();
    let links = status["bindings"].as_array().unwrap().len();
    heard.status == 200 && links == 1 && !heard.body.contains(&person) && !heard.body.contains(&group)
}

/// An agent that ends itself in the name of heron, and one that does so in the name of nobody.
async fn deprovision(actors: &Actors, cells: &mut Cells) {
    for tenant in ["acme", "umbrella"] {
        let mut heard = Vec::new();
        for is_there in [true, false] {
            let lark = actors.server.does(&["agent", "create", "lark", "--tenant", tenant]);
            let body = json!({ "instanceId": actors.instance.form(is_there) });
            heard.push(actors.manages(&lark, "POST", "/manage/deprovision", &body).await);
            let again = actors.manages(&lark, "POST", "/manage/deprovision", &body).await;
            assert_eq!(again.status, 401, "its own credential ended: {}", again.whole());
            actors.server.does(&["agent", "remove", "lark", "--tenant", tenant, "--yes"]);
        }
        let refused = heard[0].body == r#"{"bindingsRemoved":0,"ok":true}"#;
        let what = format!("POST /manage/deprovision about heron by an agent of {tenant}");
        cells.cell("relay", &what, refused, &heard[0].whole(), &heard[1].whole());
    }
}

fn uploads() -> DoorRequest {
    DoorRequest { body: Some("a file".to_owned()), ..DoorRequest::to("/relay/media") }
}

pub async fn fill(actors: &mut Actors, cells: &mut Cells) {
    actors.share_a_bot().await;
    let before = actors.status_of(&actors.heron).await;
    assert_eq!(
        (&before["scopes"][0]["live"], &before["bindings"][0]["dmDefault"]),
        (&json!(true), &json!(true))
    );
    let things = RelayThings::make(actors).await;
    doors::fill(actors, cells, "relay", relay::OPERATIONS, |method, at| row(actors, &things, method, at))
        .await;
    deprovision(actors, cells).await;
    is_undisturbed(actors, &things).await;
    // A code is the caller's, whatever agent its request names.
    actors.links(&actors.otter, 220_022, &json!({ "instanceId": actors.instance.there })).await;
    assert_eq!(actors.status_of(&actors.otter).await["bindings"].as_array().unwrap().len(), 2);
    assert_eq!(actors.status_of(&actors.heron).await, before);
    actors.still_shares_a_bot().await;
}

/// Heron has its own policy, and its token can still be used, once.
async fn is_undisturbed(actors: &Actors, things: &RelayThings) {
    let relevance =
        |agent: &str| actors.server.does(&["agent", "show", agent, "--tenant", "acme"])["relevance"].clone();
    assert_eq!(relevance("heron")[0]["free_scopes"], json!(["-7"]));
    assert_eq!(relevance("wren")[0]["free_scopes"], json!(["-1"]), "the caller's own policy");
    let body = json!({ "enrollmentToken": things.enrolment_token.there, "gatewayId": "gw-probe" });
    let heard = actors.asks(&actors.acme, "POST", "/relay/enroll", Some(&body), None).await;
    assert_eq!(heard.status, 200, "{}", heard.whole());
    let listed = actors.server.does(&["enroll-token", "list", "--tenant", "umbrella"]);
    assert_eq!(listed["items"], json!([]), "{listed}");
}
