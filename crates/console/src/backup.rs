//! Admin API: consistent backup of the ledger while the server runs, without the vault key.

use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};

use crate::extract::JsonBody;
use crate::problem::AdminProblem;
use crate::routes::Console;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackupRequest {
    path: PathBuf,
}

#[derive(Serialize)]
pub(crate) struct WrittenBackup {
    path: PathBuf,
}

pub(crate) async fn write(
    State(console): State<Console>,
    JsonBody(to): JsonBody<BackupRequest>,
) -> Result<Json<WrittenBackup>, AdminProblem> {
    // A relative path would refer to the directory of the server, not of the operator.
    if !to.path.is_absolute() {
        return Err(AdminProblem::unfit("bad_path", "the path must be absolute"));
    }
    if to.path.exists() {
        return Err(AdminProblem::conflict("exists", format!("{} already exists", to.path.display())));
    }
    (console.backup)(to.path.clone()).await.map_err(|why| AdminProblem::unfit("not_written", why))?;
    Ok(Json(WrittenBackup { path: to.path }))
}
