//! Gateways that provision themselves when they start.

use identity::{
    AgentCredential, Authentication, GatewayChange, GatewayChanged, Principal, ProvisionedGateway,
};
use ledger::{AdmittedTenant, BotRef, Owner};
use posthouse_wire::enrolment::ProvisionCall;
use posthouse_wire::{Secret, TenantId, token};
use serde_json::{Value, json};

use crate::fixtures::{TestAgent, TestServer, bot, headers, here, seconds};

const HOUR: u64 = 3600;

/// A tenant whose gateways provision themselves.
struct SelfHoster {
    server: TestServer,
    tenant: TenantId,
    by: Principal,
}

/// A call of a gateway with this name, with further fields.
fn call(name: &str, fields: Value) -> ProvisionCall {
    let mut body = json!({
        "gatewayId": name, "platform": "relay", "botId": "", "gatewayEndpoint": "", "routeKeys": [],
    });
    for (field, value) in fields.as_object().unwrap() {
        body[field] = value.clone();
    }
    serde_json::from_value(body).unwrap()
}

impl SelfHoster {
    async fn of(server: &TestServer, name: &str) -> Self {
        let created = server.identity.accounts.create_tenant(name).await.unwrap().unwrap();
        let tenant = match created {
            Some(tenant) => tenant.id,
            None => server.ledger.roster().tenant(name).await.unwrap().unwrap().id,
        };
        let by = Principal::Tenant { tenant: tenant.clone(), client: Owner::Tenant(tenant.clone()).client() };
        Self { server: server.clone(), tenant, by }
    }

    async fn asks(&self, call: &ProvisionCall) -> Option<ProvisionedGateway> {
        self.server.identity.gateway_provisioning.provision(&self.by, call).await.unwrap()
    }

    async fn agents(&self) -> Vec<String> {
        let agents = self.server.ledger.roster().instances(Some(&self.tenant)).await.unwrap();
        agents.into_iter().map(|agent| agent.name).collect()
    }

    async fn opens(&self, got: &ProvisionedGateway) -> bool {
        opens(&self.server, got.gateway.as_str(), &got.secret).await
    }
}

impl TestServer {
    /// A shared bot that the agents of one tenant, or of every tenant, may use.
    async fn has_shared_bot(&self, on: &BotRef, tenant: Option<&TenantId>) {
        self.has_bot(on, true).await;
        let admitted = tenant.map_or(AdmittedTenant::Every, |tenant| AdmittedTenant::One(tenant.clone()));
        assert!(self.ledger.shared_bots().admit_tenant(on, &admitted).await.unwrap());
    }

    async fn bots_used_by(&self, of: &ProvisionedGateway) -> Vec<BotRef> {
        self.ledger.roster().bots_used_by(&of.instance).await.unwrap()
    }
}

async fn opens(server: &TestServer, gateway: &str, secret: &Secret) -> bool {
    let token = token::mint(&gateway.into(), secret, 300, server.clock.now().seconds());
    let headers = headers(&format!("Bearer {token}"));
    let checked = server.identity.authenticator.connecting_agent(&headers, here()).await.unwrap();
    matches!(checked, Authentication::Known(_))
}

#[tokio::test]
async fn a_gateway_gets_an_agent_of_its_own_and_keeps_its_first_secret_for_ten_minutes() {
    let server = TestServer::open().await;
    let acme = SelfHoster::of(&server, "acme").await;
    let first = acme.asks(&call("gw-laptop", json!({}))).await.unwrap();
    assert!(acme.opens(&first).await);
    assert_eq!(
        (acme.agents().await, first.tenant.clone()),
        (vec!["gw-laptop".to_owned()], acme.tenant.clone())
    );
    server.winds(seconds(599));
    let second = acme.asks(&call("gw-laptop", json!({}))).await.unwrap();
    assert_eq!((second.secret.expose(), &second.gateway), (first.secret.expose(), &first.gateway));
    // A step of the wall clock changes nothing: the age is in ledger time.
    server.clock.set(server.clock.now() + seconds(30 * HOUR));
    let stepped = acme.asks(&call("gw-laptop", json!({}))).await.unwrap();
    assert_eq!(stepped.secret.expose(), first.secret.expose());
    server.winds(seconds(1));
    let third = acme.asks(&call("gw-laptop", json!({}))).await.unwrap();
    assert_ne!(third.secret.expose(), first.secret.expose());
    assert_eq!((&third.gateway, &third.instance), (&first.gateway, &first.instance));
    assert!(acme.opens(&first).await && acme.opens(&third).await, "the old secret stays valid for a day");
    server.winds(seconds(25 * HOUR));
    assert!(!acme.opens(&first).await && acme.opens(&third).await);
    let by_id = acme.asks(&call(first.gateway.as_str(), json!({}))).await.unwrap();
    assert_eq!(
        (by_id.gateway, by_id.instance),
        (first.gateway, first.instance),
        "it may propose the id it got"
    );
    assert_eq!(acme.agents().await.len(), 1);
}

