//! Parts of actions: kinds of media, the options of a prompt, the conditions of a rename.

use serde::{Deserialize, Serialize};

use crate::id::PromptOptionId;

/// The way in which a file is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MediaKind {
    Image,
    Voice,
    Audio,
    Video,
    Document,
}

/// The reason for a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptKind {
    Approval,
    Clarify,
    Choice,
}

/// One button of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PromptOption {
    pub id: PromptOptionId,
    pub label: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub style: Option<PromptStyle>,
}

/// The look of a button.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptStyle {
    Primary,
    Danger,
}

/// Conditions under which a thread is renamed. If both are set, both must hold.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RenameGuard {
    /// Only a thread that this server created, and that still has the name it gave.
    pub only_if_connector_created: bool,
    /// Only a thread that has this name now.
    pub only_if_current_name: Option<String>,
}
