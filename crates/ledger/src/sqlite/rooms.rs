use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{ChatId, InstanceId, MessageId};
use rusqlite::{OptionalExtension, Row, params};

use super::Sqlite;
use crate::Fault;
use crate::rooms::{Invite, Line, Room, Rooms};

const ROOM: &str = "SELECT id, instance, person, created FROM rooms";
const INVITE: &str = "SELECT hash, person, created FROM invites";

#[async_trait]
impl Rooms for Sqlite {
    async fn enter(&self, new: Room) -> Result<Room, Fault> {
        self.write(move |db| {
            db.execute(
                "INSERT INTO rooms (id, instance, person, created) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (instance, person) DO NOTHING",
                params![new.id.as_str(), new.instance.as_str(), new.person, new.created.millis()],
            )?;
            db.prepare_cached(&format!("{ROOM} WHERE instance = ?1 AND person = ?2"))?
                .query_row([new.instance.as_str(), &new.person], room)
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
            db.prepare_cached(&format!("{ROOM} WHERE instance = ?1 ORDER BY person"))?
                .query_map([of.as_str()], room)?
                .collect()
        })
        .await
    }

    async fn say(&self, room: &ChatId, line: Line) -> Result<(), Fault> {
        let room = room.clone();
        self.write(move |db| {
            db.prepare_cached(
                "INSERT INTO room_lines (room, message, by_agent, text, reply_to, said, edited)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (room, message) DO NOTHING",
            )?
            .execute(params![
                room.as_str(),
                line.message.as_str(),
                line.by_agent,
                line.text,
                line.reply_to.as_ref().map(|message| message.as_str()),
                line.said.millis(),
                line.edited.map(Moment::millis),
            ])
            .map(drop)
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
        let (room, message, text) = (room.clone(), message.clone(), text.to_owned());
        self.write(move |db| {
            db.prepare_cached(
                "UPDATE room_lines SET text = ?3, edited = ?4 WHERE room = ?1 AND message = ?2 AND by_agent = 1",
            )?
            .execute(params![room.as_str(), message.as_str(), text, at.millis()])
            .map(|rows| rows > 0)
        })
        .await
    }

    async fn history(&self, room: &ChatId, at_most: u16) -> Result<Vec<Line>, Fault> {
        let room = room.clone();
        self.read(move |db| {
            let mut lines: Vec<Line> = db
                .prepare_cached(
                    "SELECT message, by_agent, text, reply_to, said, edited FROM room_lines
                     WHERE room = ?1 ORDER BY seq DESC LIMIT ?2",
                )?
                .query_map(params![room.as_str(), at_most], line)?
                .collect::<rusqlite::Result<_>>()?;
            lines.reverse();
            Ok(lines)
        })
        .await
    }

    async fn invite(&self, new: Invite) -> Result<(), Fault> {
        self.write(move |db| {
            db.execute(
                "INSERT INTO invites (hash, person, created) VALUES (?1, ?2, ?3)
                 ON CONFLICT (person) DO UPDATE SET hash = excluded.hash, created = excluded.created",
                params![new.hash, new.person, new.created.millis()],
            )
            .map(drop)
        })
        .await
    }

    async fn invited(&self, hash: &str) -> Result<Option<Invite>, Fault> {
        let hash = hash.to_owned();
        self.read(move |db| {
            db.prepare_cached(&format!("{INVITE} WHERE hash = ?1"))?.query_row([&hash], invite).optional()
        })
        .await
    }

    async fn invites(&self) -> Result<Vec<Invite>, Fault> {
        self.read(|db| {
            db.prepare_cached(&format!("{INVITE} ORDER BY person"))?.query_map([], invite)?.collect()
        })
        .await
    }

    async fn withdraw_invite(&self, person: &str) -> Result<bool, Fault> {
        let person = person.to_owned();
        self.write(move |db| {
            db.execute("DELETE FROM invites WHERE person = ?1", [&person]).map(|rows| rows > 0)
        })
        .await
    }
}

fn room(row: &Row<'_>) -> rusqlite::Result<Room> {
    Ok(Room {
        id: row.get::<_, String>(0)?.into(),
        instance: row.get::<_, String>(1)?.into(),
        person: row.get(2)?,
        created: Moment::from_millis(row.get(3)?),
    })
}

fn line(row: &Row<'_>) -> rusqlite::Result<Line> {
    Ok(Line {
        message: row.get::<_, String>(0)?.into(),
        by_agent: row.get(1)?,
        text: row.get(2)?,
        reply_to: row.get::<_, Option<String>>(3)?.map(MessageId::from),
        said: Moment::from_millis(row.get(4)?),
        edited: row.get::<_, Option<i64>>(5)?.map(Moment::from_millis),
    })
}

fn invite(row: &Row<'_>) -> rusqlite::Result<Invite> {
    Ok(Invite { hash: row.get(0)?, person: row.get(1)?, created: Moment::from_millis(row.get(2)?) })
}
