//! Watch mode of the skill commands: the command runs again whenever its file changes.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::bail;

use super::given_skill::{GivenSkill, read_file};

/// How often the file is looked at.
const PAUSE: Duration = Duration::from_millis(200);

/// The file to watch, if watching is asked for.
pub fn watched_file(is_asked: bool, file: Option<PathBuf>) -> anyhow::Result<Option<PathBuf>> {
    match (is_asked, file) {
        (false, _) => Ok(None),
        (true, Some(file)) => Ok(Some(file)),
        (true, None) => bail!("--watch needs a file"),
    }
}

/// Runs a command again and again. Its errors are printed, and it goes on.
pub async fn repeat(
    file: &Path,
    mut text: GivenSkill,
    run: impl AsyncFn(&GivenSkill) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    loop {
        let seen = changed_at(file);
        // An editor may replace the file, so it can be missing for a moment.
        if let Ok(source) = read_file(file) {
            text.source = source;
        }
        if let Err(error) = run(&text).await {
            eprintln!("posthouse: {error:#}");
        }
        eprintln!("watching {}; stop with Ctrl-C", file.display());
        while changed_at(file) == seen {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn changed_at(file: &Path) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
