//! Authentication of programs (agents and stores, section 5.4).

use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use identity::{AgentCredential, Authentication, CredentialRefusal, Principal};
use ledger::Owner;
use posthouse_wire::{ClientId, Secret};

use crate::fixtures::{TestServer, bearer, headers, here, seconds};

const REFUSED: Authentication = Authentication::Refused(CredentialRefusal::Unknown);
const MISSING: Authentication = Authentication::Refused(CredentialRefusal::Missing);

fn basic(client: &str, secret: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{client}:{secret}")))
}

async fn client(server: &TestServer, owner: &Owner) -> (ClientId, Secret) {
    server.identity.accounts.create_client(owner).await.unwrap().unwrap()
}

async fn access(server: &TestServer, client: &ClientId) -> Secret {
    server.identity.accounts.grant_access(client).await.unwrap().unwrap().access_token
}

#[tokio::test]
async fn a_client_is_known_by_its_access_token_and_by_its_credential_as_http_basic() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let tenant = heron.tenant.clone();
    let agent = heron.record().await;
    for owner in [Owner::Instance(heron.instance.clone()), Owner::Tenant(tenant.clone())] {
        let (id, secret) = client(&server, &owner).await;
        let principal = match owner {
            Owner::Instance(_) => {
                Principal::Agent { agent: agent.clone(), by: AgentCredential::Client(id.clone()) }
            }
            Owner::Tenant(_) => Principal::Tenant { tenant: tenant.clone(), client: id.clone() },
        };
        let known = Authentication::Known(principal);
        let token = access(&server, &id).await;
        assert_eq!(server.presents(&bearer(&token)).await, known);
        assert_eq!(server.presents(&basic(id.as_str(), secret.expose())).await, known);
        let escaped = id.as_str().replace(':', "%3A");
        assert_eq!(server.presents(&basic(&escaped, secret.expose())).await, known);
        server.identity.accounts.revoke_client(&id).await.unwrap();
        assert_eq!(server.presents(&bearer(&token)).await, REFUSED);
        assert_eq!(server.presents(&basic(id.as_str(), secret.expose())).await, REFUSED);
    }
}

#[tokio::test]
async fn a_login_stands_for_its_instance_and_goes_by_that_instances_client() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let login = server.identity.accounts.log_in(&heron.instance).await.unwrap().unwrap();
    let by = AgentCredential::Login(login.login.clone());
    let program = Principal::Agent { agent: heron.record().await, by };
    assert_eq!(program.client(), Some(Owner::Instance(heron.instance.clone()).client()));
    let token = bearer(&login.access.access_token);
    assert_eq!(server.presents(&token).await, Authentication::Known(program));
    assert_eq!(server.presents(&bearer(&login.refresh_token)).await, REFUSED);
    server.identity.accounts.log_out(&login.login).await.unwrap();
    assert_eq!(server.presents(&token).await, REFUSED);
}

#[tokio::test]
async fn the_operator_is_known_by_a_token_and_by_nothing_else() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let tenant = heron.tenant.clone();
    let grant = server.identity.accounts.operator_access(&tenant).await.unwrap().unwrap();
    let client = ClientId::from(format!("operator:{tenant}"));
    let program = Principal::Tenant { tenant, client: client.clone() };
    assert_eq!(server.presents(&bearer(&grant.access_token)).await, Authentication::Known(program));
    let as_basic = basic(client.as_str(), grant.access_token.expose());
    assert_eq!(server.presents(&as_basic).await, REFUSED);
    server.winds(seconds(15 * 60));
    assert_eq!(server.presents(&bearer(&grant.access_token)).await, REFUSED);
}

#[tokio::test]
async fn whatever_is_no_good_credential_is_refused_alike() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let crow = server.enrol("rival", "crow", &[]).await;
    let (id, secret) = client(&server, &Owner::Instance(heron.instance.clone())).await;
    let (others, _) = client(&server, &Owner::Instance(crow.instance.clone())).await;
    let token = access(&server, &id).await;
    assert_eq!(server.identity.authenticator.program(&HeaderMap::new(), here()).await.unwrap(), MISSING);
    for value in [
        "",
        "Bearer",
        "Bearer ",
        "Basic",
        "Basic !",
        "Digest x",
        "Bearer pht_unknown",
        &bearer(&secret),
        &basic(id.as_str(), "phs_wrong"),
        &basic(id.as_str(), token.expose()),
        &basic(others.as_str(), secret.expose()),
        &basic("agent:inst_nobody", secret.expose()),
        &basic("", secret.expose()),
    ] {
        assert!(matches!(server.presents(value).await, Authentication::Refused(_)), "{value:.20}");
        // So that none of them is slowed down here.
        server.winds(seconds(61));
    }
    let unreadable = http::HeaderValue::from_bytes(b"Bearer \xff").unwrap();
    let headers = HeaderMap::from_iter([(AUTHORIZATION, unreadable)]);
    assert_eq!(server.identity.authenticator.program(&headers, here()).await.unwrap(), MISSING);
}

