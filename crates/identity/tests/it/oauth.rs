//! OAuth token endpoints (relay contract section 17.2 a, cron contract section 1.1).

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use axum::body::Body;
use axum::{Extension, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{Request, StatusCode};
use http_kit::ClientAddress;
use identity::{AgentCredential, BOOTSTRAP_CLIENT, Login, Principal};
use ledger::{
    AccessRecord, ClientRecord, EndedCredentials, Fault, LoginRecord, Owner, RefreshRequest, Renewal,
    RenewedCredentials, TokenHash, TokenPair, Tokens, WhichCredentials,
};
use posthouse_time::Moment;
use posthouse_wire::{ClientId, InstanceId, LoginId, Secret, TenantId};
use serde_json::Value;
use tower::ServiceExt;

use crate::fixtures::{TestAgent, TestServer, seconds};

const FORM: &str = "application/x-www-form-urlencoded";

fn doors(server: &TestServer) -> Router {
    server.identity.routes().layer(Extension(ClientAddress(IpAddr::from([127, 0, 0, 1]))))
}

async fn asks(doors: &Router, path: &str, headers: &[(&str, &str)], body: &str) -> (StatusCode, Value) {
    let mut request = Request::post(path).header("content-type", FORM);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = doors.clone().oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
    let status = response.status();
    assert_eq!(response.headers()["cache-control"], "no-store", "{status}");
    assert_eq!(response.headers()["content-type"], "application/json");
    let challenged = response.headers().contains_key("www-authenticate");
    assert_eq!(challenged, status == StatusCode::UNAUTHORIZED);
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, serde_json::from_slice(&bytes).unwrap())
}

/// The status and the code of a refusal.
async fn refused(doors: &Router, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
    let (status, answer) = asks(doors, path, headers, body).await;
    assert!(!status.is_success(), "{answer}");
    assert!(answer["error_description"].is_string());
    (status.as_u16(), answer["error"].as_str().unwrap().to_owned())
}

async fn client(agent: &TestAgent) -> (ClientId, Secret) {
    let owner = Owner::Instance(agent.instance.clone());
    agent.server.identity.accounts.create_client(&owner).await.unwrap().unwrap()
}

async fn login(agent: &TestAgent) -> Login {
    agent.server.identity.accounts.log_in(&agent.instance).await.unwrap().unwrap()
}

fn form(client: &ClientId, secret: &str) -> String {
    format!("grant_type=client_credentials&client_id={client}&client_secret={secret}")
}

async fn refreshes(doors: &Router, token: &str) -> (StatusCode, Value) {
    let body = format!("grant_type=refresh_token&client_id={BOOTSTRAP_CLIENT}");
    asks(doors, "/api/oauth/token", &[("x-nous-refresh-token", token)], &body).await
}

#[tokio::test]
async fn a_client_exchanges_its_secret_for_access_by_form_or_by_http_basic() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let (id, secret) = client(&heron).await;
    let doors = doors(&server);
    let basic = format!("Basic {}", STANDARD.encode(format!("{id}:{}", secret.expose())));
    let whole = form(&id, secret.expose());
    let scoped = format!("{whole}&scope=relay");
    let escaped = whole.replace(':', "%3A");
    let bare = "grant_type=client_credentials";
    let named = format!("{bare}&client_id={id}");
    for (headers, body) in [
        (vec![], whole.as_str()),
        (vec![], &scoped),
        (vec![], &escaped),
        (vec![("authorization", basic.as_str())], bare),
        (vec![("authorization", basic.as_str())], &named),
    ] {
        let (status, granted) = asks(&doors, "/oauth/token", &headers, body).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        assert_eq!((&granted["token_type"], &granted["expires_in"]), (&"Bearer".into(), &3600.into()));
        let token = granted["access_token"].as_str().unwrap();
        let expected =
            Principal::Agent { agent: heron.record().await, by: AgentCredential::Client(id.clone()) };
        assert_eq!(server.owner_of(token).await, Some(expected));
    }
}

