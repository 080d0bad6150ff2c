//! Actors of the permission matrix: one tenant with everything it owns, and others that have no permission
//! for it.

use std::sync::atomic::{AtomicU32, Ordering};

use posthouse_wire::{GatewayId, Secret, token};
use serde_json::{Value, json};
use stand_ins::telegram::TelegramStandIn;

use super::doors::{DoorRequest, WrongCaller};
use super::{Name, proxy, shared_bot};
use crate::receiver::Receiver;
use crate::talk::{PATIENCE, Rider, make_bot, provide_crypto, telegram};
use crate::test_server::TestServer;
use crate::tokens::exchanges;

/// What an agent was told, in words that no other test of this actors uses.
pub const NEWS: &str = "the words of heron's own message";

/// A caller of the HTTP API.
#[derive(Clone)]
pub struct Owner {
    pub who: &'static str,
    /// The whole `Authorization` header.
    pub authorization: Option<String>,
    /// The header in which it names its own caller.
    pub label: Option<&'static str>,
}

impl Owner {
    fn bearer(who: &'static str, token: &str) -> Self {
        Self { who, authorization: Some(format!("Bearer {token}")), label: None }
    }

    fn basic(who: &'static str, credential: &Value) -> Self {
        let authorization = basic(&text(credential, "client_id"), &text(credential, "client_secret"));
        Self { who, authorization: Some(authorization), label: None }
    }

    fn calling_itself(self, who: &'static str, label: &'static str) -> Self {
        Self { who, label: Some(label), ..self }
    }
}

/// A complete answer, without the date.
#[derive(Debug)]
pub struct RecordedResponse {
    pub status: u16,
    headers: Vec<String>,
    pub body: String,
}

impl RecordedResponse {
    pub fn whole(&self) -> String {
        format!("{} {:?} {}", self.status, self.headers, self.body)
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{}", self.whole()))
    }
}

pub struct Actors {
    pub server: TestServer,
    /// Telegram, with a bot of heron (7001), one of otter (8001), one that was removed (9001), and one that heron, wren
    /// and otter share (6001).
    pub telegram: TelegramStandIn,
    /// Kept so that the stand-in runs as long as the actors.
    _discord: stand_ins::discord::DiscordStandIn,
    _feishu: stand_ins::feishu::FeishuStandIn,
    _matrix: stand_ins::matrix::MatrixStandIn,
    _slack: stand_ins::slack::SlackStandIn,
    _whatsapp: stand_ins::whatsapp::WhatsAppStandIn,
    _twilio: stand_ins::twilio::TwilioStandIn,
    /// The webhook secret of the removed bot.
    pub removed_bot_secret: String,
    /// The same server behind a trusted proxy: every connection comes from another address.
    pub proxied_url: String,
    pub receiver: Receiver,
    /// Connected, with a question that it does not answer.
    pub heron_rides: Rider,
    pub heron: Value,
    pub otter: Value,
    pub wren: Value,
    pub gone: Value,
    /// An agent whose credentials were all revoked.
    pub finch: Value,
    /// Acme's own program, which owns everything here.
    pub acme: Owner,
    pub umbrella: Owner,
    /// Credentials of another tenant: its program (by token and by the credential itself), and its agent.
    pub other_tenants: Vec<Owner>,
    /// Revoked credentials: by command, or removed with their agent.
    pub revoked: Vec<Owner>,
    pub unknown: Vec<Owner>,
    /// Another agent of the same tenant.
    pub other_instances: Vec<Owner>,
    /// Agents of a tenant whose agents may not write to each other.
    pub silenced: Owner,
    /// The agent of that tenant that the others may not write to.
    pub silent: Name,
    /// Acme's credentials, each valid on its own paths and none on the admin API.
    pub ours: Vec<Owner>,
    pub revoked_client: Value,
    pub umbrella_client: Value,
    pub agent: Name,
    pub instance: Name,
    pub alias: Name,
    pub wired: Name,
    pub dispatch: Name,
    pub correlation: Name,
    /// A question sent to heron over its socket.
    pub asked: Name,
    pub reply_token: Name,
    pub other_reply_token: String,
    /// An entry that lies in an agent's inbox.
    pub entry: Name,
    pub entry_dispatch: String,
    callers: AtomicU32,
    client: reqwest::Client,
}

