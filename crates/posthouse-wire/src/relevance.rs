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
