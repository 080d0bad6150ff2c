//! Methods `files.*`, uploads and downloads.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::Response;
use serde_json::{Value, json};

use super::{MethodResult, SlackCall};
use crate::{
    harness::{ApiCall, form, respond},
    slack::{SlackPlatform, settings::SlackApp, workspace::SharedFile},
};

impl SlackPlatform {
    /// Stores a file that an app or a person shares, and returns its object.
    pub(in crate::slack) fn add_file(&self, app: &SlackApp, name: &str, kind: &str, content: Bytes) -> Value {
        let id = format!("F{:08}", self.harness.next_id());
        let link = format!("{}/files-pri/{}-{id}/{name}", self.harness.base_url(), app.team_id);
        let object = json!({
            "id": id, "name": name, "title": name, "mimetype": kind, "size": content.len(), "mode": "hosted",
            "filetype": name.rsplit('.').next(), "is_external": false, "url_private": link,
            "url_private_download": link.replace("/files-pri/", "/files-pri/download-"),
            "permalink": link, "permalink_public": format!("{link}?pub_secret=stand-in"),
        });
        let file = SharedFile { name: name.to_owned(), content, object: object.clone() };
        self.world.lock().files.insert(id, file);
        object
    }

    /// The bytes of a file, sent to the URL that `files.getUploadURLExternal` gave.
    pub(in crate::slack) fn take_upload(self: &Arc<Self>, call: &ApiCall) -> Response<Body> {
        let id = call.path.rsplit('/').next().unwrap_or_default();
        // A form holds one file; anything else is the file itself.
        let content = match form::parts(&call.head.headers, &call.body) {
            Some(parts) => parts.into_iter().next().map(|part| part.content).unwrap_or_default(),
            None => call.body.clone(),
        };
        let mut world = self.world.lock();
        let Some(file) = world.files.get_mut(id) else { return respond(404, "text/plain", "no such upload") };
        if file.object["size"].as_u64() != u64::try_from(content.len()).ok() {
            return respond(400, "text/plain", "the size differs from the announced length");
        }
        file.content = content.clone();
        respond(200, "text/plain", format!("OK - {}", content.len()))
    }

    /// A file, for those with the token of an app of its workspace. Others see the login page.
    pub(in crate::slack) fn download(self: &Arc<Self>, call: &ApiCall) -> Response<Body> {
        let world = self.world.lock();
        let part = call.path.split('/').nth(2).unwrap_or_default().trim_start_matches("download-");
        let (team, id) = part.split_once('-').unwrap_or_default();
        let token = call.credential("Bearer").unwrap_or_default();
        let is_allowed =
            world.app_by_token(token).is_some_and(|app| app.team_id == team && app.bot_token == token);
        if !is_allowed {
            return respond(
                200,
                "text/html; charset=utf-8",
                "<!DOCTYPE html><title>Sign in to Slack</title>",
            );
        }
        match world.files.get(id) {
            Some(file) => {
                let mut response = respond(200, "", file.content.clone());
                let kind = file.object["mimetype"].as_str().and_then(|kind| kind.parse().ok());
                if let Some(kind) = kind {
                    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
                }
                response
            }
            None => respond(404, "text/plain", "not found"),
        }
    }
}

impl SlackCall<'_> {
    pub(super) fn upload_url(&self) -> MethodResult {
        let (name, length) = (self.need("filename")?, self.need("length")?);
        let length: u64 = length.parse().map_err(|_| "invalid_arguments")?;
        let mut object = self.slack.add_file(&self.app, &name, "application/octet-stream", Bytes::new());
        object["size"] = json!(length);
        let id = object["id"].as_str().unwrap_or_default().to_owned();
        if let Some(file) = self.slack.world.lock().files.get_mut(&id) {
            file.object = object;
        }
        Ok(json!({"upload_url": format!("{}/upload/v1/{id}", self.slack.harness.base_url()), "file_id": id}))
    }

    pub(super) fn complete_upload(&self) -> MethodResult {
        let wanted = self.arguments.structure("files").ok_or("invalid_arguments")?;
        let channel = self.arguments.text("channel_id");
        if let Some(channel) = &channel {
            self.in_channel(channel)?;
        }
        let mut files = Vec::new();
        for one in wanted.as_array().ok_or("invalid_arguments")? {
            let mut world = self.slack.world.lock();
            let file = one["id"].as_str().and_then(|id| world.files.get_mut(id)).ok_or("file_not_found")?;
            if file.object["size"].as_u64() != u64::try_from(file.content.len()).ok() {
                return Err("file_upload_size_mismatch");
            }
            if let Some(title) = one["title"].as_str() {
                file.object["title"] = json!(title);
            }
            files.push((file.name.clone(), file.object.clone()));
        }
        if let Some(channel) = channel {
            let text = self.arguments.text("initial_comment").unwrap_or_default();
            let thread = self.arguments.text("thread_ts");
            let content = super::chat::SlackContent { text: text.clone(), blocks: Value::Null };
            let message = self.store(&channel, &content, thread.as_deref())?;
            let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
            let mut row = self.row("sent", &channel).text(format!("{text}[{}]", names.join(" ")));
            row.message_id = message["ts"].as_str().map(str::to_owned);
            row.thread_id = thread;
            self.slack.harness.record(row);
        }
        let objects: Vec<Value> = files.into_iter().map(|(_, object)| object).collect();
        Ok(json!({"files": objects}))
    }

    pub(super) fn file_info(&self) -> MethodResult {
        let id = self.need("file")?;
        let world = self.slack.world.lock();
        Ok(json!({"file": world.files.get(&id).ok_or("file_not_found")?.object}))
    }
}
