//! Secrets do not leak through skills, data and tools: everything that their use produces, successful or not, is
//! searched for the secrets that went in.

use std::io::Write;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::matrix::basic;
use crate::receiver::Receiver;
use crate::skill_cli::{IN_BASE64, PRIVATE_KEY, PUBLIC_KEY};
use crate::test_server::{BINARY, TestServer, files};
use crate::tokens::exchanges;
use crate::tools::stdio::start_stdio;

const AUTHORIZATION: &str = "Bearer CANARY-of-a-connector";
const SHARED: &str = "CANARY-of-a-shared-secret";
/// Secrets of the stores of a tenant that lie elsewhere, of its skills, and of `connectors.json`.
const STORE_AUTHORIZATION: &str = "CANARY-of-a-remote-store";
const STORE_HMAC: &str = "CANARY-of-a-signed-store";
const OF_SKILLS: &str = "CANARY-of-the-skills";
const OF_A_TOOL: &str = "CANARY-of-a-tool-server";
const OF_A_MODEL: &str = "CANARY-of-a-model-server";
/// Keys of tool servers in places of their own: the query of the URL, a member that nobody knows, an argument, and the
/// environment of a child process.
const IN_A_URL: &str = "CANARY-in-the-url-of-a-tool-server";
const IN_A_MEMBER: &str = "CANARY-in-a-member-of-a-tool-server";
const IN_AN_ARGUMENT: &str = "CANARY-in-an-argument-of-a-child";
const IN_AN_ENVIRONMENT: &str = "CANARY-in-the-environment-of-a-child";
/// A child process that answers every message with an error, in which it repeats its own secrets.
const ECHOES: &str = "id=1; while read -r line; do \
    printf '{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-1,\"message\":\"refused %s %s\"}}\\n' $id $0 $KEY; done";
/// A skill that sends its secret to a tool, asks the model, and writes to an agent.
const KEYED: &str = "# Skill: keyed\n# Status: Approved\n# Requires: secret.KEY\ngo:\n    \
    $ svc.echo key=\"Bearer {{secret.KEY}}\" -> R (fallback: \"x\")\n    \
    $ url.echo key=\"{{secret.KEY}}\" -> R (fallback: \"x\")\n    \
    $ child.echo key=\"{{secret.KEY}}\" -> R (fallback: \"x\")\n    \
    $ llm prompt=\"hello\" -> M (fallback: \"x\")\n    \
    notify(agent=\"heron\", message=\"done\")\n    emit(text=\"${R} ${M}\")\n    \
    $ svc.echo key=\"{{secret.KEY}}\"\ndefault: go\n";
const SKILL: &str = "# Skill: tide\n# Status: Approved\ngo:\n    emit(text=\"high\")\n";

/// Makes calls with one credential, and keeps all answers.
struct Prober {
    url: String,
    client: reqwest::Client,
    answers: Vec<String>,
}

impl Prober {
    async fn asks(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, String) {
        let mut request =
            self.client.request(method.parse().unwrap(), format!("{}{path}", self.url)).body(body.to_owned());
        request = request.header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.send().await.unwrap();
        let (status, headers) = (answer.status().as_u16(), format!("{:?}", answer.headers()));
        let body = answer.text().await.unwrap();
        self.answers.push(format!("{method} {path}: {status} {headers} {body}"));
        (status, body)
    }

    /// Calls the routes below `/v1`, with good and bad requests.
    async fn uses_stores(&mut self, authorization: &str) {
        let headers = [("authorization", authorization)];
        let id = {
            let entry = json!({ "content": "high tide", "tags": ["sea"] }).to_string();
            let (status, body) = self.asks("POST", "/v1/data", &headers, &entry).await;
            assert_eq!(status, 201, "{body}");
            serde_json::from_str::<Value>(&body).unwrap()["id"].as_str().unwrap().to_owned()
        };
        for (method, path, body) in [
            ("PUT", "/v1/skills/tide", json!({ "source": SKILL }).to_string()),
            ("PUT", "/v1/skills/tide", "{".to_owned()),
            ("PUT", "/v1/skills/tide", json!({ "source": "x", "author": "nobody else" }).to_string()),
            ("PUT", "/v1/skills/..%2Ftide", json!({ "source": "x" }).to_string()),
            ("POST", "/v1/skills/tide/status", json!({ "status": "Approved" }).to_string()),
            ("GET", "/v1/skills", String::new()),
            ("GET", "/v1/skills/tide", String::new()),
            ("GET", "/v1/skills/ghost", String::new()),
            ("GET", "/v1/skills/tide/versions", String::new()),
            ("GET", "/v1/skill-catalogue?audience=all", String::new()),
            ("GET", "/v1/skill-store", String::new()),
            ("GET", "/v1/data", String::new()),
            ("GET", &format!("/v1/data/{id}"), String::new()),
            ("GET", "/v1/data/ghost", String::new()),
            ("GET", "/v1/data-store", String::new()),
            ("POST", "/v1/data/query", json!({ "query": "tide" }).to_string()),
            ("POST", "/v1/data/query", json!({ "query": "raw:(" }).to_string()),
            ("POST", "/v1/data/query", json!({ "query": "tide", "colour": "red" }).to_string()),
            ("DELETE", "/v1/skills/ghost", String::new()),
        ] {
            self.asks(method, path, &headers, &body).await;
        }
    }

