//! Media of WhatsApp: uploaded by the business, sent by people, downloaded in two steps.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;

use super::{
    WhatsAppPlatform,
    graph::{GraphError, GraphResult},
    settings::WhatsAppNumber,
};
use crate::harness::{ApiCall, form, json_response, respond};

/// Lifetime of a download URL.
const URL_MS: i64 = 5 * 60 * 1000;

/// A file.
pub(super) struct WhatsAppFile {
    pub number: String,
    pub kind: String,
    pub content: Bytes,
    /// When the last download URL was given out.
    pub url_at_ms: i64,
}

impl WhatsAppPlatform {
    pub(super) fn add_media(&self, number: &WhatsAppNumber, kind: &str, content: Bytes) -> String {
        let id = format!("7{:011}", self.harness.next_id());
        // A webhook carries a download URL already.
        let url_at_ms = self.harness.now_ms();
        let media = WhatsAppFile { number: number.id.clone(), kind: kind.to_owned(), content, url_at_ms };
        self.world.lock().media.insert(id.clone(), media);
        id
    }

    pub(super) fn upload(self: &Arc<Self>, number: &WhatsAppNumber, call: &ApiCall) -> GraphResult {
        let parts = form::parts(&call.head.headers, &call.body);
        let parts = parts.ok_or_else(|| GraphError::parameter("The form cannot be read"))?;
        let has_product = parts
            .iter()
            .any(|part| part.name == "messaging_product" && part.content == "whatsapp".as_bytes());
        if !has_product {
            return Err(GraphError::parameter("The parameter messaging_product is required."));
        }
        let file = parts.iter().find(|part| part.file_name.is_some());
        let file = file.ok_or_else(|| GraphError::parameter("The parameter file is required."))?;
        let field =
            parts.iter().find(|part| part.name == "type").map(|part| String::from_utf8_lossy(&part.content));
        let kind = field.map(|kind| kind.into_owned()).or_else(|| file.content_type.clone());
        let kind = kind.unwrap_or_else(|| "application/octet-stream".to_owned());
        let most = match kind.split('/').next() {
            Some("image") => 5 << 20,
            Some("audio" | "video") => 16 << 20,
            _ => 100 << 20,
        };
        if file.content.len() > most {
            return Err(GraphError::of_message(400, 131_053, "Media upload error", "The file is too large"));
        }
        Ok(json_response(200, &json!({"id": self.add_media(number, &kind, file.content.clone())})))
    }

    pub(super) fn media_object(&self, number: &WhatsAppNumber, id: &str) -> GraphResult {
        let now_ms = self.harness.now_ms();
        let mut world = self.world.lock();
        let media = world.media.get_mut(id).filter(|media| media.number == number.id);
        let media = media.ok_or_else(|| GraphError::unknown_object(id))?;
        media.url_at_ms = now_ms;
        Ok(json_response(
            200,
            &json!({
                "messaging_product": "whatsapp", "id": id, "mime_type": media.kind, "file_size": media.content.len(),
                "sha256": hex::encode(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &media.content).as_ref()),
                "url": format!("{}/media-content/{id}", self.harness.base_url()),
            }),
        ))
    }

    /// The bytes. The URL needs the token too, and ends after five minutes.
    pub(super) fn media_content(&self, number: &WhatsAppNumber, id: &str) -> GraphResult {
        let now_ms = self.harness.now_ms();
        let world = self.world.lock();
        let media = world.media.get(id).filter(|media| media.number == number.id);
        let media = media.filter(|media| now_ms - media.url_at_ms < URL_MS);
        let media =
            media.ok_or_else(|| GraphError::new(404, 0, "OAuthException", "URL signature expired"))?;
        let mut response = respond(200, "", media.content.clone());
        if let Ok(kind) = media.kind.parse() {
            response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
        }
        Ok(response)
    }

    pub(super) fn delete_media(&self, number: &WhatsAppNumber, id: &str) -> GraphResult {
        let mut world = self.world.lock();
        let is_own = world.media.get(id).is_some_and(|media| media.number == number.id);
        if !is_own {
            return Err(GraphError::unknown_object(id));
        }
        world.media.remove(id);
        Ok(json_response(200, &json!({"success": true})))
    }
}
