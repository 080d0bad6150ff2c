//! The OpenAPI document of this server, merged from the fragments of all planes.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use edge::web;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http_kit::openapi;
use serde_json::Value;

use super::ServerHandlers;

/// The fragments of everything that is always served.
const FRAGMENTS: &[&str] = &[
    include_str!("openapi.json"),
    relay::OPENAPI,
    identity::OPENAPI,
    edge::OPENAPI,
    clock::OPENAPI,
    post::OPENAPI,
    workshop::OPENAPI,
    workshop::DATA_OPENAPI,
    workshop::TOOL_OPENAPI,
    workshop::RUN_OPENAPI,
    console::OPENAPI,
];

/// The document of a server with this public URL, with the chat page or without it.
pub fn document(public_url: &str, page: bool) -> Value {
    let chat_page: &[&str] = if page { &[web::OPENAPI] } else { &[] };
    openapi::merge(&[FRAGMENTS, chat_page].concat(), env!("CARGO_PKG_VERSION"), public_url)
        .expect("the fragments are JSON and fit together, as a test checks")
}

/// The document as it is served.
pub fn served(public_url: &str, page: bool) -> Bytes {
    Bytes::from(document(public_url, page).to_string())
}

/// Public: the document describes the API and reveals nothing about tenants.
pub(super) async fn show(State(handlers): State<ServerHandlers>) -> Response {
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "public, max-age=300")];
    (headers, handlers.description).into_response()
}

#[cfg(test)]
mod tests {
    use super::super::OPERATIONS;
    use super::*;

    #[test]
    fn every_operation_of_every_plane_is_described_and_nothing_else_is() {
        let always = [
            OPERATIONS,
            relay::OPERATIONS,
            identity::OPERATIONS,
            edge::OPERATIONS,
            clock::OPERATIONS,
            post::OPERATIONS,
            workshop::OPERATIONS,
            workshop::DATA_OPERATIONS,
            workshop::TOOL_OPERATIONS,
            workshop::RUN_OPERATIONS,
            console::OPERATIONS,
        ]
        .concat();
        for page in [false, true] {
            let served = if page { [&always, web::OPERATIONS].concat() } else { always.clone() };
            let document = document("https://house.example/under", page);
            assert_eq!(openapi::check_document(&document, &served), Vec::<String>::new());
        }
    }

    #[test]
    fn the_description_names_the_server_it_comes_from() {
        let document = document("https://house.example/under", true);
        assert_eq!(document["openapi"], "3.1.0");
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(document["servers"][0]["url"], "https://house.example/under");
        let scheme = &document["components"]["securitySchemes"]["access_token"];
        let flow = &scheme["flows"]["clientCredentials"];
        assert_eq!(flow["tokenUrl"], "https://house.example/under/oauth/token");
    }

    #[test]
    fn every_tag_is_explained_and_used() {
        let document = document("/", true);
        let mut used: Vec<&Value> = document["paths"]
            .as_object()
            .unwrap()
            .values()
            .flat_map(|item| item.as_object().unwrap().values())
            .flat_map(|operation| operation["tags"].as_array().unwrap())
            .collect();
        let mut explained: Vec<&Value> =
            document["tags"].as_array().unwrap().iter().map(|tag| &tag["name"]).collect();
        used.sort_by_key(|tag| tag.to_string());
        used.dedup();
        explained.sort_by_key(|tag| tag.to_string());
        assert_eq!(used, explained);
    }
}