    /// Every tool of both surfaces, with arguments and without.
    async fn uses_tools(&mut self, authorization: &str) {
        let headers = [("authorization", authorization), ("x-agent-id", "heron")];
        for path in ["/rpc", "/mcp"] {
            let listed = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
            let (_, body) = self.asks("POST", path, &headers, &listed).await;
            let line = body.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&body);
            let listed: Value = serde_json::from_str(line).unwrap();
            let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{body}")).clone();
            assert!(tools.len() > 8, "{body}");
            for tool in tools {
                for arguments in [
                    json!({}),
                    json!({ "name": "tide", "source": SKILL, "overwrite": true, "new_state": "Approved",
                        "query": "tide", "content": "low tide", "agent": "desk", "message": "hello",
                        "timeout": 1, "wait": 0 }),
                ] {
                    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
                        "params": { "name": tool["name"], "arguments": arguments } });
                    self.asks("POST", path, &headers, &call.to_string()).await;
                }
            }
            for junk in ["", "{", "[]", "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ghost\"}"] {
                self.asks("POST", path, &headers, junk).await;
            }
        }
        let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "probe", "version": "1" } } });
        self.asks("POST", "/mcp", &headers, &initialize.to_string()).await;
    }

    /// What a command prints.
    fn runs(&mut self, server: &TestServer, words: &[&str], env: &[(&str, &str)]) {
        for json in [&["--json"][..], &[]] {
            let output = Command::new(BINARY)
                .args(json)
                .arg("--dir")
                .arg(server.folder())
                .args(words)
                .envs(env.iter().copied())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert!(output.status.success(), "{words:?}: {said}");
            self.answers.push(format!("{words:?}: {said}"));
        }
    }
}

/// A tenant whose skills and data lie elsewhere, at an address that answers nonsense. Returns its credential.
async fn uses_remote_stores(server: &TestServer, prober: &mut Prober, receiver: &Receiver) -> Value {
    server.does(&["tenant", "create", "zen"]);
    let (authorization, hmac) = (
        server.secret_file("store.authorization", &format!("Bearer {STORE_AUTHORIZATION}")),
        server.secret_file("store.hmac", STORE_HMAC),
    );
    let url = receiver.at("nonsense");
    for kind in ["skill", "data"] {
        let [store, by_header, by_signature] =
            ["", "-authorization-file", "-hmac-secret-file"].map(|end| format!("--{kind}-store{end}"));
        let change =
            ["tenant", "change", "zen", &store, &url, &by_header, &authorization, &by_signature, &hmac];
        prober.runs(server, &change, &[]);
    }
    let made = server.does(&["client", "create", "--tenant", "zen"]);
    let authorization = basic(&text(&made, "client_id"), &text(&made, "client_secret"));
    let headers = [("authorization", authorization.as_str())];
    let before = receiver.calls().len();
    for (method, path, body) in [
        ("GET", "/v1/skills", Value::Null),
        ("GET", "/v1/skills/tide", Value::Null),
        ("PUT", "/v1/skills/tide", json!({ "source": SKILL })),
        ("GET", "/v1/skill-store", Value::Null),
        ("POST", "/v1/data", json!({ "content": "high tide" })),
        ("POST", "/v1/data/query", json!({ "query": "tide" })),
        ("GET", "/v1/data-store", Value::Null),
    ] {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        prober.asks(method, path, &headers, &body).await;
    }
    prober.runs(server, &["tenant", "show", "zen"], &[]);
    let calls = receiver.calls();
    let sent = format!("Bearer {STORE_AUTHORIZATION}");
    let is_sent = calls[before..].iter().all(|call| call.headers["authorization"] == sent.as_str());
    assert!(calls.len() > before && is_sent, "the remote store gets its secret, and nobody else does");
    made
}

