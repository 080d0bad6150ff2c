//! An in-memory server and its clients, for tests.

use axum::Router;
use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use identity::Identity;
use ledger::Owner;
use posthouse_wire::InstanceId;
use serde_json::Value;
use tower::ServiceExt;

use crate::tests::fixtures::Fixture;
use crate::{Post, routes};

pub struct TestServer {
    pub identity: Identity,
    pub post: Post,
    pub acme: Owner,
    door: Router,
    fixture: Fixture,
}

/// A client, with the value of its `Authorization` header.
pub struct Program<'a> {
    server: &'a TestServer,
    proof: String,
}

impl TestServer {
    pub async fn open() -> Self {
        let fixture = Fixture::open().await;
        let post = Post::new(fixture.parts());
        let acme = Owner::Tenant(fixture.tenant.clone());
        Self { identity: fixture.identity.clone(), door: routes(&post), post, acme, fixture }
    }

    pub async fn enrol(&self, name: &str) -> InstanceId {
        self.fixture.enrol(name).await
    }

    /// A program that sends the credential itself (Basic).
    pub async fn program(&self, owner: &Owner) -> Program<'_> {
        let (client, secret) = self.identity.accounts.create_client(owner).await.unwrap().unwrap();
        let proof = format!("Basic {}", STANDARD.encode(format!("{client}:{}", secret.expose())));
        Program { server: self, proof }
    }

    /// A program that sends an access token (Bearer).
    pub async fn bearer(&self, owner: &Owner) -> Program<'_> {
        let (client, _) = self.identity.accounts.create_client(owner).await.unwrap().unwrap();
        let token = self.identity.accounts.grant_access(&client).await.unwrap().unwrap().access_token;
        Program { server: self, proof: format!("Bearer {}", token.expose()) }
    }

    pub async fn asks(&self, request: Request<Body>) -> (u16, Value) {
        let answer = self.door.clone().oneshot(request).await.unwrap();
        let (status, head) = (answer.status(), answer.headers().clone());
        if status.is_client_error() || status.is_server_error() {
            assert_eq!(head["content-type"], "application/problem+json");
        }
        let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        (status.as_u16(), serde_json::from_slice(&body).unwrap_or(Value::Null))
    }
}

impl Program<'_> {
    pub async fn get(&self, path: &str) -> (u16, Value) {
        let request = Request::get(path).header("authorization", &self.proof);
        self.server.asks(request.body(Body::empty()).unwrap()).await
    }

    pub async fn posts(&self, path: &str, header: (&str, &str), body: &Value) -> (u16, Value) {
        let request = Request::post(path).header("authorization", &self.proof).header(header.0, header.1);
        self.server.asks(request.body(Body::from(body.to_string())).unwrap()).await
    }

    pub async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.posts(path, ("accept", "*/*"), &body).await
    }
}
