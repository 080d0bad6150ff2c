//! Deleting files whose row is gone, and files that never got one.

use std::time::Duration;

use posthouse_wire::MediaFile;
use tokio_util::sync::CancellationToken;

use super::MediaStore;
use super::files::MediaFolder;
use crate::Fault;

/// Interval of the deletion of files whose row is gone.
const DELETE_EVERY: Duration = Duration::from_secs(60);
/// Interval of the search for files without a row. A crash leaves them between the file and its row.
const SEARCH_EVERY: Duration = Duration::from_secs(3600);
/// Files deleted at a time.
const BATCH: u32 = 500;

impl MediaStore {
    /// Deletes files until shutdown.
    pub(crate) async fn delete_unneeded_files(&self, closing: CancellationToken) {
        let state = &self.0;
        let folder = state.folder.clone();
        if state.threads.run(move || folder.delete_unfinished()).await.is_err() {
            return;
        }
        let mut searched = None;
        loop {
            let now = state.timepiece.instant();
            if searched.is_none_or(|searched| now.since(searched) >= SEARCH_EVERY) {
                searched = Some(now);
                if let Err(fault) = self.delete_strays().await {
                    tracing::error!(%fault, "could not look for files that nothing refers to");
                }
            }
            if let Err(fault) = self.delete_ended().await {
                tracing::error!(%fault, "could not delete files");
            }
            tokio::select! {
                () = closing.cancelled() => return,
                () = state.timepiece.after(DELETE_EVERY) => {}
            }
        }
    }

    /// Deletes the files whose row is gone.
    #[doc(hidden)]
    pub async fn delete_ended(&self) -> Result<(), Fault> {
        loop {
            let files = self.0.records.files_to_delete(BATCH).await?;
            if files.is_empty() {
                return Ok(());
            }
            let (folder, deleted) = (self.0.folder.clone(), files.clone());
            self.0
                .threads
                .run(move || deleted.iter().try_for_each(|file| folder.delete(file)))
                .await?
                .map_err(|error| Fault::Disk(error.to_string()))?;
            self.0.records.files_deleted(files).await?;
        }
    }

    /// Deletes the files that no row names.
    #[doc(hidden)]
    pub async fn delete_strays(&self) -> Result<(), Fault> {
        let folder = self.0.folder.clone();
        for inner in self.0.threads.run(move || folder.folders()).await? {
            let files = self.0.threads.run(move || MediaFolder::files_in(&inner)).await?;
            // A file gets its row after it is in its place. One that was seen in its place and is not being finished
            // any more has its row by now, or never gets one.
            let settled: Vec<MediaFile> = {
                let finishing = self.0.finishing.lock();
                files.into_iter().filter(|file| !finishing.contains(file)).collect()
            };
            if settled.is_empty() {
                continue;
            }
            let strays = self.0.records.files_without_row(settled).await?;
            let folder = self.0.folder.clone();
            let count = strays.len();
            self.0
                .threads
                .run(move || strays.iter().try_for_each(|file| folder.delete(file)))
                .await?
                .map_err(|error| Fault::Disk(error.to_string()))?;
            if count > 0 {
                tracing::info!(files = count, "deleted files that nothing refers to");
            }
        }
        Ok(())
    }
}