fn text(of: &Value, name: &str) -> String {
    of[name].as_str().unwrap_or_else(|| panic!("no {name} in {of}")).to_owned()
}

/// What an agent dials in with.
pub fn gateway_token(agent: &Value) -> String {
    token::mint(&GatewayId::new(text(agent, "gateway_id")), &Secret::new(text(agent, "secret")), 0, 0)
}

/// A credential itself as a header.
pub fn basic(client: &str, secret: &str) -> String {
    let request = reqwest::Client::new().get("http://127.0.0.1/").basic_auth(client, Some(secret));
    request.build().unwrap().headers()["authorization"].to_str().unwrap().to_owned()
}

/// A bot for SMS over Twilio, and a route for signed webhooks.
pub const SMS_BOT: &str = "15550100";
pub const WEBHOOK_BOT: &str = "build";
/// An AI bot of WeCom with callbacks.
pub const WECOM_BOT: &str = "AIB1";

/// A bot on WhatsApp.
pub const WHATSAPP_BOT: &str = "3001";

/// A bot of acme on Discord.
pub const DISCORD_BOT: &str = "4001";
/// A bot of acme on Feishu.
pub const FEISHU_BOT: &str = "cli_a1";
/// The user of an application service on Matrix.
pub const MATRIX_BOT: &str = "posty.hs.test";
/// A bot of acme on Slack.
pub const SLACK_BOT: &str = "UBOT1";

/// The access token that a credential is exchanged for.
async fn token_of(server: &TestServer, credential: &Value) -> String {
    text(&exchanges(server, credential).await, "access_token")
}

