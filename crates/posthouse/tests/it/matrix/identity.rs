//! Permission matrix of the token endpoints: credentials that belong to somebody else or have ended.

use serde_json::Value;

use super::actors::{Actors, RecordedResponse};
use super::doors::{self, DoorRequest, DoorRow, Probe, WrongCaller, asks};
use super::{Cells, Name};
use crate::tokens::{exchanges, refreshes};

fn text(of: &Value, name: &str) -> String {
    of[name].as_str().unwrap().to_owned()
}

fn refresh_token(agent: &Value) -> String {
    text(&agent["auth"]["providers"]["nous"], "refresh_token")
}

fn row(actors: &Actors, method: &str, at: &str) -> Option<DoorRow> {
    let anybody = [WrongCaller::new("anybody", &[])];
    match (method, at) {
        ("POST", "/oauth/token") => {
            let wrong: fn(&RecordedResponse) -> bool =
                |heard| heard.status == 401 && heard.json()["error"] == "invalid_client";
            let secrets = [
                ("a guess", "guess".to_owned()),
                ("another agent of acme", text(&actors.wren, "client_secret")),
                ("an agent of umbrella", text(&actors.otter, "client_secret")),
                ("umbrella's program", text(&actors.umbrella_client, "client_secret")),
                ("a revoked program", text(&actors.revoked_client, "client_secret")),
                ("a revoked agent", text(&actors.finch, "client_secret")),
                ("a removed agent", text(&actors.gone, "client_secret")),
            ];
            // Heron's client exists and its secret is another; the others have ended with their right secret.
            let clients = [&actors.heron, &actors.revoked_client, &actors.finch, &actors.gone];
            let mut probes = Vec::new();
            for client in clients.map(|credential| Name::of_id(&text(credential, "client_id"))) {
                for (who, secret) in secrets.clone() {
                    let by = WrongCaller::new(&format!("the secret of {who}"), &[]);
                    let exchanges = move |client: &str| {
                        DoorRequest::to("/oauth/token").form(&[
                            ("grant_type", "client_credentials"),
                            ("client_id", client),
                            ("client_secret", &secret),
                        ])
                    };
                    probes.push(Probe::new(&client, exchanges).refused_to(&[by], wrong));
                }
            }
            asks(probes)
        }
        ("POST", "/api/oauth/token") => {
            let refreshes = |client: &'static str| {
                move |token: &str| {
                    DoorRequest::to("/api/oauth/token")
                        .with("x-nous-refresh-token", token)
                        .form(&[("grant_type", "refresh_token"), ("client_id", client)])
                }
            };
            let ended = |agent: &Value| {
                Probe::new(&Name::of_id(&refresh_token(agent)), refreshes("hermes-cli-vps"))
                    .refused_to(&anybody, |heard| heard.json()["error"] == "invalid_grant")
            };
            // The client is checked first, so a wrong one does not reveal that a token is valid.
            let valid = Probe::new(&Name::of_id(&refresh_token(&actors.heron)), refreshes("another-client"))
                .refused_to(&anybody, |heard| heard.json()["error"] == "invalid_client");
            asks([valid, ended(&actors.finch), ended(&actors.gone)])
        }
        _ => None,
    }
}

pub async fn fill(actors: &Actors, cells: &mut Cells) {
    doors::fill(actors, cells, "identity", identity::OPERATIONS, |method, at| row(actors, method, at)).await;
    exchanges(&actors.server, &actors.heron).await;
    assert_eq!(refreshes(&actors.server, &refresh_token(&actors.heron)).await.0, 200);
}
