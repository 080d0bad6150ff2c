//! Reading a file in pieces.

use std::fs::File;
use std::io::{self, Read};

use bytes::Bytes;
use futures_util::Stream;
use ledger::MediaRecord;

use super::transfer_places::TransferPlace;
use super::{MediaStore, PLACE_WITHIN};
use crate::Fault;

/// Length of a piece, in bytes.
const PIECE: usize = 128 * 1024;

/// An open file. It holds one piece in memory.
pub struct MediaReader {
    store: MediaStore,
    file: Option<File>,
    size: u64,
    _place: TransferPlace,
}

impl MediaStore {
    /// Opens a stored file. `None` if it is no longer on the disk.
    pub async fn open(&self, record: &MediaRecord) -> Result<Option<MediaReader>, Fault> {
        let place = self.0.downloads.take(&record.tenant, PLACE_WITHIN).await;
        let place = place.ok_or_else(|| Fault::Disk("too many files are being read".to_owned()))?;
        let (folder, name) = (self.0.folder.clone(), record.file.clone());
        match self.0.threads.run(move || folder.open(&name)).await? {
            Ok(file) => {
                let size = u64::try_from(record.size).unwrap_or_default();
                Ok(Some(MediaReader { store: self.clone(), file: Some(file), size, _place: place }))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Fault::Disk(error.to_string())),
        }
    }
}

impl MediaReader {
    /// Size of the whole file in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The next piece. `None` at the end.
    pub async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let mut file = self.file.take()?;
        let reading = move || {
            let mut piece = vec![0; PIECE];
            let mut filled = 0;
            while filled < PIECE {
                match file.read(&mut piece[filled..])? {
                    0 => break,
                    read => filled += read,
                }
            }
            piece.truncate(filled);
            Ok::<_, io::Error>((file, Bytes::from(piece)))
        };
        match self.store.0.threads.run(reading).await {
            Ok(Ok((_, piece))) if piece.is_empty() => None,
            Ok(Ok((file, piece))) => {
                self.file = Some(file);
                Some(Ok(piece))
            }
            Ok(Err(error)) => Some(Err(error)),
            Err(fault) => Some(Err(io::Error::other(fault.to_string()))),
        }
    }

    /// The rest of the file as a stream.
    pub fn into_stream(self) -> impl Stream<Item = io::Result<Bytes>> + Send {
        futures_util::stream::unfold(self, |mut reader| async move {
            let piece = reader.next().await?;
            Some((piece, reader))
        })
    }
}
