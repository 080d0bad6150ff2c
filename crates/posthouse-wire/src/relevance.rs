//! Relevance policy of a gateway: body of `POST /relay/policy` (relay contract section 17.6).

use serde::Deserialize;

use crate::Platform;

/// Which messages of groups a gateway wants on one platform. It replaces the earlier policy for that platform.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeclaredRelevance {
    pub platform: Platform,
    pub require_address: bool,
    pub free_response_scopes: Vec<String>,
    pub allow_other_bots: bool,
}

/// Most free scopes of one policy, and the longest id of one in bytes.
const SCOPES: usize = 256;
const LONGEST_SCOPE: usize = 256;
/// The longest name of a platform, in bytes.
const LONGEST_PLATFORM: usize = 64;

impl DeclaredRelevance {
    /// Reads a body. The error says what is wrong with it.
    pub fn read(body: &[u8]) -> Result<Self, &'static str> {
        let declared: Self = serde_json::from_slice(body).map_err(
            |_| "the body must be JSON with platform, requireAddress, freeResponseScopes and allowOtherBots",
        )?;
        let platform = declared.platform.as_str();
        if platform.is_empty() || platform.len() > LONGEST_PLATFORM || platform.chars().any(char::is_control)
        {
            return Err("platform must be a text of 1 to 64 bytes");
        }
        let scopes = &declared.free_response_scopes;
        if scopes.len() > SCOPES || scopes.iter().any(|scope| scope.len() > LONGEST_SCOPE) {
            return Err("freeResponseScopes may hold 256 ids of 256 bytes each");
        }
        Ok(declared)
    }
}