/// Runs a skill of acme with secrets of every kind, and looks at its run in every way.
async fn runs_keyed_skill(
    server: &TestServer,
    prober: &mut Prober,
    receiver: &Receiver,
    authorization: &str,
) {
    let key = server.secret_file("skill.key", OF_SKILLS);
    prober.runs(server, &["secret", "set", "KEY", "--tenant", "acme", "--value-file", &key], &[]);
    let connectors = json!({
        "svc": { "class": "HttpMcpConnector", "config": {
            "endpoint": receiver.at("nonsense"), "headers": { "Authorization": format!("Bearer {OF_A_TOOL}") },
        }, "allowed_tools": ["echo"] },
        "url": { "class": "HttpMcpConnector", "config": {
            "endpoint": receiver.at(&format!("echoing?key={IN_A_URL}")), "token": IN_A_MEMBER,
        } },
        "child": { "class": "RemoteMcpConnector", "config": {
            "command": "sh", "args": ["-c", ECHOES, IN_AN_ARGUMENT], "env": { "KEY": IN_AN_ENVIRONMENT },
            "framing": "newline",
        } },
        "substrate": { "local_model": { "type": "openai", "config": {
            "baseUrl": receiver.at("model"), "defaultModelTag": "m", "apiKey": OF_A_MODEL,
        } } },
    });
    let file = server.secret_file("connectors.json", &connectors.to_string());
    let change =
        ["run-settings", "change", "--tenant", "acme", "--child-processes", "true", "--connectors", &file];
    prober.runs(server, &change, &[]);
    let headers = [("authorization", authorization)];
    let written = json!({ "source": KEYED }).to_string();
    let (status, body) = prober.asks("PUT", "/v1/skills/keyed", &headers, &written).await;
    assert_eq!(status, 200, "{body}");
    for path in ["/rpc", "/mcp"] {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": "execute_skill", "arguments": { "name": "keyed" } } });
        let (_, body) = prober.asks("POST", path, &headers, &call.to_string()).await;
        assert!(body.contains("svc") || body.contains("target_order"), "{body}");
    }
    for secret in [OF_A_TOOL, OF_A_MODEL] {
        let sent = format!("Bearer {secret}");
        let got = receiver.calls().iter().any(|call| {
            call.headers.get("authorization").is_some_and(|authorization| authorization == sent.as_str())
        });
        assert!(got, "{secret} was meant to be sent to its server");
    }
    let (_, listed) = prober.asks("GET", "/v1/runs", &headers, "").await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let id = listed["items"][0]["id"].as_str().unwrap_or_else(|| panic!("{listed}")).to_owned();
    prober.asks("GET", &format!("/v1/runs/{id}"), &headers, "").await;
    for words in [
        &["run", "list", "--tenant", "acme"][..],
        &["run", "show", &id, "--tenant", "acme"],
        &["message", "trace", &id],
        &["run-settings", "show", "--tenant", "acme"],
        &["secret", "list", "--tenant", "acme"],
        &["skill", "lint", "keyed", "--tenant", "acme"],
        &["skill", "compile", "keyed", "--tenant", "acme"],
        &["audit", "list"],
        &["receipt", "list"],
    ] {
        prober.runs(server, words, &[]);
    }
}

