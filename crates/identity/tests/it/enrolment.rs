//! Enrolment of gateways by single-use tokens.

use identity::{AgentCredential, Principal, RevokedAccess};
use ledger::{AdmittedTenant, EnrollSetup, Owner};
use posthouse_wire::{Secret, TenantId, token};

use crate::fixtures::{TestAgent, TestServer, bot, headers, here, seconds};

const HOUR: u64 = 3600;

impl TestAgent {
    /// An enrolment token for this agent, valid for an hour.
    async fn token(&self) -> Secret {
        self.token_with_id().await.1
    }

    async fn token_with_id(&self) -> (ledger::EnrollToken, Secret) {
        let enrolment = &self.server.identity.gateway_enrolment;
        enrolment
            .create_token(&self.tenant, &self.instance, seconds(HOUR), Default::default())
            .await
            .unwrap()
            .unwrap()
    }

    fn program(&self) -> Principal {
        let client = Owner::Tenant(self.tenant.clone()).client();
        Principal::Tenant { tenant: self.tenant.clone(), client }
    }

    async fn itself(&self) -> Principal {
        let client = Owner::Instance(self.instance.clone()).client();
        Principal::Agent { agent: self.record().await, by: AgentCredential::Client(client) }
    }
}

async fn enrols(server: &TestServer, by: &Principal, token: &Secret, name: &str) -> Option<(String, Secret)> {
    let enrolled = server.identity.gateway_enrolment.enrol(by, token.expose(), name).await.unwrap();
    enrolled.map(|enrolled| (enrolled.gateway.to_string(), enrolled.secret))
}

/// Whether a token signed with this secret opens the relay.
async fn opens(server: &TestServer, gateway: &str, secret: &Secret) -> bool {
    let token = token::mint(&gateway.into(), secret, 300, server.clock.now().seconds());
    let headers = headers(&format!("Bearer {token}"));
    let checked = server.identity.authenticator.connecting_agent(&headers, here()).await.unwrap();
    matches!(checked, identity::Authentication::Known(_))
}

#[tokio::test]
async fn a_token_gives_out_a_credential_of_its_agent_once() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let token = heron.token().await;
    let (gateway, secret) = enrols(&server, &heron.program(), &token, "gw-laptop").await.unwrap();
    assert!(opens(&server, &gateway, &secret).await);
    assert!(enrols(&server, &heron.program(), &token, "gw-laptop").await.is_none(), "it is used up");
    assert!(opens(&server, &gateway, &secret).await, "a second try takes nothing away");
    let listed = server.identity.gateway_enrolment.tokens(Some(&heron.tenant)).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].gateway.clone(), listed[0].used.is_some()), (Some(gateway.as_str().into()), true));
}

#[tokio::test]
async fn the_same_name_again_rotates_the_credential_and_the_old_secret_stays_valid_for_a_day() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let by = heron.program();
    let (gateway, old) = enrols(&server, &by, &heron.token().await, "gw-laptop").await.unwrap();
    let (again, new) = enrols(&server, &by, &heron.token().await, "gw-laptop").await.unwrap();
    assert_eq!(again, gateway);
    assert!(opens(&server, &gateway, &old).await && opens(&server, &gateway, &new).await);
    server.winds(seconds(25 * HOUR));
    assert!(!opens(&server, &gateway, &old).await && opens(&server, &gateway, &new).await);
    let (other, _) = enrols(&server, &by, &heron.token().await, "gw-desk").await.unwrap();
    assert_ne!(other, gateway, "another name is another credential");
}

#[tokio::test]
async fn two_tenants_with_one_host_name_get_credentials_of_their_own() {
    let server = TestServer::open().await;
    let (heron, egret) = (server.heron().await, server.enrol("globex", "egret", &[]).await);
    let (one, secret) =
        enrols(&server, &heron.program(), &heron.token().await, "gw-raspberrypi").await.unwrap();
    let (two, _) = enrols(&server, &egret.program(), &egret.token().await, "gw-raspberrypi").await.unwrap();
    assert_ne!(one, two);
    assert!(opens(&server, &one, &secret).await, "the neighbour rotated nothing away");
}

#[tokio::test]
async fn two_agents_of_a_tenant_with_one_host_name_do_not_take_over_each_others_credential() {
    let server = TestServer::open().await;
    let (heron, egret) = (server.heron().await, server.enrol("acme", "egret", &[]).await);
    let by = heron.program();
    let (one, secret) = enrols(&server, &by, &heron.token().await, "gw-laptop").await.unwrap();
    let (two, _) = enrols(&server, &by, &egret.token().await, "gw-laptop").await.unwrap();
    assert_ne!(one, two);
    assert!(opens(&server, &one, &secret).await);
    let (again, _) = enrols(&server, &by, &heron.token().await, "gw-laptop").await.unwrap();
    assert_eq!(again, one, "its own credential is found again although the other agent used the name since");
}