#[tokio::test]
async fn two_tenants_with_one_host_name_get_agents_and_credentials_of_their_own() {
    let server = TestServer::open().await;
    let (acme, globex) = (SelfHoster::of(&server, "acme").await, SelfHoster::of(&server, "globex").await);
    let one = acme.asks(&call("gw-raspberrypi", json!({}))).await.unwrap();
    let two = globex.asks(&call("gw-raspberrypi", json!({}))).await.unwrap();
    assert!(one.gateway != two.gateway && one.instance != two.instance);
    assert_ne!(one.delivery_key.expose(), two.delivery_key.expose());
    // Naming the other's credential or agent gives neither.
    let guessed = globex.asks(&call(one.gateway.as_str(), json!({}))).await.unwrap();
    assert!(guessed.gateway != one.gateway && guessed.instance != one.instance);
    for wanted in [one.instance.as_str(), "inst_unknown"] {
        assert!(globex.asks(&call("gw-x", json!({ "instanceId": wanted }))).await.is_none(), "{wanted}");
    }
    assert!(acme.opens(&one).await, "nobody rotated it away");
}

#[tokio::test]
async fn a_gateway_can_name_its_agent_by_id_or_by_a_name_that_is_created() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let acme = SelfHoster::of(&server, "acme").await;
    for wanted in [heron.instance.as_str(), "heron", " heron "] {
        let got = acme.asks(&call("gw-1", json!({ "instanceId": wanted }))).await.unwrap();
        assert_eq!(got.instance, heron.instance);
    }
    let wren = acme.asks(&call("gw-1", json!({ "instanceId": "wren" }))).await.unwrap();
    assert_ne!(wren.instance, heron.instance);
    assert_eq!(acme.agents().await, ["heron", "wren"]);
    for unfit in ["two words", "-x", "x".repeat(65).as_str(), "../x"] {
        assert!(acme.asks(&call("gw-1", json!({ "instanceId": unfit }))).await.is_none(), "{unfit}");
    }
    // A name that is taken gets a number, and the gateway finds that agent again.
    server.enrol("acme", "gw-desk", &[]).await;
    let desk = acme.asks(&call("gw-desk", json!({}))).await.unwrap();
    let again = acme.asks(&call("gw-desk", json!({ "instanceId": "" }))).await.unwrap();
    assert_eq!(desk.instance, again.instance);
    assert_eq!(acme.agents().await, ["gw-desk", "gw-desk-2", "heron", "wren"]);
}