impl Actors {
    pub async fn gather() -> Self {
        provide_crypto();
        let bots =
            ["7001:token@heron_bot", "8001:token@otter_bot", "9001:token@no_bot", "6001:token@our_bot"];
        let telegram = telegram(&bots).await;
        let discord = stand_ins::discord::DiscordStandIn::start(stand_ins::discord::Settings {
            bots: vec![stand_ins::discord::DiscordBot::new(DISCORD_BOT, "discord.token", "heron")],
            ..stand_ins::discord::Settings::default()
        })
        .await
        .unwrap();
        let feishu = stand_ins::feishu::FeishuStandIn::start(stand_ins::feishu::Settings {
            apps: vec![format!("{FEISHU_BOT}:app-canary:encrypt-canary:verify-canary").parse().unwrap()],
            ..stand_ins::feishu::Settings::default()
        })
        .await
        .unwrap();
        let matrix = stand_ins::matrix::MatrixStandIn::start(stand_ins::matrix::Settings {
            accounts: vec!["@posty:hs.test=matrix-as-canary=matrix-hs-canary".parse().unwrap()],
            ..stand_ins::matrix::Settings::default()
        })
        .await
        .unwrap();
        let slack = stand_ins::slack::SlackStandIn::start(stand_ins::slack::Settings {
            apps: vec![stand_ins::slack::SlackApp::new("A1", "xoxb-a", "xapp-a", "slack.secret", "heron")],
            ..stand_ins::slack::Settings::default()
        })
        .await
        .unwrap();
        let whatsapp = stand_ins::whatsapp::WhatsAppStandIn::start(stand_ins::whatsapp::Settings {
            numbers: vec![
                format!("{WHATSAPP_BOT}:whatsapp-token-1:app-canary:verify-canary").parse().unwrap(),
            ],
            ..stand_ins::whatsapp::Settings::default()
        })
        .await
        .unwrap();
        let twilio = stand_ins::twilio::TwilioStandIn::start(stand_ins::twilio::Settings {
            accounts: vec![format!("AC1:twilio-canary:+{SMS_BOT}").parse().unwrap()],
            ..stand_ins::twilio::Settings::default()
        })
        .await
        .unwrap();
        let server = TestServer::open(&[
            ("POSTHOUSE_SERVER__TRUSTED_PROXIES", "127.0.0.0/8"),
            ("POSTHOUSE_PLATFORMS__TWILIO__API_BASE_URL", &twilio.base_url()),
            ("POSTHOUSE_PLATFORMS__WHATSAPP_CLOUD__API_BASE_URL", &whatsapp.base_url()),
            ("POSTHOUSE_PLATFORMS__TELEGRAM__API_BASE_URL", &telegram.base_url()),
            ("POSTHOUSE_PLATFORMS__DISCORD__API_BASE_URL", &discord.api_url()),
            ("POSTHOUSE_PLATFORMS__FEISHU__API_BASE_URL", &feishu.base_url()),
            ("POSTHOUSE_PLATFORMS__MATRIX__API_BASE_URL", &matrix.base_url()),
            ("POSTHOUSE_PLATFORMS__SLACK__API_BASE_URL", &slack.api_url()),
            ("POSTHOUSE_PLATFORMS__WEB__PAGE", "true"),
        ]);
        for bot in ["7001", "8001", "9001"] {
            make_bot(&server, bot, &format!("{bot}:token"), &["--mode", "webhook"]);
        }
        make_bot(&server, shared_bot::BOT, "6001:token", &["--mode", "webhook", "--shared"]);
        let token = server.secret_file("token", "discord.token");
        server.does(&["bot", "create", "discord", "--open", "--token-file", &token]);
        let secret = server.secret_file("feishu-secret", "app-canary");
        let key = server.secret_file("feishu-key", "encrypt-canary");
        let token = server.secret_file("feishu-token", "verify-canary");
        let app = format!("app_id={FEISHU_BOT}");
        let words = ["bot", "create", "feishu", "--open", "--app-secret-file", &secret, "--set", &app];
        server
            .does(&[&words[..], &["--encrypt-key-file", &key, "--verification-token-file", &token]].concat());
        let token = server.secret_file("slack-token", "xoxb-a");
        let secret = server.secret_file("slack-secret", "slack.secret");
        let words =
            ["bot", "create", "slack", "--open", "--token-file", &token, "--signing-secret-file", &secret];
        server.does(&words);
        let token = server.secret_file("matrix-token", "matrix-as-canary");
        let secret = server.secret_file("matrix-secret", "matrix-hs-canary");
        server.does(&[
            "bot",
            "create",
            "matrix",
            "--open",
            "--token-file",
            &token,
            "--hs-token-file",
            &secret,
        ]);
        let token = server.secret_file("whatsapp-token", "whatsapp-token-1");
        let secret = server.secret_file("whatsapp-secret", "app-canary");
        let words = ["bot", "create", "whatsapp_cloud", "--open", "--token-file", &token];
        let number = format!("phone_number_id={WHATSAPP_BOT}");
        server.does(&[&words[..], &["--app-secret-file", &secret, "--set", &number]].concat());
        let token = server.secret_file("twilio-token", "twilio-canary");
        let words =
            ["bot", "create", "sms", "--open", "--auth-token-file", &token, "--set", "account_sid=AC1"];
        server.does(&[&words[..], &["--set", &format!("number=+{SMS_BOT}")]].concat());
        let token = server.secret_file("webhook-token", "webhook-canary");
        let words = ["bot", "create", "webhook", "--id", WEBHOOK_BOT, "--set", "schemes=bearer"];
        server.does(&[&words[..], &["--bearer-token-file", &token]].concat());
        let token = server.secret_file("wecom-token", "wecom-canary");
        let key = server.secret_file("wecom-key", "canary7890123456789012345678901234567890123");
        let words =
            ["bot", "create", "wecom", "--open", "--token-file", &token, "--encoding-aes-key-file", &key];
        server.does(&[&words[..], &["--set", &format!("bot_id={WECOM_BOT}")]].concat());
        let registered = |telegram: &TelegramStandIn| {
            [7001, 8001, 9001, 6001].iter().all(|bot| telegram.webhook_secret(*bot).is_some())
        };
        assert!(telegram.until(PATIENCE, registered).await, "a bot has no webhook");
        let removed_bot_secret = telegram.webhook_secret(9001).unwrap();
        server.does(&["bot", "remove", "telegram:9001"]);
        let receiver = Receiver::open().await;
        for tenant in ["acme", "umbrella", "hermits"] {
            server.does(&["tenant", "create", tenant]);
        }
        let enrol = |name: &str, tenant: &str| {
            let words = ["agent", "create", name, "--tenant", tenant];
            match name {
                "heron" => server.does(&[&words[..], &["--bot", "telegram:7001"]].concat()),
                "otter" => server.does(&[&words[..], &["--bot", "telegram:8001"]].concat()),
                _ => server.does(&words),
            }
        };
        let [heron, wren, _, finch, gone] =
            ["heron", "wren", "crane", "finch", "dodo"].map(|name| enrol(name, "acme"));
        let [otter, _] = ["otter", "crane"].map(|name| enrol(name, "umbrella"));
        let [rook, _] = ["rook", "raven"].map(|name| enrol(name, "hermits"));
        let shared = format!("telegram:{}", shared_bot::BOT);
        for (tenant, agents) in [("acme", &["heron", "wren"][..]), ("umbrella", &["otter"])] {
            server.does(&["bot", "change", &shared, "--tenant", tenant]);
            for agent in agents {
                server.does(&["agent", "change", agent, "--tenant", tenant, "--use-bot", &shared]);
            }
        }
        server.does(&["tenant", "change", "hermits", "--peer-post", "none"]);
        for (tenant, agent) in [("acme", "desk"), ("umbrella", "till")] {
            let wired = json!({ "agents": { agent: { "url": receiver.at("good") } } });
            let settings = server.secret_file(&format!("{tenant}.json"), &wired.to_string());
            let words = ["connector", "create", "hooks", "--tenant", tenant, "--kind", "webhook"];
            server.does(&[&words[..], &["--settings", &settings]].concat());
        }
        server.does(&["alias", "create", "kestrel", "heron", "--tenant", "acme"]);

        // Credentials ended in every way: of a program, of an agent, and removed with the agent.
        let client = |tenant: &str| server.does(&["client", "create", "--tenant", tenant]);
        let revoked_client = client("acme");
        let mut revoked = vec![Owner::basic("a revoked program by its credential", &revoked_client)];
        for (who, ended) in
            [("a revoked program", &revoked_client), ("a revoked agent", &finch), ("a removed agent", &gone)]
        {
            revoked.push(Owner::bearer(who, &token_of(&server, ended).await));
        }
        revoked.push(Owner::bearer("the login of a removed agent", &text(&gone, "access_token")));
        server.does(&["client", "revoke", &text(&revoked_client, "client_id")]);
        server.does(&["agent", "revoke", "finch", "--tenant", "acme"]);
        server.does(&["agent", "remove", "dodo", "--tenant", "acme", "--yes"]);

        let (acme_client, umbrella_client) = (client("acme"), client("umbrella"));
        let acme = Owner::bearer("acme's program", &token_of(&server, &acme_client).await);
        let umbrella = Owner::bearer("umbrella's program", &token_of(&server, &umbrella_client).await);
        let otters = token_of(&server, &otter).await;
        let herons = Owner::bearer("heron", &token_of(&server, &heron).await);
        let wrens = token_of(&server, &wren).await;
        let guess = json!({ "client_id": text(&acme_client, "client_id"), "client_secret": "guessed" });
        let stranger = json!({ "client_id": "tenant:ten_nobody", "client_secret": "guessed" });
        let admin = std::fs::read_to_string(server.folder().join("admin.token")).unwrap().trim().to_owned();
        let operators = reqwest::Client::new().post(format!("{}/admin/tenants/umbrella/token", server.url));
        let operators = operators.bearer_auth(&admin).send().await.unwrap();
        let operators: Value = serde_json::from_str(&operators.text().await.unwrap()).unwrap();
        let on_the_page = text(&heron, "instance_id");
        let identities = [
            ("post", "post"),
            ("telegram", "7001"),
            ("telegram", shared_bot::BOT),
            ("web", on_the_page.as_str()),
        ];
        let heron_rides = Rider::dial(&server, &heron, &identities).await;

        let mut actors = Self {
            other_tenants: vec![
                umbrella.clone(),
                Owner::basic("umbrella's program by its credential", &umbrella_client),
                umbrella.clone().calling_itself("umbrella's program in heron's name", "heron"),
                Owner::bearer("the operator for umbrella", &text(&operators, "access_token")),
                Owner::bearer("an agent of umbrella", &otters),
                Owner::bearer("the login of an agent of umbrella", &text(&otter, "access_token")),
                Owner::bearer("an agent of umbrella in heron's name", &otters)
                    .calling_itself("an agent of umbrella in heron's name", "heron"),
            ],
            unknown: vec![
                Owner { who: "nobody", authorization: None, label: None },
                Owner::bearer("an unknown token", "eyJhbGciOiJub25lIn0.e30."),
                Owner::bearer("the admin token", &admin),
                Owner::bearer("the secret of acme's program", &text(&acme_client, "client_secret")),
                Owner::basic("a guess at the secret of acme's program", &guess),
                Owner::basic("an unknown program", &stranger),
            ],
            other_instances: vec![
                Owner::bearer("another agent of acme", &wrens),
                Owner::basic("another agent of acme by its credential", &wren),
                Owner::bearer("the login of another agent of acme", &text(&wren, "access_token")),
                Owner::bearer("", &wrens).calling_itself("another agent of acme in heron's name", "heron"),
            ],
            ours: vec![acme.clone(), Owner::basic("acme's program by its credential", &acme_client), herons],
            silenced: Owner::bearer(
                "an agent that may not write to its peers",
                &token_of(&server, &rook).await,
            ),
            silent: Name::new("raven", "robin"),
            agent: Name::new("heron", "robin"),
            instance: Name::of_id(&text(&heron, "instance_id")),
            alias: Name::new("kestrel", "buzzard"),
            wired: Name::new("desk", "disk"),
            dispatch: Name::new("d-of-heron", "d-of-robin"),
            correlation: Name::new("q-of-heron", "q-of-robin"),
            asked: Name::new("q-to-heron", "q-to-robin"),
            reply_token: Name::new("", ""),
            other_reply_token: String::new(),
            entry: Name::new("", ""),
            entry_dispatch: "d-to-crane".to_owned(),
            callers: AtomicU32::new(0),
            proxied_url: proxy::open(&server.url),
            client: reqwest::Client::new(),
            server,
            telegram,
            _discord: discord,
            _feishu: feishu,
            _matrix: matrix,
            _slack: slack,
            _whatsapp: whatsapp,
            _twilio: twilio,
            removed_bot_secret,
            receiver,
            finch,
            heron_rides,
            heron,
            otter,
            wren,
            gone,
            acme,
            umbrella,
            revoked,
            revoked_client,
            umbrella_client,
        };
        actors.own_things().await;
        actors
    }