#[tokio::test]
async fn an_agents_credential_ends_with_it() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let (id, secret) = client(&server, &Owner::Instance(heron.instance.clone())).await;
    let token = access(&server, &id).await;
    assert!(matches!(server.presents(&bearer(&token)).await, Authentication::Known(_)));
    server.identity.accounts.remove_agent(&heron.instance).await.unwrap();
    assert_eq!(server.presents(&bearer(&token)).await, REFUSED);
    assert_eq!(server.presents(&basic(id.as_str(), secret.expose())).await, REFUSED);
}

#[tokio::test]
async fn whoever_guesses_is_slowed_down_and_then_barred_while_the_rightful_pass() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let (id, secret) = client(&server, &Owner::Instance(heron.instance.clone())).await;
    let token = access(&server, &id).await;
    let mut guesses = tokio::task::JoinSet::new();
    for number in 0..150 {
        let server = server.clone();
        let value = match number % 2 {
            0 => format!("Bearer pht_{number}"),
            _ => basic(id.as_str(), &format!("phs_{number}")),
        };
        guesses.spawn(async move { server.presents(&value).await });
    }
    // Those that are slowed down wait for a clock that stands still; those barred do not.
    while let Some(guess) = guesses.join_next().await {
        match guess.unwrap() {
            Authentication::Refused(_) => {}
            Authentication::Barred => break,
            Authentication::Known(program) => panic!("{program:?}"),
        }
    }
    for value in [bearer(&token), basic(id.as_str(), secret.expose())] {
        assert!(matches!(server.presents(&value).await, Authentication::Known(_)));
    }
    let elsewhere = Some(IpAddr::from([127, 0, 0, 2]));
    let guess = server.identity.authenticator.program(&headers("Bearer pht_x"), elsewhere).await.unwrap();
    assert_eq!(guess, REFUSED, "elsewhere nobody has guessed yet");
    let none = server.identity.authenticator.program(&HeaderMap::new(), here()).await.unwrap();
    assert_eq!(none, MISSING, "nothing presented is no guess");
    // A guess that is still on its way would count in the next minute.
    guesses.shutdown().await;
    server.winds(seconds(61));
    assert_eq!(server.presents("Bearer pht_x").await, REFUSED);
}

/// Makes guesses until one is barred. Those that are slowed down wait for a clock that stands still.
async fn guesses_until_barred<F>(guess: impl Fn(usize) -> F)
where
    F: Future<Output = Authentication> + Send + 'static,
{
    let mut guesses: tokio::task::JoinSet<_> = (0..150).map(guess).collect();
    while let Some(guess) = guesses.join_next().await {
        match guess.unwrap() {
            Authentication::Refused(_) => {}
            Authentication::Barred => return,
            Authentication::Known(program) => panic!("{program:?}"),
        }
    }
    panic!("none of them was barred");
}

#[tokio::test]
async fn whoever_guesses_at_the_cron_api_is_slowed_down_and_agents_are_not() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let (id, _) = client(&server, &Owner::Instance(heron.instance.clone())).await;
    let (tenants, _) = client(&server, &Owner::Tenant(heron.tenant.clone())).await;
    let (token, of_tenant) = (access(&server, &id).await, access(&server, &tenants).await);
    let asks = {
        let authenticator = server.identity.authenticator.clone();
        move |value: String, from| {
            let authenticator = authenticator.clone();
            async move { authenticator.cron_agent(&headers(&value), from).await.unwrap() }
        }
    };
    let not_an_agent = Authentication::Refused(CredentialRefusal::NotAnAgent);
    for _ in 0..150 {
        assert_eq!(asks(bearer(&of_tenant), here()).await, not_an_agent, "a valid credential is not a guess");
    }
    guesses_until_barred(|number| asks(format!("Bearer pht_{number}"), here())).await;
    assert!(matches!(asks(bearer(&token), here()).await, Authentication::Known(_)));
    assert_eq!(asks("Bearer pht_x".to_owned(), Some(IpAddr::from([127, 0, 0, 2]))).await, REFUSED);
    server.winds(seconds(61));
    assert_eq!(asks("Bearer pht_x".to_owned(), here()).await, REFUSED);
}

#[tokio::test]
async fn whoever_guesses_sessions_of_the_chat_page_is_slowed_down() {
    let server = TestServer::open().await;
    let authenticator = server.identity.authenticator.clone();
    let asks = move |session: Option<String>, from| {
        let authenticator = authenticator.clone();
        async move { authenticator.person(session.as_deref(), from).await.unwrap() }
    };
    for _ in 0..150 {
        assert_eq!(asks(None, here()).await, MISSING, "nothing presented is no guess");
    }
    guesses_until_barred(|number| asks(Some(format!("session-{number}")), here())).await;
    let guess = || Some("session-x".to_owned());
    assert_eq!(asks(guess(), Some(IpAddr::from([127, 0, 0, 2]))).await, REFUSED);
    server.winds(seconds(61));
    assert_eq!(asks(guess(), here()).await, REFUSED);
}
