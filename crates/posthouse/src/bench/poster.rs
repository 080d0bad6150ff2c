//! Platform side of a load: a keep-alive connection that posts updates, with little cost of its own.

use std::io;

use anyhow::Context;
use posthouse_wire::BotId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::fixtures::{PLATFORM, ServerFixture, busy_chat};
use super::server::ServerProcess;

/// Placeholder with the length of every message number.
pub const PLACE: &str = "9999999999";
/// Placeholder with the length of every chat.
const CHAT_PLACE: &str = "8888888888";
/// Text that makes an update as long as real ones, about a kilobyte.
pub const WORDS: &str = "Could you look over the notes from this morning and tell me which of the open points \
    are still ours? The second one about the delivery window worries me, and I would rather hear it from you \
    before the call than during it. If there is nothing new, say so and I will leave it for tomorrow. Also, \
    please put the address of the new place into the invitation for Thursday, with the floor and the name on \
    the bell, because last time two people stood in front of the wrong door for twenty minutes.";

pub struct Poster {
    stream: TcpStream,
    request: Vec<u8>,
    /// Offsets of the message number in the request.
    places: Vec<usize>,
    /// Offsets of the chat in the request, if the poster writes from several.
    chat_places: Vec<usize>,
    /// The chats that it writes from in turn, and the next of them.
    chats: Vec<u64>,
    next_chat: usize,
    answer: Vec<u8>,
}

impl Poster {
    /// The poster with this number writes from its own chat, to the bot of one of the agents under load.
    pub async fn connect(server: &ServerProcess, fixture: &ServerFixture, at: u32) -> anyhow::Result<Self> {
        let bot = &fixture.loaded[at as usize % fixture.loaded.len()].bot;
        let request = update(server, fixture, bot, &busy_chat(at).to_string())?;
        Self::open(server.address()?, request).await
    }

    /// A poster that writes from these chats in turn, to the bot of the first agent under load.
    pub async fn for_chats(
        server: &ServerProcess,
        fixture: &ServerFixture,
        chats: Vec<u64>,
    ) -> anyhow::Result<Self> {
        let bot = &fixture.loaded.first().context("there is no agent")?.bot;
        let request = update(server, fixture, bot, CHAT_PLACE)?;
        let chat_places = places(&request, CHAT_PLACE);
        let poster = Self::open(server.address()?, request).await?;
        Ok(Self { chat_places, chats, ..poster })
    }

    /// A connection for this request, which may contain places for a number.
    pub async fn open(address: &str, request: String) -> anyhow::Result<Self> {
        let stream = dial(address).await?;
        let (request, places) = prepared(request);
        let (chat_places, chats) = (Vec::new(), Vec::new());
        let answer = Vec::with_capacity(1024);
        Ok(Self { stream, request, places, chat_places, chats, next_chat: 0, answer })
    }

    /// Replaces a connection that may have been idle for longer than the server keeps it.
    pub async fn redial(&mut self, address: &str) -> io::Result<()> {
        self.stream = dial(address).await?;
        Ok(())
    }

    /// Replaces the request.
    pub fn rewrite(&mut self, request: String) {
        (self.request, self.places) = prepared(request);
    }

    /// Posts one message and returns the status of the answer.
    pub async fn post(&mut self, number: u64) -> io::Result<u16> {
        write(&mut self.request, &self.places, number);
        if let Some(chat) = self.chats.get(self.next_chat) {
            write(&mut self.request, &self.chat_places, *chat);
            self.next_chat = (self.next_chat + 1) % self.chats.len();
        }
        self.stream.write_all(&self.request).await?;
        self.answer.clear();
        loop {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(status) = whole(&self.answer)? {
                return Ok(status);
            }
        }
    }

    /// The body of the last answer.
    pub fn answer_body(&self) -> io::Result<&[u8]> {
        framed(&self.answer)?.map(|(_, body)| body).ok_or_else(odd)
    }
}

/// A webhook request with a message from this chat.
fn update(
    server: &ServerProcess,
    fixture: &ServerFixture,
    bot: &BotId,
    chat: &str,
) -> anyhow::Result<String> {
    let body = format!(
        "{{\"update_id\":{PLACE},\"message\":{{\"message_id\":{PLACE},\"from\":{{\"id\":{chat},\"is_bot\":false,\
         \"first_name\":\"Ana\",\"last_name\":\"Ruiz\",\"username\":\"ana_ruiz\",\"language_code\":\"en\"}},\
         \"chat\":{{\"id\":{chat},\"first_name\":\"Ana\",\"last_name\":\"Ruiz\",\"username\":\"ana_ruiz\",\
         \"type\":\"private\"}},\"date\":1765000000,\"text\":\"{WORDS}\",\"entities\":[{{\"offset\":0,\"length\":5,\
         \"type\":\"bold\"}},{{\"offset\":26,\"length\":5,\"type\":\"italic\"}}],\
         \"link_preview_options\":{{\"is_disabled\":true}}}}}}"
    );
    Ok(format!(
        "POST /door/{PLATFORM}/{bot} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
         X-Telegram-Bot-Api-Secret-Token: {}\r\nContent-Length: {}\r\n\r\n{body}",
        server.address()?,
        fixture.webhook_secret.expose(),
        body.len()
    ))
}

async fn dial(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn prepared(request: String) -> (Vec<u8>, Vec<usize>) {
    let places = places(&request, PLACE);
    (request.into_bytes(), places)
}

fn places(request: &str, place: &str) -> Vec<usize> {
    request.match_indices(place).map(|(at, _)| at).collect()
}

/// Writes a number of ten digits into its places.
fn write(request: &mut [u8], places: &[usize], number: u64) {
    let digits = format!("{number:010}");
    for place in places {
        request[*place..*place + PLACE.len()].copy_from_slice(digits.as_bytes());
    }
}

/// The status of a complete answer.
fn whole(answer: &[u8]) -> io::Result<Option<u16>> {
    let Some((head, _)) = framed(answer)? else { return Ok(None) };
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(odd)?;
    Ok(Some(status))
}

/// Head and body of a complete request or answer.
pub fn framed(message: &[u8]) -> io::Result<Option<(&str, &[u8])>> {
    let Some(end) = message.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&message[..end]).map_err(|_| odd())?;
    let length = head.split("\r\n").skip(1).find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let body = &message[end + 4..];
    Ok(body.get(..length.ok_or_else(odd)?).map(|body| (head, body)))
}

fn odd() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the message cannot be parsed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_when_its_body_is() {
        let answer = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 3\r\n\r\nno\n";
        assert_eq!(whole(answer).unwrap(), Some(503));
        assert_eq!(whole(&answer[..answer.len() - 1]).unwrap(), None);
        assert_eq!(whole(&answer[..20]).unwrap(), None);
        assert!(whole(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").is_err());
    }
}