#[tokio::test]
async fn a_gateway_that_proposes_the_id_it_got_keeps_it() {
    let server = TestServer::open().await;
    let (heron, egret) = (server.heron().await, server.enrol("acme", "egret", &[]).await);
    let by = heron.program();
    let (gateway, _) = enrols(&server, &by, &heron.token().await, "gw-laptop").await.unwrap();
    let (again, _) = enrols(&server, &by, &heron.token().await, &gateway).await.unwrap();
    assert_eq!(again, gateway);
    let (other, _) = enrols(&server, &by, &egret.token().await, &gateway).await.unwrap();
    assert_ne!(other, gateway, "the id of another agent's credential is only a name");
}

#[tokio::test]
async fn revoking_all_credentials_of_an_agent_ends_its_unused_enrolment_tokens() {
    let server = TestServer::open().await;
    let (heron, egret) = (server.heron().await, server.enrol("acme", "egret", &[]).await);
    let (record, token) = heron.token_with_id().await;
    let others = egret.token().await;
    let ended =
        server.identity.accounts.revoke(&heron.instance, identity::WhichCredentials::All).await.unwrap();
    assert_eq!(ended.enroll_tokens, [record.id]);
    assert!(enrols(&server, &heron.program(), &token, "gw-1").await.is_none());
    assert!(enrols(&server, &egret.program(), &others, "gw-1").await.is_some());
}

#[tokio::test]
async fn of_two_who_redeem_one_token_at_once_one_is_enrolled() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let (by, token) = (heron.program(), heron.token().await);
    let (one, two) = tokio::join!(enrols(&server, &by, &token, "gw-1"), enrols(&server, &by, &token, "gw-2"));
    assert!(one.is_some() != two.is_some());
}

#[tokio::test]
async fn a_tenant_is_removed_with_what_enrolments_left() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    enrols(&server, &heron.program(), &heron.token().await, "gw-1").await.unwrap();
    heron.token().await;
    let accounts = &server.identity.accounts;
    assert_eq!(accounts.remove_agent(&heron.instance).await.unwrap(), ledger::Removed::Gone);
    assert_eq!(accounts.remove_tenant(&heron.tenant).await.unwrap(), ledger::Removed::Gone);
}

#[tokio::test]
async fn a_revoked_credential_does_not_come_back_under_its_name() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let by = heron.program();
    let (gateway, old) = enrols(&server, &by, &heron.token().await, "gw-laptop").await.unwrap();
    let which = identity::WhichCredentials::Gateway(gateway.as_str().into());
    server.identity.accounts.revoke(&heron.instance, which).await.unwrap();
    let (fresh, new) = enrols(&server, &by, &heron.token().await, "gw-laptop").await.unwrap();
    assert_ne!(fresh, gateway);
    assert!(!opens(&server, &gateway, &old).await && opens(&server, &fresh, &new).await);
}

#[tokio::test]
async fn a_token_is_refused_to_whoever_it_is_not_for_and_stays_usable() {
    let server = TestServer::open().await;
    let (heron, egret) = (server.heron().await, server.enrol("acme", "egret", &[]).await);
    let wren = server.enrol("globex", "wren", &[]).await;
    let token = heron.token().await;
    let issued = Principal::Issued { tenant: TenantId::from("ten_unknown"), issuer: "elsewhere".to_owned() };
    for stranger in [wren.program(), wren.itself().await, egret.itself().await, issued, Principal::Operator] {
        assert!(enrols(&server, &stranger, &token, "gw-1").await.is_none(), "{stranger:?}");
    }
    assert!(enrols(&server, &heron.itself().await, &token, "gw-1").await.is_some());
}

#[tokio::test]
async fn unknown_expired_and_revoked_tokens_and_those_of_a_removed_agent_are_refused() {
    let server = TestServer::open().await;
    let (heron, egret) = (server.heron().await, server.enrol("acme", "egret", &[]).await);
    let (by, enrolment) = (heron.program(), &server.identity.gateway_enrolment);
    assert!(enrols(&server, &by, &Secret::new("phe_0000"), "gw-1").await.is_none());
    let (record, token) = heron.token_with_id().await;
    assert!(enrolment.revoke_token(&record.id).await.unwrap());
    assert!(enrols(&server, &by, &token, "gw-1").await.is_none());
    let token = heron.token().await;
    server.winds(seconds(HOUR));
    assert!(enrols(&server, &by, &token, "gw-1").await.is_none());
    let token = egret.token().await;
    server.identity.accounts.remove_agent(&egret.instance).await.unwrap();
    assert!(enrols(&server, &by, &token, "gw-1").await.is_none());
    let (record, token) = heron.token_with_id().await;
    assert!(enrols(&server, &by, &token, "gw-1").await.is_some());
    assert!(!enrolment.revoke_token(&record.id).await.unwrap(), "a used token cannot be revoked any more");
}

