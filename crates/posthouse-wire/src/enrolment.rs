//! Enrolment of gateways: bodies of `POST /relay/enroll` and `POST /relay/provision` (relay contract sections 17.1
//! and 17.4).

use serde::{Deserialize, Serialize, Serializer};

use crate::{GatewayId, Platform, Secret, TenantId};

/// What a gateway sends to get its credential.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnrollRequest {
    /// A single-use token that the operator made.
    pub enrollment_token: Secret,
    /// The name that the gateway proposes for itself, usually its host name. Only a proposal.
    pub gateway_id: String,
}

/// The longest token and the longest proposed name, in bytes.
const LONGEST: usize = 256;

impl EnrollRequest {
    /// Reads a body. The error says what is wrong with it.
    pub fn read(body: &[u8]) -> Result<Self, &'static str> {
        let wanted: Self = serde_json::from_slice(body)
            .map_err(|_| "the body must be JSON with enrollmentToken and gatewayId")?;
        for text in [wanted.enrollment_token.expose(), &wanted.gateway_id] {
            if text.trim().is_empty() || text.len() > LONGEST || text.chars().any(char::is_control) {
                return Err(
                    "enrollmentToken and gatewayId must be texts of 1 to 256 bytes without control characters",
                );
            }
        }
        Ok(wanted)
    }
}

/// The credential of a gateway. A stock gateway stores all of it.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EnrollResponse {
    #[serde(serialize_with = "exposed")]
    pub secret: Secret,
    #[serde(serialize_with = "exposed")]
    pub delivery_key: Secret,
    pub tenant: TenantId,
    pub gateway_id: GatewayId,
}

/// What a gateway without a credential sends when it starts, once for each of its platforms. Its retired field
/// `gatewayEndpoint` is ignored.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProvisionCall {
    /// The name that the gateway proposes for itself, usually its host name. Only a proposal.
    pub gateway_id: String,
    pub platform: Platform,
    /// Empty for the only bot of the platform.
    #[serde(default)]
    pub bot_id: String,
    /// Chats, scopes and paths that the gateway claims for its agent.
    #[serde(default)]
    pub route_keys: Vec<String>,
    /// Name or id of the agent that the gateway is for.
    #[serde(default)]
    pub instance_id: Option<String>,
    #[serde(default)]
    pub wake_url: Option<String>,
    #[serde(default)]
    pub display_name: Option<String>,
}

/// The credential of a gateway that provisioned itself. A stock gateway keeps the secret of its first platform.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProvisionAnswer {
    #[serde(serialize_with = "exposed")]
    pub secret: Secret,
    #[serde(serialize_with = "exposed")]
    pub delivery_key: Secret,
    pub tenant: TenantId,
    pub gateway_id: GatewayId,
    /// The claims that are live. Others are left out, whatever the reason.
    pub route_keys: Vec<String>,
    pub secret_issued: bool,
    /// What was not stored, and why. Stock gateways ignore it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The two responses that carry these secrets.
fn exposed<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_response_has_the_names_that_a_stock_gateway_reads() {
        let response = EnrollResponse {
            secret: Secret::new("s"),
            delivery_key: Secret::new("d"),
            tenant: "ten_1".into(),
            gateway_id: "gw_1".into(),
        };
        let expected = json!({ "secret": "s", "deliveryKey": "d", "tenant": "ten_1", "gatewayId": "gw_1" });
        assert_eq!(serde_json::to_value(&response).unwrap(), expected);
    }
}