fn text(of: &Value, name: &str) -> String {
    of[name].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_in_any_log_error_metric_file_backup_or_answer_of_skills_data_and_tools() {
    crate::talk::provide_crypto();
    let dir = tempfile::tempdir().unwrap();
    let roots = dir.path().canonicalize().unwrap().join("roots");
    std::fs::create_dir(&roots).unwrap();
    let roots = roots.to_str().unwrap().to_owned();
    let folder = dir.path().join("house");
    let mut server = TestServer::open_at(
        dir,
        folder,
        &[
            ("POSTHOUSE_LOG__LEVEL", "trace"),
            ("POSTHOUSE_SERVER__TRUSTED_PROXIES", "127.0.0.0/8"),
            ("POSTHOUSE_WORKSHOP__ROOTS", &roots),
            ("POSTHOUSE_WORKSHOP__RUN_COMMANDS", "true"),
        ],
    );
    let admin = std::fs::read_to_string(server.folder().join("admin.token")).unwrap().trim().to_owned();
    let mut prober = Prober { url: server.url.clone(), client: reqwest::Client::new(), answers: Vec::new() };
    let mut secrets = vec![AUTHORIZATION.replacen("Bearer ", "", 1), SHARED.to_owned(), admin.clone()];
    let vault_key = std::fs::read_to_string(server.folder().join("vault.key")).unwrap();
    secrets.push(vault_key.trim().rsplit(':').next().unwrap().to_owned());

    // One tenant with the server's own store, one with a folder.
    let mut credentials = Vec::new();
    for (tenant, store) in [("acme", "house".to_owned()), ("globex", format!("filesystem:{roots}/globex"))] {
        server.does(&["tenant", "create", tenant]);
        server.does(&["tenant", "change", tenant, "--skill-store", &store]);
        let heron = server.does(&["agent", "create", "heron", "--tenant", tenant]);
        let own = server.does(&["client", "create", "--tenant", tenant]);
        let connector = json!({ "tenant": tenant, "name": "hooks", "kind": "webhook", "force": true,
            "authorization": AUTHORIZATION, "hmac_secret": SHARED,
            "settings": { "agents": { "desk": { "url": "http://127.0.0.1:1/gone" } }, "timeout_ms": 400 } });
        let headers = [("authorization", format!("Bearer {admin}"))];
        let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
        let (status, body) = prober.asks("POST", "/admin/connectors", &headers, &connector.to_string()).await;
        assert_eq!(status, 201, "{body}");
        for made in [&own, &heron] {
            let access = text(&exchanges(&server, made).await, "access_token");
            let by_secret = basic(&text(made, "client_id"), &text(made, "client_secret"));
            secrets.extend([text(made, "client_secret"), access.clone()]);
            secrets.push(by_secret.replacen("Basic ", "", 1));
            credentials.extend([format!("Bearer {access}"), by_secret]);
        }
        credentials.push(format!("Bearer {}", text(&heron, "access_token")));
        secrets.extend([text(&heron, "secret"), text(&heron, "access_token"), text(&heron, "refresh_token")]);
    }
    for authorization in &credentials {
        prober.uses_stores(authorization).await;
        prober.uses_tools(authorization).await;
    }

    let receiver = Receiver::open().await;
    let zen = uses_remote_stores(&server, &mut prober, &receiver).await;
    secrets.extend([text(&zen, "client_secret"), STORE_AUTHORIZATION.to_owned(), STORE_HMAC.to_owned()]);
    // Acme's program by its token.
    runs_keyed_skill(&server, &mut prober, &receiver, &credentials[0]).await;
    secrets.extend([OF_SKILLS, OF_A_TOOL, OF_A_MODEL].map(str::to_owned));
    secrets.extend([IN_A_URL, IN_A_MEMBER, IN_AN_ARGUMENT, IN_AN_ENVIRONMENT].map(str::to_owned));

    // Every secret in every wrong place.
    for (number, secret) in secrets.clone().iter().enumerate() {
        let wrong = [
            format!("Bearer {secret}"),
            format!("Basic {}", STANDARD.encode(format!("client:{secret}"))),
            format!("Basic {}", STANDARD.encode(format!("{secret}:x"))),
            secret.clone(),
        ];
        for (at, authorization) in wrong.iter().enumerate() {
            // Refusals slow an address down, so each request comes from another address.
            let address = format!("192.0.2.{}", 4 * number + at + 1);
            let headers = [("authorization", authorization.as_str()), ("x-forwarded-for", address.as_str())];
            for (path, body) in [("/rpc", "{"), ("/mcp", "{}"), ("/v1/data", "{"), ("/v1/data/query", "{}")] {
                self::assert_refused(&mut prober, path, &headers, body, credentials.contains(authorization))
                    .await;
            }
        }
        let headers = [("authorization", credentials[0].as_str()), ("mcp-session-id", secret.as_str())];
        prober.asks("POST", "/mcp", &headers, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}").await;
    }

    // The operator's commands, with a private key that stays on this machine.
    let (key, public) =
        (server.secret_file("approval.key", PRIVATE_KEY), server.secret_file("approval.pub", PUBLIC_KEY));
    server.does(&["approval-key", "add", "--tenant", "acme", "--public-key-file", &public]);
    server.does(&["tenant", "set", "acme", "--approval", "signed"]);
    for words in [
        &["skill", "approve", "tide", "--yes", "--tenant", "acme"][..],
        &["skill", "approve", "keyed", "--yes", "--tenant", "acme"],
        &["skill", "reapprove", "--tenant", "acme"],
        &["skill", "verify", "--tenant", "acme"],
        &["skill", "list", "--tenant", "acme"],
        &["skill", "show", "tide", "--tenant", "acme"],
        &["skill", "history", "tide", "--tenant", "globex"],
        &["approval-key", "list", "--tenant", "acme"],
        &["approval-key", "log", "--tenant", "acme"],
        &["tenant", "show", "globex"],
        &["connector", "show", "hooks", "--tenant", "acme"],
        &["client", "list"],
    ] {
        prober.runs(&server, words, &[("SKILLSCRIPT_APPROVAL_KEY_FILE", &key)]);
    }
    prober.answers.push(over_stdio(&server, &credentials[1]));
    let backup = server.folder().join("backup.db");
    server.does(&["backup", backup.to_str().unwrap()]);
    let headers = [("authorization", format!("Bearer {admin}"))];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    assert_eq!(prober.asks("GET", "/metrics", &headers, "").await.0, 200);

    // While the server runs, because the write-ahead logs disappear at a clean end; and again after it.
    let mut kept = files(&server.folder());
    assert!(kept.iter().any(|(path, _)| path.to_string_lossy().ends_with("ledger.db-wal")));
    assert!(kept.iter().any(|(path, _)| path.to_string_lossy().contains("data-index/")));
    assert!(server.stop(), "a clean stop exits 0");
    kept.extend(files(&server.folder()));
    kept.extend(files(std::path::Path::new(&roots)));
    kept.retain(|(path, _)| !path.ends_with("admin.token") && !path.ends_with("vault.key"));
    for name in ["backup.db", "globex/tide.skill.md"] {
        assert!(kept.iter().any(|(path, _)| path.ends_with(name)), "{name} was meant to be searched");
    }
    let log = server.log.lock().unwrap().clone();
    assert!(log.len() > 1_000, "the log was meant to be talkative: {log}");
    assert!(!log.contains("panicked"), "{log}");
    let seed: Vec<u8> = (0..32).collect();
    for (path, bytes) in &kept {
        assert!(!bytes.windows(32).any(|found| found == seed), "a private key in {}", path.display());
    }
    // Lossy decoding hides nothing, because all searched secrets are ASCII.
    let kept: Vec<_> =
        kept.into_iter().map(|(path, bytes)| (path, String::from_utf8_lossy(&bytes).into_owned())).collect();
    secrets.push(IN_BASE64.to_owned());
    for secret in &secrets {
        assert!(secret.len() > 15, "{secret} is too short to be found by accident");
        assert!(!log.contains(secret), "in the log: {:?}", log.lines().find(|line| line.contains(secret)));
        for answer in &prober.answers {
            assert!(!answer.contains(secret), "{secret} in an answer: {answer}");
        }
        for (path, text) in &kept {
            assert!(!text.contains(secret), "{secret} in {}", path.display());
        }
    }
    println!(
        "{} secrets, {} answers, {} files, {} bytes of log",
        secrets.len(),
        prober.answers.len(),
        kept.len(),
        log.len()
    );
}

async fn assert_refused(
    prober: &mut Prober,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
    is_a_credential: bool,
) {
    let (status, _) = prober.asks("POST", path, headers, body).await;
    assert_eq!(status == 401, !is_a_credential, "{:?}", prober.answers.last());
}

/// What `posthouse mcp --stdio` prints, on both outputs, while it serves good and bad messages.
fn over_stdio(server: &TestServer, by_secret: &str) -> String {
    let decoded = STANDARD.decode(by_secret.strip_prefix("Basic ").unwrap()).unwrap();
    let decoded = String::from_utf8(decoded).unwrap();
    let (id, secret) = decoded.split_once(':').unwrap();
    let mut child = start_stdio(&server.url, id, secret);
    let mut input = child.stdin.take().unwrap();
    for message in [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string(),
        "junk".to_owned(),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": { "name": "skill_read", "arguments": { "name": "tide" } } })
        .to_string(),
    ] {
        writeln!(input, "{message}").unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(said.contains("skill_read") && said.contains("emit"), "{said}");
    said
}
