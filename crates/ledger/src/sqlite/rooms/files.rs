//! SQL of the files in web chat rooms.

use posthouse_wire::{ChatId, MediaId, MessageId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::rooms::{RoomFile, RoomMessage, UNSENT_FILES};

const FILE: &str = "SELECT media, mime, filename, size,
    NOT EXISTS (SELECT 1 FROM media WHERE media.id = room_files.media AND ends > ledger_time()) FROM room_files";

/// Adds a file that waits for its message.
pub(super) fn add(db: &Connection, room: &ChatId, file: &RoomFile) -> rusqlite::Result<bool> {
    db.prepare_cached(
        "INSERT INTO room_files (media, room, mime, filename, size, counted)
         SELECT ?1, ?2, ?3, ?4, ?5, ledger_time()
         WHERE (SELECT count(*) FROM room_files WHERE room = ?2 AND message IS NULL) < ?6",
    )?
    .execute(params![file.media.as_str(), room.as_str(), file.mime, file.filename, file.size, UNSENT_FILES])
    .map(|rows| rows > 0)
}

/// Makes the files of a message its own.
pub(super) fn attach(db: &Connection, room: &ChatId, line: &RoomMessage) -> rusqlite::Result<()> {
    for file in &line.files {
        db.prepare_cached(
            "INSERT INTO room_files (media, room, message, mime, filename, size, counted)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ledger_time())
             ON CONFLICT (media) DO UPDATE SET message = excluded.message
               WHERE room = excluded.room AND message IS NULL",
        )?
        .execute(params![
            file.media.as_str(),
            room.as_str(),
            line.message.as_str(),
            file.mime,
            file.filename,
            file.size
        ])?;
    }
    Ok(())
}

/// The files that a message of this room may have.
pub(super) fn for_message(
    db: &Connection,
    room: &ChatId,
    message: &MessageId,
    media: &[MediaId],
) -> rusqlite::Result<Vec<RoomFile>> {
    let mut found = db.prepare_cached(&format!(
        "{FILE} WHERE media = ?1 AND room = ?2 AND (message IS NULL OR message = ?3)"
    ))?;
    let mut files = Vec::new();
    for media in media {
        files.extend(found.query_row([media.as_str(), room.as_str(), message.as_str()], file).optional()?);
    }
    Ok(files)
}

pub(super) fn of_message(
    db: &Connection,
    room: &ChatId,
    message: &MessageId,
) -> rusqlite::Result<Vec<RoomFile>> {
    db.prepare_cached(&format!("{FILE} WHERE room = ?1 AND message = ?2 ORDER BY seq"))?
        .query_map([room.as_str(), message.as_str()], file)?
        .collect()
}

fn file(row: &Row<'_>) -> rusqlite::Result<RoomFile> {
    Ok(RoomFile {
        media: row.get::<_, String>(0)?.into(),
        mime: row.get(1)?,
        filename: row.get(2)?,
        size: row.get(3)?,
        expired: row.get(4)?,
    })
}