#[tokio::test]
async fn a_step_of_the_wall_clock_back_does_not_prolong_a_token() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let token = heron.token().await;
    let start = server.clock.now();
    server.winds(seconds(HOUR));
    server.clock.set(start);
    assert!(enrols(&server, &heron.program(), &token, "gw-1").await.is_none());
}

#[tokio::test]
async fn the_delivery_key_belongs_to_the_tenant_and_stays() {
    let server = TestServer::open().await;
    let (heron, wren) = (server.heron().await, server.enrol("globex", "wren", &[]).await);
    let enrolment = &server.identity.gateway_enrolment;
    let mut keys = Vec::new();
    for (agent, name) in [(&heron, "gw-1"), (&heron, "gw-2"), (&wren, "gw-1")] {
        let token = agent.token().await;
        let enrolled = enrolment.enrol(&agent.program(), token.expose(), name).await.unwrap().unwrap();
        keys.push(enrolled.delivery_key.expose().to_owned());
    }
    assert_eq!(keys[0], keys[1]);
    assert_ne!(keys[0], keys[2]);
}

#[tokio::test]
async fn whoever_follows_revocations_hears_of_each_before_its_command_answers() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    server.identity.accounts.follow_revocations({
        let heard = heard.clone();
        std::sync::Arc::new(move |revocation| {
            heard.lock().unwrap().push(match revocation {
                RevokedAccess::Gateway(gateway) => gateway.to_string(),
                RevokedAccess::Agent(instance) => instance.to_string(),
            });
        })
    });
    let (gateway, _) = enrols(&server, &heron.program(), &heron.token().await, "gw-1").await.unwrap();
    let which = identity::WhichCredentials::Gateway(gateway.as_str().into());
    server.identity.accounts.revoke(&heron.instance, which).await.unwrap();
    server.identity.accounts.remove_agent(&heron.instance).await.unwrap();
    assert_eq!(*heard.lock().unwrap(), [gateway, heron.instance.to_string()]);
}

#[tokio::test]
async fn a_token_gives_its_gateway_a_wake_url_bots_and_route_keys() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let (one, two) = (bot("discord", "1"), bot("discord", "2"));
    for on in [&one, &two] {
        server.has_bot(on, true).await;
        let claims = server.identity.gate.claims();
        assert!(claims.admit_tenant(on, &AdmittedTenant::Every).await.unwrap());
        assert_eq!(claims.use_bot(&heron.instance, on).await.unwrap(), ledger::UseBotResult::Uses);
    }
    let gateways = &server.identity.gateways;
    let keys = vec!["guild-1".to_owned()];
    let unclear = gateways.bots_for_keys(&heron.instance, &[], &keys).await.unwrap();
    assert_eq!(unclear, None, "there are two shared bots of the platform");
    let setup = EnrollSetup {
        wake_url: Some("https://laptop.example/wake".to_owned()),
        bots: vec![two.clone()],
        route_keys: keys.clone(),
    };
    let enrolment = &server.identity.gateway_enrolment;
    let made = enrolment.create_token(&heron.tenant, &heron.instance, seconds(HOUR), setup.clone()).await;
    let (_, token) = made.unwrap().unwrap();
    let (gateway, _) = enrols(&server, &heron.program(), &token, "gw-laptop").await.unwrap();
    let listed = enrolment.tokens(None).await.unwrap();
    assert_eq!(listed[0].setup, setup);
    let got = async || {
        let setups = gateways.of(&heron.instance).await.unwrap();
        let setup = setups.into_iter().find(|setup| setup.gateway.as_str() == gateway).unwrap();
        let claims = gateways.claims_of(&heron.instance).await.unwrap();
        let claims: Vec<_> = claims.into_iter().map(|claim| (claim.on, claim.value, claim.live)).collect();
        (setup.wake_url, setup.bots, claims)
    };
    let first = got().await;
    let claimed = vec![(two.clone(), keys[0].clone(), false)];
    assert_eq!(first, (setup.wake_url.clone(), vec![two.clone()], claimed), "a claim needs proof");
    // A token without settings leaves them.
    enrols(&server, &heron.program(), &heron.token().await, "gw-laptop").await.unwrap();
    assert_eq!(got().await, first);
    // The agent has lost the bot that the keys are for. The gateway enrols all the same.
    let setup = EnrollSetup { bots: vec![bot("discord", "3")], ..setup };
    let made = enrolment.create_token(&heron.tenant, &heron.instance, seconds(HOUR), setup).await;
    enrols(&server, &heron.program(), &made.unwrap().unwrap().1, "gw-laptop").await.unwrap();
    assert_eq!(got().await.2, first.2);
}