#[tokio::test]
async fn whoever_is_no_client_hears_one_answer() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let crow = server.enrol("rival", "crow", &[]).await;
    let (id, secret) = client(&heron).await;
    let (others, _) = client(&crow).await;
    let doors = doors(&server);
    let nobody = (401, "invalid_client".to_owned());
    let basic = format!("Basic {}", STANDARD.encode("x:y"));
    for (headers, body) in [
        (vec![], form(&id, "phs_wrong")),
        (vec![], form(&others, secret.expose())),
        (vec![], form(&"agent:inst_nobody".into(), secret.expose())),
        (vec![], "grant_type=client_credentials".to_owned()),
        (vec![("authorization", basic.as_str())], "grant_type=client_credentials".to_owned()),
        (vec![("authorization", "Basic !")], "grant_type=client_credentials".to_owned()),
        (vec![("authorization", "Bearer x")], "grant_type=client_credentials".to_owned()),
    ] {
        assert_eq!(refused(&doors, "/oauth/token", &headers, &body).await, nobody, "{body}");
    }
    server.identity.accounts.revoke_client(&id).await.unwrap();
    assert_eq!(refused(&doors, "/oauth/token", &[], &form(&id, secret.expose())).await, nobody);
}

#[tokio::test]
async fn a_form_that_cannot_be_read_is_refused_in_the_words_of_the_rfc() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let (id, secret) = client(&heron).await;
    let doors = doors(&server);
    let good = form(&id, secret.expose());
    let basic = format!("Basic {}", STANDARD.encode(format!("{id}:{}", secret.expose())));
    let long = format!("{good}&scope={}", "x".repeat(17_000));
    for (headers, body, expected) in [
        (vec![], good.replace("client_credentials", "password"), (400, "unsupported_grant_type")),
        (vec![], good.replace("client_credentials", "refresh_token"), (400, "unsupported_grant_type")),
        (vec![], good.replace("grant_type=client_credentials&", ""), (400, "invalid_request")),
        (vec![], format!("{good}&client_id={id}"), (400, "invalid_request")),
        (vec![], "%".to_owned(), (401, "invalid_client")),
        (vec![("authorization", basic.as_str())], good.clone(), (400, "invalid_request")),
        (
            vec![("authorization", basic.as_str())],
            "grant_type=client_credentials&client_id=tenant:other".to_owned(),
            (400, "invalid_request"),
        ),
        (vec![], long, (413, "invalid_request")),
    ] {
        let (status, code) = refused(&doors, "/oauth/token", &headers, &body).await;
        assert_eq!((status, code.as_str()), expected, "{body:.80}");
    }
    let json = Request::post("/oauth/token").header("content-type", "application/json");
    let response = doors.clone().oneshot(json.body(Body::from("{}")).unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_stock_agent_refreshes_its_login_and_both_tokens_change() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let login = login(&heron).await;
    let doors = doors(&server);
    let (status, answer) = refreshes(&doors, login.refresh_token.expose()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!((&answer["token_type"], &answer["expires_in"]), (&"Bearer".into(), &3600.into()));
    let (access, refresh) =
        (answer["access_token"].as_str().unwrap(), answer["refresh_token"].as_str().unwrap());
    assert_ne!(refresh, login.refresh_token.expose());
    let by = AgentCredential::Login(login.login.clone());
    assert_eq!(server.owner_of(access).await, Some(Principal::Agent { agent: heron.record().await, by }));
    server.winds(seconds(60));
    let (raced, _) = refreshes(&doors, login.refresh_token.expose()).await;
    assert_eq!(raced, StatusCode::OK, "another process of the agent was a little late");
    server.winds(seconds(1));
    let (status, next) = refreshes(&doors, refresh).await;
    assert_eq!(status, StatusCode::OK);
    let (status, reused) = refreshes(&doors, login.refresh_token.expose()).await;
    assert_eq!((status.as_u16(), &reused["error"]), (400, &"refresh_token_reused".into()));
    let next = next["refresh_token"].as_str().unwrap();
    assert_eq!(refreshes(&doors, next).await.0, StatusCode::OK, "the login goes on");
}

#[tokio::test]
async fn a_stock_agent_is_told_to_give_up_only_when_nothing_could_help() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let login = login(&heron).await;
    let doors = doors(&server);
    let path = "/api/oauth/token";
    let token = ("x-nous-refresh-token", login.refresh_token.expose());
    let ours = format!("grant_type=refresh_token&client_id={BOOTSTRAP_CLIENT}");
    for (headers, body, expected) in [
        (vec![], ours.as_str(), (400, "invalid_request")),
        (vec![token], "grant_type=refresh_token", (400, "invalid_request")),
        (vec![token], "client_id=hermes-cli-vps", (400, "invalid_request")),
        (vec![token], "grant_type=refresh_token&client_id=hermes-cli", (401, "invalid_client")),
        (
            vec![token],
            "grant_type=client_credentials&client_id=hermes-cli-vps",
            (400, "unsupported_grant_type"),
        ),
        (vec![token, token], ours.as_str(), (400, "invalid_request")),
        (vec![("x-nous-refresh-token", "phr_unknown")], ours.as_str(), (400, "invalid_grant")),
        (
            vec![("x-nous-refresh-token", login.access.access_token.expose())],
            ours.as_str(),
            (400, "invalid_grant"),
        ),
    ] {
        let (status, code) = refused(&doors, path, &headers, body).await;
        assert_eq!((status, code.as_str()), expected, "{body}");
    }
    assert_eq!(refreshes(&doors, login.refresh_token.expose()).await.0, StatusCode::OK);
    server.identity.accounts.remove_agent(&heron.instance).await.unwrap();
    let (status, ended) = refreshes(&doors, login.refresh_token.expose()).await;
    assert_eq!((status.as_u16(), &ended["error"]), (400, &"invalid_grant".into()));
}