    /// What belongs to heron and to acme: messages with their receipts, questions, an entry that waits.
    async fn own_things(&mut self) {
        let heron = self.ours[2].clone();
        let done = |heard: RecordedResponse, status: u16| {
            assert_eq!(heard.status, status, "{}", heard.whole());
            heard.json()
        };
        let news = json!({ "agent": "desk", "message": NEWS });
        let sent =
            self.asks(&heron, "POST", "/v1/notify", Some(&news), Some(&self.dispatch.there.clone())).await;
        assert_eq!(done(sent, 200)["dispatched"][0]["ok"], true);
        let ask = |agent: &str, id: &str| json!({ "agent": agent, "message": NEWS, "correlation_id": id, "timeout": 600, "wait": 0 });
        let question = ask("desk", &self.correlation.there);
        done(self.asks(&heron, "POST", "/v1/exchange", Some(&question), None).await, 202);
        let call = self.receiver.called(|call| call.reply_to().is_some()).await;
        let token = |to: &str| to.rsplit('/').next().unwrap().to_owned();
        self.reply_token = Name::of_id(&token(call.reply_to().unwrap()));
        let question = ask("till", "q-of-umbrella");
        done(self.asks(&self.umbrella, "POST", "/v1/exchange", Some(&question), None).await, 202);
        let call = self.receiver.called(|call| call.body["agent_id"] == "till").await;
        self.other_reply_token = token(call.reply_to().unwrap());

        let question = ask("heron", &self.asked.there);
        done(self.asks(&self.acme, "POST", "/v1/exchange", Some(&question), None).await, 202);
        assert!(self.heron_rides.hears().await.event.text.contains(NEWS));
        let waits = json!({ "agent": "crane", "message": NEWS });
        let sent =
            self.asks(&self.acme, "POST", "/v1/notify", Some(&waits), Some(&self.entry_dispatch)).await;
        let entry = done(sent, 200)["dispatched"][0]["receipt"]["delivery_id"].clone();
        self.entry = Name::of_id(entry.as_str().unwrap());
    }

