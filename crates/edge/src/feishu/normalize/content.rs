//! Contents of Feishu messages: texts, rich texts, files and locations, as a text for the agent and references to
//! files.

use posthouse_wire::MessageType;
use posthouse_wire::event::Media;
use serde::Deserialize;
use serde_json::Value;

use crate::feishu::media::RESOURCE_REFERENCE;
use crate::feishu::payload::{FeishuMention, FeishuMessage};
use crate::platform::location_text;

/// Most elements of a rich text that are read.
const MOST_ELEMENTS: usize = 2_000;

/// A message as the agent reads it.
pub(super) struct ReadContent {
    pub text: String,
    pub message_type: MessageType,
    pub files: Vec<FeishuFile>,
    pub mentions_bot: bool,
}

pub(super) struct FeishuFile {
    pub media: Media,
    pub reference: String,
}

/// A file in a content.
#[derive(Default, Deserialize)]
#[serde(default)]
struct FileContent {
    image_key: Option<String>,
    file_key: Option<String>,
    file_name: Option<String>,
}

#[derive(Deserialize)]
struct TextContent {
    text: String,
}

#[derive(Deserialize)]
struct LocationContent {
    name: Option<String>,
    longitude: String,
    latitude: String,
}

#[derive(Deserialize)]
struct PostContent {
    #[serde(default)]
    title: Option<String>,
    content: Vec<Vec<PostElement>>,
}

/// An element of a rich text. All kinds share these fields.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PostElement {
    tag: String,
    text: Option<String>,
    href: Option<String>,
    user_id: Option<String>,
    user_name: Option<String>,
    language: Option<String>,
    image_key: Option<String>,
    file_key: Option<String>,
    emoji_type: Option<String>,
}

/// Reads the content of a message. `None` if nothing in it is for an agent.
pub(super) fn read_content(message: &FeishuMessage<'_>, own: &str) -> Option<ReadContent> {
    let (kind, content) = (&*message.message_type, &*message.content);
    let (text, files) = match kind {
        "text" => (serde_json::from_str::<TextContent>(content).ok()?.text, Vec::new()),
        "post" => read_post(message, content)?,
        "location" => {
            let place: LocationContent = serde_json::from_str(content).ok()?;
            let degrees = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
            let (latitude, longitude) = (degrees(&place.latitude)?, degrees(&place.longitude)?);
            (location_text(place.name.as_deref(), latitude, longitude), Vec::new())
        }
        "image" | "file" | "audio" | "media" | "sticker" => (String::new(), vec![file_of(message, content)?]),
        _ => return None,
    };
    let (text, mentions_bot) = with_names(message, text, own);
    if text.trim().is_empty() && files.is_empty() {
        return None;
    }
    let message_type = match kind {
        "text" => MessageType::Text,
        "location" => MessageType::Location,
        "image" => MessageType::Photo,
        "audio" => MessageType::Voice,
        "media" => MessageType::Video,
        "sticker" => MessageType::Sticker,
        "post" if !files.is_empty() => MessageType::Photo,
        "post" => MessageType::Text,
        _ => MessageType::Document,
    };
    Some(ReadContent { text, message_type, files, mentions_bot })
}

fn file_of(message: &FeishuMessage<'_>, content: &str) -> Option<FeishuFile> {
    let content: FileContent = serde_json::from_str(content).ok()?;
    let (kind, mime) = match &*message.message_type {
        "image" => ("photo", Some("image/*")),
        "audio" => ("voice", Some("audio/*")),
        "media" => ("video", Some("video/mp4")),
        "sticker" => ("sticker", Some("image/*")),
        _ => ("document", None),
    };
    // A video has the key of its preview too.
    let key = content.file_key.or(content.image_key)?;
    resource(message, &key, kind, mime, content.file_name)
}

/// A reference to a file of a message. A key that could change the path of a call is dropped.
fn resource(
    message: &FeishuMessage<'_>,
    key: &str,
    kind: &str,
    mime: Option<&str>,
    filename: Option<String>,
) -> Option<FeishuFile> {
    let id = &*message.message_id;
    let is_plain = |part: &str| crate::feishu::api::is_path_part(part);
    (is_plain(id) && is_plain(key)).then(|| FeishuFile {
        media: Media { kind: kind.to_owned(), mime: mime.map(str::to_owned), filename, ..Media::default() },
        reference: format!("{RESOURCE_REFERENCE}{id}/{key}"),
    })
}

