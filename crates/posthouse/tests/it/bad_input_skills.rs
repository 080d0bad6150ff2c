//! Bad input at `/v1/skills`: each gets its class, and nothing is lost.

use serde_json::{Value, json};

use crate::matrix::basic;
use crate::post_cli::settled;

const SKILL: &str = "# Skill: tide\r\n# Status: Approved\r\ngo:\r\n    emit(text=\"high\")\r\n";

struct Program {
    url: String,
    authorization: String,
    client: reqwest::Client,
}

impl Program {
    async fn asks(&self, method: &str, path: &str, body: Option<String>) -> (u16, Value) {
        let url = format!("{}{path}", self.url);
        let request = self.client.request(method.parse().unwrap(), url);
        let request = request.header("authorization", &self.authorization);
        let answer = request.body(body.unwrap_or_default()).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bad_request_for_a_skill_gets_its_class_and_loses_nothing() {
    let (server, heron) = settled();
    let own = server.does(&["client", "create", "--tenant", "acme"]);
    let program = |credential: &Value| Program {
        url: server.url.clone(),
        authorization: basic(
            credential["client_id"].as_str().unwrap(),
            credential["client_secret"].as_str().unwrap(),
        ),
        client: reqwest::Client::new(),
    };
    let (program, heron) = (program(&own), program(&heron));
    let (status, stored) =
        program.asks("PUT", "/v1/skills/tide", Some(json!({ "source": SKILL }).to_string())).await;
    assert_eq!((status, &stored["status"]), (200, &json!("Approved")), "{stored}");
    let long = "x".repeat(256 * 1024 + 1);
    let bag = json!({ "note": "x".repeat(64 * 1024) });
    let write = |body: Value| ("PUT", "/v1/skills/tide", Some(body.to_string()));
    for ((method, path, body), expected, code) in [
        (
            ("PUT", "/v1/skills/..%2F..%2Fetc", Some(json!({ "source": "x" }).to_string())),
            409,
            "storage_conflict",
        ),
        (("PUT", "/v1/skills/%00", Some(json!({ "source": "x" }).to_string())), 409, "storage_conflict"),
        (("GET", "/v1/skills/..%2F..%2Fetc%2Fpasswd", None), 404, "skill_not_found"),
        (("GET", "/v1/skills/tide?version=zzz", None), 404, "version_not_found"),
        (("GET", "/v1/skills?name_pattern=(", None), 422, "query"),
        (("GET", "/v1/skills?status=approved", None), 422, "invalid_request"),
        (("GET", "/v1/skills?colour=red", None), 422, "invalid_request"),
        (("GET", "/v1/skill-catalogue?audience=everybody", None), 422, "invalid_request"),
        (("PUT", "/v1/skills/tide", Some(r#"{"source":"\ud83d"}"#.to_owned())), 400, "malformed_json"),
        (("PUT", "/v1/skills/tide", Some("{".to_owned())), 400, "malformed_json"),
        (write(json!({})), 422, "invalid_request"),
        (write(json!({ "source": "x", "stauts": "Draft" })), 422, "invalid_request"),
        (write(json!({ "source": "x", "status": "draft" })), 422, "invalid_request"),
        (write(json!({ "source": "x", "if_version": "000000000000" })), 409, "storage_conflict"),
        (write(json!({ "source": "x", "overwrite": false })), 409, "storage_conflict"),
        (write(json!({ "source": "x", "author": "somebody else" })), 409, "storage_conflict"),
        (write(json!({ "source": long })), 413, "too_large"),
        (write(json!({ "source": "x", "metadata_bag": bag })), 413, "too_large"),
        (write(json!({ "source": "x", "metadata_bag": { "tags": vec!["t"; 65] } })), 413, "too_large"),
        (
            ("POST", "/v1/skills/tide/status", Some(json!({ "status": "Blessed" }).to_string())),
            422,
            "invalid_request",
        ),
        (
            ("POST", "/v1/skills/ghost/status", Some(json!({ "status": "Draft" }).to_string())),
            404,
            "skill_not_found",
        ),
        (("DELETE", "/v1/skills/ghost", None), 404, "skill_not_found"),
        (("DELETE", "/v1/skills/tide?force=perhaps", None), 422, "invalid_request"),
        (("PATCH", "/v1/skills/tide", None), 405, "method_not_allowed"),
        (("GET", "/v1/skills/tide/nothing", None), 404, "not_found"),
    ] {
        let (status, said) = program.asks(method, path, body).await;
        assert_eq!(
            (status, said["code"].as_str().unwrap_or_default()),
            (expected, code),
            "{method} {path}: {said}"
        );
        if status == 409 || code == "skill_not_found" {
            assert_eq!(said["connector_type"], "skill_store", "{said}");
        }
    }
    let (_, kept) = program.asks("GET", "/v1/skills/tide", None).await;
    assert_eq!(kept["source"], SKILL, "{kept}");

    // A status line that is indented, or empty above another header, does not survive a forced Draft.
    for tricky in [
        "  # Status: Approved\n# Skill: tide\ngo:\n    emit(text=\"x\")\n",
        "# Status:\n# Vars: A=1\n# Status: Approved\ngo:\n    emit(text=\"x\")\n",
    ] {
        let body = json!({ "source": tricky, "status": "Approved" }).to_string();
        let (status, stored) = heron.asks("PUT", "/v1/skills/tide", Some(body)).await;
        assert_eq!((status, &stored["status"]), (200, &json!("Draft")), "{stored}");
        let (_, listed) = program.asks("GET", "/v1/skill-catalogue?audience=all", None).await;
        assert_eq!(listed["skills"], json!([]), "{listed}");
        let (_, kept) = program.asks("GET", "/v1/skills/tide", None).await;
        assert!(
            !tricky.contains("Vars") || kept["source"].as_str().unwrap().contains("# Vars: A=1"),
            "{kept}"
        );
    }
}
