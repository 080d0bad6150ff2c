//! Bot API methods that send a file with a form.

use serde_json::{Value, json};

use super::MethodCall;
use crate::telegram::{
    answer::{ApiRefusal, ApiSuccess},
    world::World,
};

const CAPTION: usize = 1024;
/// The largest photo, and the largest other file.
const MOST_PHOTO: usize = 10 << 20;
const MOST_FILE: usize = 50 << 20;

/// The field of the file, for a method that sends one.
pub(super) fn field(method: &str) -> Option<&'static str> {
    Some(match method {
        "sendPhoto" => "photo",
        "sendVoice" => "voice",
        "sendAudio" => "audio",
        "sendVideo" => "video",
        "sendDocument" => "document",
        _ => return None,
    })
}

impl MethodCall<'_> {
    pub(super) fn send_media(&self, world: &mut World) -> Result<ApiSuccess, ApiRefusal> {
        let field = field(self.method).unwrap_or_default();
        let file = self.params.file().filter(|file| file.field == field);
        let file =
            file.ok_or_else(|| ApiRefusal::bad_request(format!("there is no {field} in the request")))?;
        let length = file.content.len();
        if length == 0 {
            return Err(ApiRefusal::bad_request("file must be non-empty"));
        }
        if length > if field == "photo" { MOST_PHOTO } else { MOST_FILE } {
            return Err(ApiRefusal::too_large());
        }
        // The stand-in does not decode pictures, but it knows the beginning of common types.
        let is_picture = [&b"\x89PNG"[..], b"\xff\xd8\xff", b"GIF8", b"RIFF"];
        if field == "photo" && !is_picture.iter().any(|magic| file.content.starts_with(magic)) {
            return Err(ApiRefusal::bad_request("IMAGE_PROCESS_FAILED"));
        }
        let (caption, entities) =
            self.parsed("caption", "caption_entities", CAPTION, "message caption is too long")?;
        // Not stored before the rest of the call is known to be good.
        let prepared = self.prepare_message(world)?;
        let file_id = world.files.add(&file.name, file.content.clone());
        let described = json!({"file_id": file_id, "file_unique_id": file_id, "file_size": length});
        let described = match field {
            "photo" => {
                json!([{"file_id": file_id, "file_unique_id": file_id, "file_size": length, "width": 1, "height": 1}])
            }
            _ => {
                let mut described = described;
                described["file_name"] = json!(file.name);
                described
            }
        };
        let mut content = vec![(field, described)];
        if !caption.is_empty() {
            content.push(("caption", json!(caption)));
            content.extend(entities.map(|entities: Value| ("caption_entities", entities)));
        }
        Ok(self.add_message(world, prepared, caption, content))
    }
}
