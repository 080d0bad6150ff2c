//! Authentication of programs (agents and stores, section 5.4).

use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use http_kit::ClientAddress;
use ledger::Owner;
use posthouse_wire::{ClientId, Secret, TenantId};
use relay::{Presented, Program};

use crate::house::{Agent, House, seconds};

fn headers(value: &str) -> HeaderMap {
    HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())])
}

fn here() -> Option<ClientAddress> {
    Some(ClientAddress(IpAddr::from([127, 0, 0, 1])))
}

async fn presents(house: &House, value: &str) -> Presented {
    house.relay.program(&headers(value), here()).await.unwrap()
}

fn bearer(token: &Secret) -> String {
    format!("Bearer {}", token.expose())
}

fn basic(client: &str, secret: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{client}:{secret}")))
}

async fn tenant_of(house: &House, agent: &Agent) -> TenantId {
    house.ledger.roster().instance(&agent.instance).await.unwrap().unwrap().tenant
}

async fn client(house: &House, owner: &Owner) -> (ClientId, Secret) {
    house.relay.create_client(owner).await.unwrap().unwrap()
}

async fn access(house: &House, client: &ClientId) -> Secret {
    house.relay.keyring().grant_access(client).await.unwrap().unwrap().access_token
}

#[tokio::test]
async fn a_client_is_known_by_its_access_token_and_by_its_credential_as_http_basic() {
    let house = House::open().await;
    let heron = house.heron().await;
    let tenant = tenant_of(&house, &heron).await;
    for (owner, instance) in [
        (Owner::Instance(heron.instance.clone()), Some(heron.instance.clone())),
        (Owner::Tenant(tenant.clone()), None),
    ] {
        let (id, secret) = client(&house, &owner).await;
        let known = Presented::Known(Program { client: id.clone(), tenant: tenant.clone(), instance });
        let token = access(&house, &id).await;
        assert_eq!(presents(&house, &bearer(&token)).await, known);
        assert_eq!(presents(&house, &basic(id.as_str(), secret.expose())).await, known);
        let escaped = id.as_str().replace(':', "%3A");
        assert_eq!(presents(&house, &basic(&escaped, secret.expose())).await, known);
        house.relay.revoke_client(&id).await.unwrap();
        assert_eq!(presents(&house, &bearer(&token)).await, Presented::Refused);
        assert_eq!(presents(&house, &basic(id.as_str(), secret.expose())).await, Presented::Refused);
    }
}

#[tokio::test]
async fn a_login_stands_for_its_instance_and_goes_by_that_instances_client() {
    let house = House::open().await;
    let heron = house.heron().await;
    let tenant = tenant_of(&house, &heron).await;
    let login = house.relay.log_in(&heron.instance).await.unwrap().unwrap();
    let program = Program {
        client: Owner::Instance(heron.instance.clone()).client(),
        tenant,
        instance: Some(heron.instance.clone()),
    };
    let token = bearer(&login.access.access_token);
    assert_eq!(presents(&house, &token).await, Presented::Known(program));
    assert_eq!(presents(&house, &bearer(&login.refresh_token)).await, Presented::Refused);
    house.relay.log_out(&login.login).await.unwrap();
    assert_eq!(presents(&house, &token).await, Presented::Refused);
}

#[tokio::test]
async fn the_operator_is_known_by_a_token_and_by_nothing_else() {
    let house = House::open().await;
    let heron = house.heron().await;
    let tenant = tenant_of(&house, &heron).await;
    let grant = house.relay.keyring().operator_access(&tenant).await.unwrap().unwrap();
    let client = ClientId::from(format!("operator:{tenant}"));
    let program = Program { client: client.clone(), tenant, instance: None };
    assert_eq!(presents(&house, &bearer(&grant.access_token)).await, Presented::Known(program));
    let as_basic = basic(client.as_str(), grant.access_token.expose());
    assert_eq!(presents(&house, &as_basic).await, Presented::Refused);
    house.winds(seconds(15 * 60));
    assert_eq!(presents(&house, &bearer(&grant.access_token)).await, Presented::Refused);
}

#[tokio::test]
async fn whatever_is_no_good_credential_is_refused_alike() {
    let house = House::open().await;
    let heron = house.heron().await;
    let crow = house.enrol("rival", "crow", &[]).await;
    let (id, secret) = client(&house, &Owner::Instance(heron.instance.clone())).await;
    let (others, _) = client(&house, &Owner::Instance(crow.instance.clone())).await;
    let token = access(&house, &id).await;
    assert_eq!(house.relay.program(&HeaderMap::new(), here()).await.unwrap(), Presented::Refused);
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
        assert_eq!(presents(&house, value).await, Presented::Refused, "{value:.20}");
        // So that none of them is slowed down here.
        house.winds(seconds(61));
    }
    let unreadable = http::HeaderValue::from_bytes(b"Bearer \xff").unwrap();
    let headers = HeaderMap::from_iter([(AUTHORIZATION, unreadable)]);
    assert_eq!(house.relay.program(&headers, here()).await.unwrap(), Presented::Refused);
}

#[tokio::test]
async fn an_agents_credential_ends_with_it() {
    let house = House::open().await;
    let heron = house.heron().await;
    let (id, secret) = client(&house, &Owner::Instance(heron.instance.clone())).await;
    let token = access(&house, &id).await;
    assert!(matches!(presents(&house, &bearer(&token)).await, Presented::Known(_)));
    house.relay.remove_agent(&heron.instance).await.unwrap();
    assert_eq!(presents(&house, &bearer(&token)).await, Presented::Refused);
    assert_eq!(presents(&house, &basic(id.as_str(), secret.expose())).await, Presented::Refused);
}

#[tokio::test]
async fn whoever_guesses_is_slowed_down_and_then_barred_while_the_rightful_pass() {
    let house = House::open().await;
    let heron = house.heron().await;
    let (id, secret) = client(&house, &Owner::Instance(heron.instance.clone())).await;
    let token = access(&house, &id).await;
    let mut guesses = tokio::task::JoinSet::new();
    for number in 0..150 {
        let house = house.clone();
        let value = match number % 2 {
            0 => format!("Bearer pht_{number}"),
            _ => basic(id.as_str(), &format!("phs_{number}")),
        };
        guesses.spawn(async move { presents(&house, &value).await });
    }
    // Those that are slowed down wait for a clock that stands still; those barred do not.
    while let Some(guess) = guesses.join_next().await {
        match guess.unwrap() {
            Presented::Refused => {}
            Presented::Barred => break,
            Presented::Known(program) => panic!("{program:?}"),
        }
    }
    for value in [bearer(&token), basic(id.as_str(), secret.expose())] {
        assert!(matches!(presents(&house, &value).await, Presented::Known(_)));
    }
    let elsewhere = Some(ClientAddress(IpAddr::from([127, 0, 0, 2])));
    let guess = house.relay.program(&headers("Bearer pht_x"), elsewhere).await.unwrap();
    assert_eq!(guess, Presented::Refused, "elsewhere nobody has guessed yet");
    let none = house.relay.program(&HeaderMap::new(), here()).await.unwrap();
    assert_eq!(none, Presented::Refused, "nothing presented is no guess");
    house.winds(seconds(61));
    assert_eq!(presents(&house, "Bearer pht_x").await, Presented::Refused);
}
