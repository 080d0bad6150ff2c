//! Routes: which agent gets the events of a bot.

use http::{Method, StatusCode};
use serde_json::json;

use crate::pigeon::TOKEN;
use crate::test_server::TestServer;

#[tokio::test]
async fn an_owned_bot_can_be_given_to_an_agent_later() {
    let server = TestServer::open().await;
    server.makes("/admin/tenants", json!({ "name": "acme" })).await;
    server.makes("/admin/bots", json!({ "platform": "pigeon", "secrets": { "token": TOKEN } })).await;
    let heron = server.makes("/admin/agents", json!({ "tenant": "acme", "name": "heron" })).await;
    assert_eq!(heron["env"]["GATEWAY_RELAY_PLATFORMS"], "");

    let all = json!({ "platform": "pigeon", "bot": "7001", "discriminator": "*", "agent": "heron", "tenant": "acme" });
    let made = server.makes("/admin/routes", all.clone()).await;
    assert_eq!((&made["agent"], &made["instance_id"]), (&json!("heron"), &heron["instance_id"]));
    assert_eq!(server.refuses(Method::POST, "/admin/routes", Some(all)).await, (409, "taken".to_owned()));
    let listed = server.gets("/admin/routes").await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&listed["items"][0]["discriminator"], &listed["items"][0]["tenant"]),
        (&json!("*"), &json!("acme"))
    );
    assert_eq!(server.gets("/admin/bots/pigeon/7001").await["instance_id"], heron["instance_id"]);

    let one = "/admin/routes?platform=pigeon&bot=7001&discriminator=*";
    assert_eq!(server.asks(Method::DELETE, one, None).await.0, StatusCode::OK);
    assert_eq!(server.refuses(Method::DELETE, one, None).await, (404, "no_such_route".to_owned()));
}

#[tokio::test]
async fn a_shared_bot_is_routed_part_by_part() {
    let server = TestServer::open().await;
    server.makes("/admin/tenants", json!({ "name": "acme" })).await;
    server.makes("/admin/agents", json!({ "tenant": "acme", "name": "heron" })).await;
    let bot = json!({ "platform": "pigeon", "id": "loft", "shared": true, "secrets": { "token": TOKEN } });
    assert_eq!(server.makes("/admin/bots", bot).await["id"], "loft");
    let route = |which: &str| json!({ "platform": "pigeon", "bot": "loft", "discriminator": which, "agent": "heron" });
    for which in ["chat:-1001", "scope:guild:with:colons", "path:a/b"] {
        assert_eq!(server.makes("/admin/routes", route(which)).await["discriminator"], which);
    }
    for (which, refusal) in
        [("*", "unfit_route"), ("chat:", "bad_discriminator"), ("room:5", "bad_discriminator")]
    {
        let (status, code) = server.refuses(Method::POST, "/admin/routes", Some(route(which))).await;
        assert_eq!((status, code.as_str()), (422, refusal), "{which}");
    }
    let mut strange = route("chat:7");
    strange["agent"] = json!("nobody");
    assert_eq!(
        server.refuses(Method::POST, "/admin/routes", Some(strange)).await,
        (404, "no_such_agent".to_owned())
    );
}

#[tokio::test]
async fn what_happens_to_stale_messages_is_set_per_route_and_per_agent() {
    let (server, _) = TestServer::settled().await;
    let shared = json!({ "platform": "pigeon", "id": "loft", "shared": true, "secrets": { "token": TOKEN } });
    server.makes("/admin/bots", shared).await;
    let mark = json!({ "after_seconds": 7200, "action": "mark" });
    let route = json!({
        "platform": "pigeon", "bot": "loft", "discriminator": "chat:5", "agent": "heron", "staleness": mark
    });
    assert_eq!(server.makes("/admin/routes", route).await["staleness"], mark);
    let path = "/admin/routes?platform=pigeon&bot=loft&discriminator=chat:5";
    let expire = json!({ "after_seconds": 60, "action": "expire" });
    for setting in [expire, json!(null)] {
        let (status, shown) = server.asks(Method::PATCH, path, Some(json!({ "staleness": setting }))).await;
        assert_eq!(
            (status, &shown["staleness"], &shown["agent"]),
            (StatusCode::OK, &setting, &json!("heron"))
        );
        let listed = server.gets("/admin/routes?platform=pigeon").await;
        let found = listed["items"].as_array().unwrap().iter().find(|route| route["bot"] == "loft").unwrap();
        assert_eq!(found["staleness"], setting);
    }
    for (body, refusal) in [
        (json!({}), (400, "malformed")),
        (json!({ "staleness": { "after_seconds": 0, "action": "mark" } }), (422, "bad_staleness")),
        (json!({ "staleness": { "after_seconds": 604_801, "action": "mark" } }), (422, "bad_staleness")),
        (json!({ "staleness": { "after_seconds": 60, "action": "burn" } }), (422, "bad_staleness")),
    ] {
        let (status, code) = server.refuses(Method::PATCH, path, Some(body.clone())).await;
        assert_eq!((status, code.as_str()), refusal, "{body}");
    }
    let absent = "/admin/routes?platform=pigeon&bot=loft&discriminator=chat:6";
    let refused = server.refuses(Method::PATCH, absent, Some(json!({ "staleness": null }))).await;
    assert_eq!(refused, (404, "no_such_route".to_owned()));

    let agent = "/admin/agents/heron";
    for setting in [mark, json!(null)] {
        let (status, shown) = server.asks(Method::PATCH, agent, Some(json!({ "staleness": setting }))).await;
        assert_eq!((status, &shown["staleness"]), (StatusCode::OK, &setting));
        assert_eq!(server.gets(agent).await["staleness"], setting);
    }
}