#[tokio::test]
async fn a_further_fork_at_eight_lines_hears_503_and_never_a_final_word() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let login = login(&heron).await;
    let doors = doors(&server);
    let mut successors = Vec::new();
    for _ in 0..10 {
        let (status, answer) = refreshes(&doors, login.refresh_token.expose()).await;
        assert_eq!(status, StatusCode::OK);
        successors.push(answer["refresh_token"].as_str().unwrap().to_owned());
    }
    for (line, successor) in successors[..8].iter().enumerate() {
        assert_eq!(refreshes(&doors, successor).await.0, StatusCode::OK, "line {line}");
    }
    let listed = server.identity.accounts.logins(None).await.unwrap();
    assert_eq!((listed[0].lines, listed[0].addresses.as_slice()), (8, &["127.0.0.1".to_owned()][..]));
    for successor in &successors[8..] {
        for _ in 0..2 {
            let (status, answer) = refreshes(&doors, successor).await;
            assert_eq!((status.as_u16(), &answer["error"]), (503, &"temporarily_unavailable".into()));
        }
    }
    // Whoever goes on asking is slowed down like everybody who is refused.
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..150 {
        let (doors, successor) = (doors.clone(), successors[8].clone());
        asking.spawn(async move { refreshes(&doors, &successor).await });
    }
    let mut heard = 503;
    while heard == 503 {
        let (status, answer) = asking.join_next().await.expect("somebody is turned away").unwrap();
        heard = status.as_u16();
        assert!(heard == 503 || answer["error"] == "slow_down", "{answer}");
    }
    // Nobody who holds a line of the login waits for that.
    assert_eq!(refreshes(&doors, &successors[0]).await.0, StatusCode::OK);
}

#[tokio::test]
async fn whoever_guesses_is_slowed_down_and_then_turned_away_while_the_rightful_pass() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let (id, secret) = client(&heron).await;
    let login = login(&heron).await;
    let doors = doors(&server);
    let wrong = form(&id, "phs_wrong");
    let mut guesses = tokio::task::JoinSet::new();
    for _ in 0..150 {
        let (doors, wrong) = (doors.clone(), wrong.clone());
        guesses.spawn(async move { refused(&doors, "/oauth/token", &[], &wrong).await });
    }
    // Those that are slowed down wait for a clock that stands still; those turned away do not.
    while let Some(guess) = guesses.join_next().await {
        match guess.unwrap() {
            (401, _) => {}
            turned_away => {
                assert_eq!(turned_away, (429, "slow_down".to_owned()));
                break;
            }
        }
    }
    let (status, answer) = refreshes(&doors, "phr_unknown").await;
    assert_eq!((status.as_u16(), &answer["error"]), (429, &"slow_down".into()), "this is not final");
    assert_eq!(asks(&doors, "/oauth/token", &[], &form(&id, secret.expose())).await.0, StatusCode::OK);
    assert_eq!(refreshes(&doors, login.refresh_token.expose()).await.0, StatusCode::OK);
    // A guess that is still on its way would count in the next minute.
    guesses.shutdown().await;
    server.winds(seconds(61));
    assert_eq!(refused(&doors, "/oauth/token", &[], &wrong).await.0, 401);
}

#[tokio::test]
async fn a_form_of_thousands_of_fields_is_refused_unread() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let (id, secret) = client(&heron).await;
    let doors = doors(&server);
    let good = form(&id, secret.expose());
    let with = |more: usize| (0..more).fold(good.clone(), |form, number| format!("{form}&f{number}=1"));
    assert_eq!(asks(&doors, "/oauth/token", &[], &with(61)).await.0, StatusCode::OK);
    for more in [62, 1500] {
        let refusal = (400, "invalid_request".to_owned());
        assert_eq!(refused(&doors, "/oauth/token", &[], &with(more)).await, refusal, "{more}");
    }
}