#[tokio::test]
async fn an_agent_provisions_only_itself() {
    let server = TestServer::open().await;
    let (heron, egret) = (server.heron().await, server.enrol("acme", "egret", &[]).await);
    let itself = async |agent: &TestAgent| {
        let client = Owner::Instance(agent.instance.clone()).client();
        Principal::Agent { agent: agent.record().await, by: AgentCredential::Client(client) }
    };
    let provisioning = &server.identity.gateway_provisioning;
    let by = itself(&heron).await;
    for own in [json!({}), json!({ "instanceId": "heron" }), json!({ "instanceId": heron.instance })] {
        let got = provisioning.provision(&by, &call("gw-1", own)).await.unwrap().unwrap();
        assert_eq!(got.instance, heron.instance);
    }
    for other in ["egret", egret.instance.as_str(), "new"] {
        let got = provisioning.provision(&by, &call("gw-1", json!({ "instanceId": other }))).await.unwrap();
        assert!(got.is_none(), "{other}");
    }
    for nobody in
        [Principal::Operator, Principal::Issued { tenant: "ten_gone".into(), issuer: String::new() }]
    {
        assert!(provisioning.provision(&nobody, &call("gw-1", json!({}))).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_bot_is_given_only_to_a_tenant_that_may_use_it() {
    let server = TestServer::open().await;
    let (acme, globex) = (SelfHoster::of(&server, "acme").await, SelfHoster::of(&server, "globex").await);
    let owned = bot("telegram", "7001");
    let heron = server.enrol("acme", "heron", std::slice::from_ref(&owned)).await;
    let (shared, foreign) = (bot("discord", "1"), bot("discord", "2"));
    server.has_shared_bot(&shared, Some(&acme.tenant)).await;
    server.has_shared_bot(&foreign, Some(&globex.tenant)).await;
    let on = |on: &BotRef| json!({ "platform": on.platform, "botId": on.bot });
    let got = acme.asks(&call("gw-1", on(&shared))).await.unwrap();
    assert_eq!(server.bots_used_by(&got).await, std::slice::from_ref(&shared));
    // Without an id it is the only one that the tenant may use.
    let got = acme.asks(&call("gw-1", json!({ "platform": "discord" }))).await.unwrap();
    assert_eq!(server.bots_used_by(&got).await, std::slice::from_ref(&shared));
    let agents = acme.agents().await;
    for wrong in [on(&foreign), on(&owned), on(&bot("discord", "3")), json!({ "platform": "slack" })] {
        assert!(acme.asks(&call("gw-new", wrong.clone())).await.is_none(), "{wrong}");
    }
    assert_eq!(acme.agents().await, agents, "a refusal creates nothing");
    // The owner of a bot needs no admission.
    let mut owners = on(&owned);
    owners["instanceId"] = json!(heron.instance);
    assert!(acme.asks(&call("gw-1", owners.clone())).await.is_some());
    owners["botId"] = json!("");
    assert!(acme.asks(&call("gw-1", owners)).await.is_some());
    // Of two, neither is the only one.
    server.has_shared_bot(&bot("discord", "4"), None).await;
    assert!(acme.asks(&call("gw-2", json!({ "platform": "discord" }))).await.is_none());
    assert!(acme.asks(&call("gw-1", json!({ "platform": "discord" }))).await.is_some(), "it has one already");
}

#[tokio::test]
async fn a_gateway_that_the_operator_limited_gets_no_other_bot() {
    let server = TestServer::open().await;
    let acme = SelfHoster::of(&server, "acme").await;
    let (one, two) = (bot("discord", "1"), bot("discord", "2"));
    server.has_shared_bot(&one, None).await;
    server.has_shared_bot(&two, None).await;
    let got = acme.asks(&call("gw-1", json!({}))).await.unwrap();
    let limit = GatewayChange { bots: Some(vec![two.clone()]), ..Default::default() };
    assert_eq!(
        server.identity.gateways.change(&got.instance, &got.gateway, limit).await.unwrap(),
        GatewayChanged::Done
    );
    assert!(acme.asks(&call("gw-1", json!({ "platform": "discord", "botId": "1" }))).await.is_none());
    acme.asks(&call("gw-1", json!({ "platform": "discord" }))).await.unwrap();
    assert_eq!(server.bots_used_by(&got).await, [two]);
}

#[tokio::test]
async fn a_revoked_gateway_does_not_come_back_by_asking_again() {
    let server = TestServer::open().await;
    let acme = SelfHoster::of(&server, "acme").await;
    let got = acme.asks(&call("gw-1", json!({}))).await.unwrap();
    let which = identity::WhichCredentials::Gateway(got.gateway.clone());
    server.identity.accounts.revoke(&got.instance, which).await.unwrap();
    for name in ["gw-1", got.gateway.as_str()] {
        assert!(acme.asks(&call(name, json!({}))).await.is_none(), "{name}");
    }
    assert!(!acme.opens(&got).await);
    // Enrolling it with a token is the operator's consent.
    let enrolment = &server.identity.gateway_enrolment;
    let (_, token) = enrolment
        .create_token(&acme.tenant, &got.instance, seconds(HOUR), Default::default())
        .await
        .unwrap()
        .unwrap();
    enrolment.enrol(&acme.by, token.expose(), "gw-1").await.unwrap().unwrap();
    assert_ne!(acme.asks(&call("gw-1", json!({}))).await.unwrap().gateway, got.gateway);
}

#[tokio::test]
async fn declared_settings_are_stored_and_an_unusable_wake_url_is_only_a_warning() {
    let server = TestServer::open().await;
    let acme = SelfHoster::of(&server, "acme").await;
    let wake_url = async |got: &ProvisionedGateway| {
        server.ledger.roster().instance(&got.instance).await.unwrap().unwrap().wake_url
    };
    let name =
        async |got: &ProvisionedGateway| server.identity.gateways.display_name(&got.instance).await.unwrap();
    let url = "http://127.0.0.1:9/wake";
    let got = acme.asks(&call("gw-1", json!({ "wakeUrl": url, "displayName": "  Heron  " }))).await.unwrap();
    assert_eq!((wake_url(&got).await.as_deref(), name(&got).await.as_deref()), (Some(url), Some("Heron")));
    assert!(got.warnings.is_empty());
    for (unusable, long) in [
        ("http://10.0.0.1/wake", "x".repeat(100)),
        ("http://0x0a000001/wake", "x".repeat(100)),
        ("http://[::ffff:169.254.169.254]/", "x".repeat(100)),
        ("http://2852039166/latest", "x".repeat(100)),
        ("ftp://example.com/", "x".repeat(100)),
        ("http://user@example.com/", "x".repeat(100)),
        ("not a url", "x".repeat(100)),
    ] {
        let got =
            acme.asks(&call("gw-1", json!({ "wakeUrl": unusable, "displayName": long }))).await.unwrap();
        assert_eq!(got.warnings.len(), 1, "{unusable}");
        assert!(!got.warnings[0].contains(unusable), "no text repeats a URL");
        assert_eq!(wake_url(&got).await.as_deref(), Some(url), "the earlier one stays");
        assert_eq!(name(&got).await.unwrap(), "x".repeat(64));
    }
    acme.asks(&call("gw-1", json!({ "displayName": "a\u{7}b" }))).await.unwrap();
    acme.asks(&call("gw-1", json!({ "displayName": null, "wakeUrl": null }))).await.unwrap();
    assert_eq!((wake_url(&got).await.as_deref(), name(&got).await), (Some(url), Some("x".repeat(64))));
}

#[tokio::test]
async fn only_proven_route_keys_are_live_and_nobody_learns_whose_the_others_are() {
    let server = TestServer::open().await;
    let (acme, globex) = (SelfHoster::of(&server, "acme").await, SelfHoster::of(&server, "globex").await);
    let on = bot("discord", "1");
    server.has_shared_bot(&on, None).await;
    let ask = |keys: Value| call("gw-1", json!({ "platform": "discord", "botId": "1", "routeKeys": keys }));
    let one = acme.asks(&ask(json!(["guild-1", "guild-2"]))).await.unwrap();
    assert!(one.route_keys.is_empty(), "anyone can name a guild");
    let granted = ledger::Discriminator::Scope("guild-1".into());
    server.ledger.claims().grant_claim(&one.instance, &on, &granted).await.unwrap();
    let one = acme.asks(&ask(json!(["guild-1", "guild-2"]))).await.unwrap();
    assert_eq!(one.route_keys, ["guild-1"]);
    let two = globex.asks(&ask(json!(["guild-1", "guild-2", "guild-3"]))).await.unwrap();
    assert!(two.route_keys.is_empty(), "taken, unproven and unknown ones look alike");
}

#[tokio::test]
async fn the_operator_declares_route_keys_for_a_gateway_that_never_provisions() {
    let server = TestServer::open().await;
    let acme = SelfHoster::of(&server, "acme").await;
    let (one, two) = (bot("discord", "1"), bot("discord", "2"));
    server.has_shared_bot(&one, None).await;
    server.has_shared_bot(&two, None).await;
    let got = acme.asks(&call("gw-1", json!({}))).await.unwrap();
    let gateways = &server.identity.gateways;
    let keys = |keys: &[&str]| GatewayChange {
        route_keys: Some(keys.iter().map(|key| (*key).to_owned()).collect()),
        ..GatewayChange::default()
    };
    let change = async |change| gateways.change(&got.instance, &got.gateway, change).await.unwrap();
    assert_eq!(change(keys(&["guild-1"])).await, GatewayChanged::UnclearBot, "it has no shared bot");
    acme.asks(&call("gw-1", json!({ "platform": "discord", "botId": "1" }))).await.unwrap();
    assert_eq!(change(keys(&["guild-1", "guild-2"])).await, GatewayChanged::Done);
    let claimed = async || {
        let claims = gateways.claims_of(&got.instance).await.unwrap();
        claims.into_iter().map(|claim| (claim.value, claim.live)).collect::<Vec<_>>()
    };
    assert_eq!(claimed().await, [("guild-1".to_owned(), false), ("guild-2".to_owned(), false)]);
    acme.asks(&call("gw-1", json!({ "platform": "discord", "botId": "2" }))).await.unwrap();
    assert_eq!(change(keys(&["guild-1"])).await, GatewayChanged::UnclearBot, "it has two");
    let limited = GatewayChange { bots: Some(vec![two]), ..keys(&["guild-3"]) };
    assert_eq!(change(limited).await, GatewayChanged::Done);
    assert_eq!(claimed().await, [("guild-3".to_owned(), false)]);
    assert_eq!(change(keys(&[])).await, GatewayChanged::Done);
    assert_eq!(claimed().await, []);
}

#[tokio::test]
async fn many_calls_at_once_make_one_agent_with_one_secret() {
    let server = TestServer::open().await;
    let acme = SelfHoster::of(&server, "acme").await;
    let calls = (0..3).map(|_| {
        let (server, by) = (server.clone(), acme.by.clone());
        tokio::spawn(async move {
            let call = call("gw-1", json!({}));
            server.identity.gateway_provisioning.provision(&by, &call).await.unwrap().unwrap()
        })
    });
    let mut secrets = std::collections::HashSet::new();
    for got in calls.collect::<Vec<_>>() {
        secrets.insert(got.await.unwrap().secret.expose().to_owned());
    }
    assert_eq!((secrets.len(), acme.agents().await.len()), (1, 1));
}

#[tokio::test]
async fn a_tenant_cannot_create_agents_without_end() {
    let server = TestServer::open().await;
    let (acme, globex) = (SelfHoster::of(&server, "acme").await, SelfHoster::of(&server, "globex").await);
    for number in 0..ledger::AGENTS_BY_PROVISIONING {
        assert!(acme.asks(&call(&format!("gw-{number}"), json!({}))).await.is_some());
    }
    assert!(acme.asks(&call("gw-one-more", json!({}))).await.is_none());
    assert!(acme.asks(&call("gw-7", json!({}))).await.is_some(), "known ones are still served");
    assert!(globex.asks(&call("gw-one-more", json!({}))).await.is_some());
}

#[tokio::test]
async fn an_agent_and_its_tenant_are_removed_with_what_provisioning_left() {
    let server = TestServer::open().await;
    let acme = SelfHoster::of(&server, "acme").await;
    let on = bot("discord", "1");
    server.has_shared_bot(&on, None).await;
    let wanted = json!({ "platform": "discord", "routeKeys": ["g"], "wakeUrl": "http://127.0.0.1:9/" });
    let got = acme.asks(&call("gw-1", wanted)).await.unwrap();
    let limit = GatewayChange { bots: Some(vec![on]), ..Default::default() };
    server.identity.gateways.change(&got.instance, &got.gateway, limit).await.unwrap();
    let accounts = &server.identity.accounts;
    assert_eq!(accounts.remove_agent(&got.instance).await.unwrap(), ledger::Removed::Gone);
    let again = acme.asks(&call("gw-1", json!({}))).await.unwrap();
    assert_ne!(again.instance, got.instance, "a removed agent is made anew");
    accounts.remove_agent(&again.instance).await.unwrap();
    assert_eq!(accounts.remove_tenant(&acme.tenant).await.unwrap(), ledger::Removed::Gone);
}

#[tokio::test]
async fn where_provisioning_is_closed_gateways_get_only_agents_that_exist() {
    let server = TestServer::open().await;
    let (acme, globex) = (SelfHoster::of(&server, "acme").await, SelfHoster::of(&server, "globex").await);
    let first = acme.asks(&call("gw-1", json!({}))).await.unwrap();
    let provisioning = &server.identity.gateway_provisioning;
    assert!(provisioning.may_create_agents(&acme.tenant).await.unwrap());
    provisioning.set_may_create_agents(&acme.tenant, false).await.unwrap();
    assert!(!provisioning.may_create_agents(&acme.tenant).await.unwrap());
    assert!(acme.asks(&call("gw-2", json!({}))).await.is_none());
    assert!(acme.asks(&call("gw-2", json!({ "instanceId": "crane" }))).await.is_none());
    assert_eq!(acme.agents().await, ["gw-1"]);
    assert_eq!(acme.asks(&call("gw-1", json!({}))).await.unwrap().instance, first.instance);
    let named = acme.asks(&call("gw-2", json!({ "instanceId": "gw-1" }))).await.unwrap();
    assert_eq!(named.instance, first.instance);
    assert!(globex.asks(&call("gw-2", json!({}))).await.is_some(), "another tenant's switch");
    provisioning.set_may_create_agents(&acme.tenant, true).await.unwrap();
    assert!(acme.asks(&call("gw-3", json!({}))).await.is_some());
}