    pub async fn asks(
        &self,
        by: &Owner,
        method: &str,
        path: &str,
        body: Option<&Value>,
        key: Option<&str>,
    ) -> RecordedResponse {
        let mut request = DoorRequest::to(path);
        if let Some(key) = key {
            request = request.with("idempotency-key", key);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        self.sends(&WrongCaller::from(by), method, &request).await
    }

    /// Sends a request with the headers of its caller.
    pub async fn sends(&self, by: &WrongCaller, method: &str, request: &DoorRequest) -> RecordedResponse {
        let url = format!("{}{}", self.server.url, request.path);
        let mut built = self.client.request(method.parse().unwrap(), url);
        built = built.header("x-forwarded-for", self.caller());
        for (name, value) in by.headers.iter().chain(&request.headers) {
            built = built.header(*name, value);
        }
        if let Some(body) = &request.body {
            built = built.body(body.clone());
        }
        let request = built;
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        // Whether the connection stays open depends on how much of the body has arrived.
        let told = |name: &str| !matches!(name, "date" | "connection");
        let headers = answer.headers().iter().filter(|(name, _)| told(name.as_str()));
        let headers = headers.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        RecordedResponse { status, headers, body: answer.text().await.unwrap() }
    }

    /// Refusals slow an address down, so every caller has another address.
    pub fn caller(&self) -> String {
        let number = self.callers.fetch_add(1, Ordering::Relaxed);
        format!("198.18.{}.{}", number / 250, number % 250 + 1)
    }

    /// Refused requests changed nothing: everything still exists, unchanged.
    pub async fn is_undisturbed(&mut self) {
        for (by, question) in [(&self.ours[2], &self.correlation), (&self.acme, &self.asked)] {
            let path = format!("/v1/exchanges/{}", question.there);
            let heard = self.asks(by, "GET", &path, None, None).await;
            assert_eq!(heard.status, 202, "somebody answered: {}", heard.whole());
        }
        let path = format!("/v1/receipts/{}", self.entry_dispatch);
        let kept = self.asks(&self.acme, "GET", &path, None, None).await.json();
        assert_eq!(
            (&kept["items"][0]["state"], &kept["items"][0]["replies"]),
            (&json!("queued"), &json!([]))
        );
        let listed = self.asks(&self.acme, "GET", "/v1/receipts", None, None).await.json();
        let sent: Vec<&str> =
            listed["items"].as_array().unwrap().iter().map(|item| item["route"].as_str().unwrap()).collect();
        assert_eq!(sent, ["deliver", "exchange", "exchange", "deliver"], "{listed}");
        let shown = self.server.does(&["connector", "list"]);
        assert_eq!(shown["items"].as_array().unwrap().len(), 2, "{shown}");
        assert_eq!(self.server.does(&["alias", "list"])["items"][0]["name"], "kestrel");
        assert_eq!(self.server.does(&["tenant", "show", "acme"])["peer_post"], "all");
        let agents = self.server.does(&["agent", "list", "--tenant", "acme"]);
        assert_eq!(agents["items"].as_array().unwrap().len(), 4, "{agents}");
        self.nobody_got_through().await;
    }

    /// Sends a last message: whatever reached heron or the webhook must have arrived before it.
    async fn nobody_got_through(&mut self) {
        const MARKER: &str = "a message that is sent last";
        for agent in ["heron", "desk"] {
            let marker = json!({ "agent": agent, "message": MARKER });
            let sent = self.asks(&self.acme, "POST", "/v1/notify", Some(&marker), None).await;
            assert_eq!(sent.status, 200, "{}", sent.whole());
        }
        let heard = self.heron_rides.hears().await.event.text;
        assert!(heard.contains(MARKER), "somebody got through to heron: {heard}");
        self.receiver.called(|call| call.body.to_string().contains(MARKER)).await;
        let calls = self.receiver.calls();
        assert_eq!(calls.len(), 4, "somebody got through to a webhook: {calls:?}");
    }
}