/// A rich text as plain text, with its pictures and videos.
fn read_post(message: &FeishuMessage<'_>, content: &str) -> Option<(String, Vec<FeishuFile>)> {
    // What people write has no language above it; what apps write can have one.
    let post: PostContent = match serde_json::from_str(content) {
        Ok(post) => post,
        Err(_) => {
            let languages: serde_json::Map<String, Value> = serde_json::from_str(content).ok()?;
            serde_json::from_value(languages.into_iter().next()?.1).ok()?
        }
    };
    let (mut lines, mut files, mut left) = (Vec::new(), Vec::new(), MOST_ELEMENTS);
    if let Some(title) = post.title.filter(|title| !title.is_empty()) {
        lines.push(title);
    }
    for paragraph in post.content {
        let mut line = String::new();
        for element in paragraph {
            left = left.checked_sub(1)?;
            match element.tag.as_str() {
                "img" => files.extend(
                    element.image_key.and_then(|key| resource(message, &key, "photo", Some("image/*"), None)),
                ),
                "media" => files.extend(
                    element
                        .file_key
                        .and_then(|key| resource(message, &key, "video", Some("video/mp4"), None)),
                ),
                _ => line.push_str(&words(element)),
            }
        }
        lines.push(line);
    }
    Some((lines.join("\n").trim().to_owned(), files))
}

/// An element of a rich text as words.
fn words(element: PostElement) -> String {
    let text = element.text.unwrap_or_default();
    match element.tag.as_str() {
        // The mention's key stands here. Without one it is everybody, or somebody whose name is given.
        "at" => match element.user_id {
            Some(key) if key.starts_with("@_") => key,
            _ => format!("@{}", element.user_name.unwrap_or_default()),
        },
        "a" => match element.href {
            Some(target) if target != text => format!("{text} ({target})"),
            _ => text,
        },
        "code_block" => format!("```{}\n{text}\n```", element.language.unwrap_or_default().to_lowercase()),
        "emotion" => format!(":{}:", element.emoji_type.unwrap_or_default()),
        _ => text,
    }
}

/// Most mentions of one message whose names are shown.
const MOST_MENTIONS: usize = 100;
/// How the key of every mention begins.
const MENTION: &str = "@_";

/// Replaces the keys of mentions by names, and removes the mention of the bot.
fn with_names(message: &FeishuMessage<'_>, mut text: String, own: &str) -> (String, bool) {
    let mut mentions_bot = false;
    let mentions = message.mentions.iter().flatten().filter(|one| one.key.starts_with(MENTION));
    let mut mentions: Vec<_> = mentions.take(MOST_MENTIONS).collect();
    // `@_user_10` begins with `@_user_1`.
    mentions.sort_by_key(|mention| std::cmp::Reverse(mention.key.len()));
    let of_bot = |mention: &FeishuMention<'_>| {
        let id = mention.id.as_ref().and_then(|id| id.open_id.as_deref());
        !own.is_empty() && id == Some(own)
    };
    for mention in mentions.iter().filter(|mention| of_bot(mention)) {
        mentions_bot = true;
        let without = without_mention(&text, &mention.key);
        if !without.is_empty() {
            text = without;
        }
    }
    // One pass, so that no key is found in a name that has just been put in.
    let (mut named, mut rest) = (String::with_capacity(text.len()), text.as_str());
    while let Some(at) = rest.find(MENTION) {
        let (before, after) = rest.split_at(at);
        named.push_str(before);
        let mention = mentions.iter().find(|mention| after.starts_with(&*mention.key));
        let length = mention.map_or(MENTION.len(), |mention| mention.key.len());
        match mention {
            Some(mention) => named.extend(["@", mention.name.as_deref().unwrap_or_default()]),
            None => named.push_str(MENTION),
        }
        rest = &after[length..];
    }
    named.push_str(rest);
    (named, mentions_bot)
}

/// The text without a mention and the white space after it.
fn without_mention(text: &str, key: &str) -> String {
    let mut left = String::with_capacity(text.len());
    for (at, part) in text.split(key).enumerate() {
        left.push_str(if at == 0 { part } else { part.trim_start() });
    }
    left.trim().to_owned()
}
