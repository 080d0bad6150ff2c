//! A consistent copy while the house runs. The vault key is not in it.

use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;
use crate::routes::Console;
use crate::told::Told;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Where {
    path: PathBuf,
}

#[derive(Serialize)]
pub(crate) struct Written {
    path: PathBuf,
}

pub(crate) async fn write(
    State(console): State<Console>,
    Told(to): Told<Where>,
) -> Result<Json<Written>, Problem> {
    // The asker's folder is not the house's.
    if !to.path.is_absolute() {
        return Err(Problem::unfit("bad_path", "the path must be absolute"));
    }
    if to.path.exists() {
        return Err(Problem::conflict("exists", format!("{} is there already", to.path.display())));
    }
    (console.backup)(to.path.clone()).await.map_err(|why| Problem::unfit("not_written", why))?;
    Ok(Json(Written { path: to.path }))
}