#[tokio::test]
async fn every_refusal_at_the_token_doors_counts_against_the_address() {
    let ours = format!("grant_type=refresh_token&client_id={BOOTSTRAP_CLIENT}");
    let basic = format!("Basic {}", STANDARD.encode("x:y"));
    let twice = vec![("authorization", basic.as_str()), ("authorization", basic.as_str())];
    for (path, headers, body) in [
        ("/oauth/token", vec![], "grant_type=client_credentials"),
        ("/oauth/token", vec![], "a=1&a=2"),
        ("/oauth/token", vec![], "grant_type=password&client_id=x&client_secret=y"),
        ("/oauth/token", twice, "grant_type=client_credentials"),
        ("/api/oauth/token", vec![], "grant_type=refresh_token"),
        ("/api/oauth/token", vec![], "grant_type=refresh_token&client_id=hermes-cli"),
        ("/api/oauth/token", vec![], ours.as_str()),
    ] {
        let server = TestServer::open().await;
        let doors = doors(&server);
        let mut asking = tokio::task::JoinSet::new();
        for _ in 0..150 {
            let (doors, body) = (doors.clone(), body.to_owned());
            let headers: Vec<(String, String)> =
                headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            asking.spawn(async move {
                let headers: Vec<_> =
                    headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                refused(&doors, path, &headers, &body).await
            });
        }
        // Those that are slowed down wait for a clock that stands still; those turned away do not.
        let mut turned_away = false;
        while let Some(heard) = asking.join_next().await {
            turned_away = heard.unwrap() == (429, "slow_down".to_owned());
            if turned_away {
                break;
            }
        }
        assert!(turned_away, "{path} {body}");
    }
}

#[tokio::test]
async fn an_agents_tokens_end_with_it_at_once() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let (id, secret) = client(&heron).await;
    let doors = doors(&server);
    let (_, granted) = asks(&doors, "/oauth/token", &[], &form(&id, secret.expose())).await;
    let token = granted["access_token"].as_str().unwrap();
    assert!(server.owner_of(token).await.is_some());
    server.identity.accounts.remove_agent(&heron.instance).await.unwrap();
    assert!(server.owner_of(token).await.is_none());
}

#[tokio::test]
async fn trouble_with_the_ledger_is_passing_and_says_so() {
    let server = TestServer::open().await;
    let broken = TestServer::over(server.ledger.clone(), Arc::new(Broken), server.clock.clone()).await;
    let doors = doors(&broken);
    let (status, answer) = refreshes(&doors, "phr_good").await;
    assert_eq!((status.as_u16(), &answer["error"]), (503, &"temporarily_unavailable".into()));
    let body = form(&"agent:inst_1".into(), "phs_good");
    assert_eq!(
        refused(&doors, "/oauth/token", &[], &body).await,
        (503, "temporarily_unavailable".to_owned())
    );
}

/// A ledger whose disk is full.
struct Broken;

macro_rules! broken {
    ($(async fn $name:ident(&self $(, $arg:ident: $of:ty)*) -> $what:ty;)*) => {
        #[async_trait]
        impl Tokens for Broken {$(
            async fn $name(&self $(, $arg: $of)*) -> Result<$what, Fault> {
                $(let _ = $arg;)*
                Err(Fault::Full)
            }
        )*}
    };
}

broken! {
    async fn create_client(&self, owner: &Owner, secret: TokenHash, now: Moment, until: Moment) -> bool;
    async fn client(&self, client: &ClientId, secret: TokenHash, now: Moment) -> Option<ClientRecord>;
    async fn clients(&self, of: Option<&TenantId>) -> Vec<ClientRecord>;
    async fn revoke_client(&self, client: &ClientId, now: Moment) -> bool;
    async fn grant(&self, client: &ClientId, access: TokenHash, expires: Moment) -> bool;
    async fn grant_operator(&self, tenant: &TenantId, access: TokenHash, expires: Moment) -> bool;
    async fn log_in(&self, login: &LoginId, client: &ClientId, instance: &InstanceId, pair: TokenPair, now: Moment) -> Option<LoginRecord>;
    async fn logins(&self, of: Option<&TenantId>) -> Vec<LoginRecord>;
    async fn log_out(&self, login: &LoginId) -> bool;
    async fn refresh(&self, request: RefreshRequest) -> Renewal;
    async fn end_credentials(&self, of: &InstanceId, which: WhichCredentials, now: Moment) -> EndedCredentials;
    async fn renew_credentials(&self, of: &InstanceId, renewed: RenewedCredentials, now: Moment) -> bool;
    async fn bearer(&self, access: TokenHash, now: Moment) -> Option<AccessRecord>;
}
