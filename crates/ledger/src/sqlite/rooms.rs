//! SQL of web chat rooms and their messages.

mod files;

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{ChatId, EntryId, InstanceId, InvitationId, MediaId, MessageId, ThreadId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::Sqlite;
use super::write_queue::JobTenant;
use crate::Fault;
use crate::rooms::{ROOM_BYTES, ROOM_REACTIONS, Room, RoomFile, RoomMarks, RoomMessage, Rooms};

const LINE: &str =
    "message, by_agent, text, reply_to, said, edited, entry, delivered, thread, reactions, touched, seq";
const ROOM: &str = "SELECT id, instance, invitation, person, created FROM rooms";

#[async_trait]
impl Rooms for Sqlite {
    async fn enter(&self, new: Room) -> Result<Option<Room>, Fault> {
        self.write_for(self.tenant_of(&new.instance), move |db| {
            let Some(invitation) = &new.invitation else { return Ok(None) };
            db.execute(
                "INSERT INTO rooms (id, instance, invitation, person, created)
                 SELECT ?1, ?2, id, ?4, ?5 FROM invitations WHERE id = ?3
                 ON CONFLICT (instance, invitation) DO NOTHING",
                params![
                    new.id.as_str(),
                    new.instance.as_str(),
                    invitation.as_str(),
                    new.person,
                    new.created.millis()
                ],
            )?;
            db.prepare_cached(&format!("{ROOM} WHERE instance = ?1 AND invitation = ?2"))?
                .query_row([new.instance.as_str(), invitation.as_str()], room)
                .optional()
        })
        .await
    }

    async fn room(&self, id: &ChatId) -> Result<Option<Room>, Fault> {
        let id = id.clone();
        self.read(move |db| {
            db.prepare_cached(&format!("{ROOM} WHERE id = ?1"))?.query_row([id.as_str()], room).optional()
        })
        .await
    }

    async fn rooms(&self, of: &InstanceId) -> Result<Vec<Room>, Fault> {
        let of = of.clone();
        self.read(move |db| {
            db.prepare_cached(&format!("{ROOM} WHERE instance = ?1 ORDER BY created, id"))?
                .query_map([of.as_str()], room)?
                .collect()
        })
        .await
    }

    async fn say(&self, room: &ChatId, line: RoomMessage) -> Result<(), Fault> {
        let owner = self.tenant_of_room(room).await?;
        let room = room.clone();
        self.write_for(owner, move |db| {
            db.prepare_cached(
                "INSERT INTO room_lines
                   (room, message, by_agent, text, reply_to, said, edited, entry, delivered, thread, counted)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ledger_time()) ON CONFLICT (room, message) DO NOTHING",
            )?
            .execute(params![
                room.as_str(),
                line.message.as_str(),
                line.by_agent,
                line.text,
                line.reply_to.as_ref().map(|message| message.as_str()),
                line.sent.millis(),
                line.edited.map(Moment::millis),
                line.entry.as_ref().map(|entry| entry.as_str()),
                line.delivered.map(Moment::millis),
                line.marks.thread.as_ref().map(|thread| thread.as_str()),
            ])?;
            files::attach(db, &room, &line)?;
            trim(db, &room)
        })
        .await
    }

    async fn add_file(&self, room: &ChatId, file: RoomFile) -> Result<bool, Fault> {
        let owner = self.tenant_of_room(room).await?;
        let room = room.clone();
        self.write_for(owner, move |db| files::add(db, &room, &file)).await
    }

    async fn files_for(
        &self,
        room: &ChatId,
        message: &MessageId,
        media: Vec<MediaId>,
    ) -> Result<Vec<RoomFile>, Fault> {
        let (room, message) = (room.clone(), message.clone());
        self.read(move |db| files::for_message(db, &room, &message, &media)).await
    }

    async fn has_file(&self, room: &ChatId, media: &MediaId) -> Result<bool, Fault> {
        let (room, media) = (room.clone(), media.clone());
        self.read(move |db| {
            db.prepare_cached("SELECT 1 FROM room_files WHERE media = ?1 AND room = ?2")?
                .exists([media.as_str(), room.as_str()])
        })
        .await
    }

    async fn rewrite(
        &self,
        room: &ChatId,
        message: &MessageId,
        text: &str,
        at: Moment,
    ) -> Result<bool, Fault> {
        let owner = self.tenant_of_room(room).await?;
        let (room, message, text) = (room.clone(), message.clone(), text.to_owned());
        self.write_for(owner, move |db| {
            let rewritten = db
                .prepare_cached(
                    "UPDATE room_lines SET text = ?3, edited = ?4 WHERE room = ?1 AND message = ?2 AND by_agent = 1",
                )?
                .execute(params![room.as_str(), message.as_str(), text, at.millis()])?;
            trim(db, &room)?;
            Ok(rewritten > 0)
        })
        .await
    }

    async fn react(
        &self,
        room: &ChatId,
        message: &MessageId,
        emoji: &str,
        remove: bool,
        at: Moment,
    ) -> Result<Option<Vec<String>>, Fault> {
        let owner = self.tenant_of_room(room).await?;
        let (room, message, emoji) = (room.clone(), message.clone(), emoji.to_owned());
        self.write_for(owner, move |db| {
            let stored: Option<Option<String>> = db
                .prepare_cached("SELECT reactions FROM room_lines WHERE room = ?1 AND message = ?2")?
                .query_row([room.as_str(), message.as_str()], |row| row.get(0))
                .optional()?;
            let Some(stored) = stored else { return Ok(None) };
            let mut left = reactions(stored);
            if left.contains(&emoji) != remove {
                return Ok(Some(left));
            }
            if remove {
                left.retain(|one| *one != emoji);
            } else {
                left.push(emoji.clone());
            }
            left.drain(..left.len().saturating_sub(ROOM_REACTIONS));
            let list = (!left.is_empty()).then(|| serde_json::json!(left).to_string());
            db.prepare_cached(
                "UPDATE room_lines SET reactions = ?3, touched = ?4 WHERE room = ?1 AND message = ?2",
            )?
            .execute(params![room.as_str(), message.as_str(), list, at.millis()])?;
            Ok(Some(left))
        })
        .await
    }

    async fn touch(&self, room: &ChatId, message: &MessageId, at: Moment) -> Result<(), Fault> {
        let owner = self.tenant_of_room(room).await?;
        let (room, message) = (room.clone(), message.clone());
        self.write_for(owner, move |db| {
            db.prepare_cached("UPDATE room_lines SET touched = ?3 WHERE room = ?1 AND message = ?2")?
                .execute(params![room.as_str(), message.as_str(), at.millis()])
                .map(drop)
        })
        .await
    }

    async fn message(&self, room: &ChatId, message: &MessageId) -> Result<Option<RoomMessage>, Fault> {
        let (room, message) = (room.clone(), message.clone());
        self.read(move |db| {
            db.prepare_cached(&format!("SELECT {LINE} FROM room_lines WHERE room = ?1 AND message = ?2"))?
                .query_row([room.as_str(), message.as_str()], line)
                .optional()
        })
        .await
    }

    async fn delivered(&self, room: &ChatId, message: &MessageId, at: Moment) -> Result<bool, Fault> {
        let owner = self.tenant_of_room(room).await?;
        let (room, message) = (room.clone(), message.clone());
        self.write_for(owner, move |db| {
            db.prepare_cached(
                "UPDATE room_lines SET delivered = ?3 WHERE room = ?1 AND message = ?2 AND delivered IS NULL",
            )?
            .execute(params![room.as_str(), message.as_str(), at.millis()])
            .map(|rows| rows > 0)
        })
        .await
    }

    async fn place_before_latest(&self, room: &ChatId, at_most: u16, bytes: usize) -> Result<i64, Fault> {
        let room = room.clone();
        self.read(move |db| {
            let mut lines = db.prepare_cached(
                "SELECT seq, length(CAST(text AS BLOB)) FROM room_lines WHERE room = ?1 ORDER BY seq DESC LIMIT ?2",
            )?;
            let mut rows = lines.query(params![room.as_str(), at_most])?;
            let (mut place, mut sum) = (0, 0);
            while let Some(row) = rows.next()? {
                sum += usize::try_from(row.get::<_, i64>(1)?).unwrap_or(usize::MAX);
                if place != 0 && sum > bytes {
                    break;
                }
                place = row.get(0)?;
            }
            Ok(place - 1)
        })
        .await
    }

    async fn messages_after(
        &self,
        room: &ChatId,
        place: i64,
        since: Option<Moment>,
        bytes: usize,
    ) -> Result<Vec<(i64, RoomMessage)>, Fault> {
        let room = room.clone();
        self.read(move |db| {
            let mut found = db.prepare_cached(
                &format!("SELECT {LINE} FROM room_lines
                 WHERE room = ?1 AND seq > ?2 AND max(said, coalesce(edited, said), coalesce(touched, said)) >= ?3
                 ORDER BY seq"),
            )?;
            let since = since.map_or(i64::MIN, Moment::millis);
            let mut rows = found.query(params![room.as_str(), place, since])?;
            let (mut lines, mut sum) = (Vec::new(), 0);
            while let Some(row) = rows.next()? {
                let mut line = line(row)?;
                line.files = files::of_message(db, &room, &line.message)?;
                sum += line.text.len();
                if !lines.is_empty() && sum > bytes {
                    break;
                }
                lines.push((row.get("seq")?, line));
            }
            Ok(lines)
        })
        .await
    }
}

impl Sqlite {
    /// The tenant of a room's agent, as the owner of writes for it. People and agents write as often as they like.
    async fn tenant_of_room(&self, room: &ChatId) -> Result<JobTenant, Fault> {
        let room = room.clone();
        let agent: Option<String> = self
            .read(move |db| {
                db.prepare_cached("SELECT instance FROM rooms WHERE id = ?1")?
                    .query_row([room.as_str()], |row| row.get(0))
                    .optional()
            })
            .await?;
        Ok(agent.and_then(|agent| self.tenant_of(&InstanceId::from(agent))))
    }
}

/// Deletes the oldest messages of a room past its limit of bytes, but never the newest.
fn trim(db: &Connection, room: &ChatId) -> rusqlite::Result<()> {
    let mut bytes = db.prepare_cached("SELECT bytes FROM rooms WHERE id = ?1")?;
    let mut oldest = db.prepare_cached(
        "DELETE FROM room_lines WHERE seq = (SELECT seq FROM room_lines WHERE room = ?1 ORDER BY seq LIMIT 1)
           AND seq < (SELECT seq FROM room_lines WHERE room = ?1 ORDER BY seq DESC LIMIT 1)",
    )?;
    while bytes.query_row([room.as_str()], |row| row.get::<_, i64>(0)).optional()? > Some(ROOM_BYTES) {
        if oldest.execute([room.as_str()])? == 0 {
            break;
        }
    }
    Ok(())
}

/// Most messages have no reactions. None is stored then.
fn reactions(stored: Option<String>) -> Vec<String> {
    stored.and_then(|list| serde_json::from_str(&list).ok()).unwrap_or_default()
}

fn room(row: &Row<'_>) -> rusqlite::Result<Room> {
    Ok(Room {
        id: row.get::<_, String>(0)?.into(),
        instance: row.get::<_, String>(1)?.into(),
        invitation: row.get::<_, Option<String>>(2)?.map(InvitationId::from),
        person: row.get(3)?,
        created: Moment::from_millis(row.get(4)?),
    })
}

fn line(row: &Row<'_>) -> rusqlite::Result<RoomMessage> {
    Ok(RoomMessage {
        message: row.get::<_, String>(0)?.into(),
        by_agent: row.get(1)?,
        text: row.get(2)?,
        reply_to: row.get::<_, Option<String>>(3)?.map(MessageId::from),
        sent: Moment::from_millis(row.get(4)?),
        edited: row.get::<_, Option<i64>>(5)?.map(Moment::from_millis),
        entry: row.get::<_, Option<String>>(6)?.map(EntryId::from),
        delivered: row.get::<_, Option<i64>>(7)?.map(Moment::from_millis),
        marks: RoomMarks {
            thread: row.get::<_, Option<String>>(8)?.map(ThreadId::from),
            reactions: reactions(row.get(9)?),
            touched: row.get::<_, Option<i64>>(10)?.map(Moment::from_millis),
        },
        files: Vec::new(),
    })
}
