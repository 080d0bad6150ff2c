//! `posthouse backup`: a consistent copy of the ledger of a running server.

use std::path::Path;

use anyhow::Context;

use super::admin_client::AdminClient;
use super::output::Output;

pub async fn backup(output: &Output, client: &AdminClient, file: &Path) -> anyhow::Result<()> {
    // The path is relative to the directory of this process; the server may run in another one.
    let path = std::path::absolute(file).with_context(|| format!("cannot find {}", file.display()))?;
    let body = serde_json::json!({ "path": path });
    let answer = client.post(&["backup"], &[], &body).await?;
    output.done(&answer, &format!("wrote {}", path.display()))
}
