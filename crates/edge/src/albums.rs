//! Albums: several messages that a person sends as one. An album is addressed to the bot if one of its parts is.
//!
//! The parts come one by one, in any order, and only one has the caption that mentions the bot. A part that is not
//! addressed waits here for a short time. A restart forgets the waiting parts: they were for no agent yet.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ledger::BotRef;
use parking_lot::Mutex;
use posthouse_time::{Instant, Timepiece};
use posthouse_wire::{ChatId, UserId};

use crate::platform::Arrival;

/// Time for which an album takes further parts.
const COMPLETE_WITHIN: Duration = Duration::from_secs(60);
/// Most waiting parts of one album. Platforms allow ten.
const PARTS: usize = 10;
/// Most albums of one chat, of one bot, and of all. Beyond it the oldest album of the chat is forgotten, or of the bot, or
/// of the bot that has most of them.
const OF_A_CHAT: usize = 4;
const OF_A_BOT: usize = 64;
const ALBUMS: usize = 512;

/// An album by the platform's id. Its author and chat belong to it, so that nobody can add to somebody else's.
#[derive(Clone, PartialEq, Eq, Hash)]
struct AlbumKey {
    on: BotRef,
    chat: ChatId,
    author: Option<UserId>,
    album: String,
}

struct Album {
    since: Instant,
    /// One of its parts was addressed to the bot.
    addressed: bool,
    /// The parts that came before that.
    waiting: Vec<Arrival>,
}

/// The latest albums. Clones share one state.
#[derive(Clone)]
pub(crate) struct Albums {
    albums: Arc<Mutex<HashMap<AlbumKey, Album>>>,
    timepiece: Timepiece,
}

impl Albums {
    pub fn new(timepiece: Timepiece) -> Self {
        Self { albums: Arc::default(), timepiece }
    }

    /// The arrivals to be judged now: this one, and the parts of its album that waited for it. All of them are addressed
    /// if one is.
    pub fn complete(
        &self,
        on: &BotRef,
        mut arrival: Box<Arrival>,
    ) -> impl Iterator<Item = Box<Arrival>> + use<> {
        let waited = match key(on, &arrival) {
            Some(key) => self.join(key, &mut arrival),
            None => Vec::new(),
        };
        waited.into_iter().map(Box::new).chain(std::iter::once(arrival))
    }

    /// Joins an arrival with its album. Returns the parts that waited for it.
    fn join(&self, key: AlbumKey, arrival: &mut Arrival) -> Vec<Arrival> {
        let mut albums = self.albums.lock();
        if !arrival.addressed {
            arrival.addressed = albums.get(&key).is_some_and(|album| album.addressed && self.is_open(album));
            return Vec::new();
        }
        let album = self.entry(&mut albums, key);
        album.addressed = true;
        let mut waited = std::mem::take(&mut album.waiting);
        waited.iter_mut().for_each(|part| part.addressed = true);
        waited
    }

    /// Lets a part wait that was not addressed. Returns it if another part made its album addressed meanwhile.
    pub fn wait(&self, on: &BotRef, mut arrival: Box<Arrival>) -> Option<Box<Arrival>> {
        let key = key(on, &arrival)?;
        let mut albums = self.albums.lock();
        let album = self.entry(&mut albums, key);
        if album.addressed {
            arrival.addressed = true;
            return Some(arrival);
        }
        // A repeat of the platform is the same part.
        if album.waiting.len() < PARTS && album.waiting.iter().all(|part| part.dedup != arrival.dedup) {
            album.waiting.push(*arrival);
        }
        None
    }

    fn is_open(&self, album: &Album) -> bool {
        self.timepiece.instant() < album.since + COMPLETE_WITHIN
    }

    /// The album with this key, made anew if its time is over.
    fn entry<'a>(&self, albums: &'a mut HashMap<AlbumKey, Album>, key: AlbumKey) -> &'a mut Album {
        let now = self.timepiece.instant();
        if albums.get(&key).is_none_or(|album| !self.is_open(album)) {
            albums.retain(|_, album| self.is_open(album));
            make_room(albums, &key);
        }
        albums.entry(key).or_insert_with(|| Album { since: now, addressed: false, waiting: Vec::new() })
    }
}

/// Makes room for one more album.
fn make_room(albums: &mut HashMap<AlbumKey, Album>, newcomer: &AlbumKey) {
    let is_of_its_bot = |key: &AlbumKey| key.on == newcomer.on;
    let is_of_its_chat = |key: &AlbumKey| is_of_its_bot(key) && key.chat == newcomer.chat;
    if albums.keys().filter(|key| is_of_its_chat(key)).count() >= OF_A_CHAT {
        forget_oldest(albums, is_of_its_chat);
    }
    if albums.keys().filter(|key| is_of_its_bot(key)).count() >= OF_A_BOT {
        forget_oldest(albums, is_of_its_bot);
    }
    if albums.len() >= ALBUMS {
        let mut counts: HashMap<&BotRef, usize> = HashMap::new();
        albums.keys().for_each(|key| *counts.entry(&key.on).or_default() += 1);
        let busiest = counts.into_iter().max_by_key(|(_, count)| *count).map(|(on, _)| on.clone());
        forget_oldest(albums, |key| Some(&key.on) == busiest.as_ref());
    }
}

fn forget_oldest(albums: &mut HashMap<AlbumKey, Album>, of: impl Fn(&AlbumKey) -> bool) {
    let oldest = albums.iter().filter(|(key, _)| of(key)).min_by_key(|(_, album)| album.since);
    if let Some(key) = oldest.map(|(key, _)| key.clone()) {
        albums.remove(&key);
    }
}

fn key(on: &BotRef, arrival: &Arrival) -> Option<AlbumKey> {
    let source = &arrival.event.source;
    Some(AlbumKey {
        on: on.clone(),
        chat: source.chat_id.clone()?,
        author: source.user_id.clone(),
        album: arrival.album.clone()?,
    })
}

#[cfg(test)]
mod tests {
    use posthouse_time::Moment;
    use posthouse_wire::Event;

    use super::*;

    fn part(chat: &str, author: &str, album: &str, number: usize, addressed: bool) -> Arrival {
        let mut event = Event::default();
        event.source.chat_id = Some(chat.into());
        event.source.user_id = Some(author.into());
        let arrival = Arrival::new(event, format!("{album}-{number}"), Moment::default());
        Arrival { addressed, album: Some(album.to_owned()), ..arrival }
    }

    fn on(bot: &str) -> BotRef {
        BotRef { platform: "p".into(), bot: bot.into() }
    }

    fn albums() -> (Albums, Timepiece) {
        let clock = Timepiece::wound(Moment::from_seconds(0));
        (Albums::new(clock.clone()), clock)
    }

    fn complete(albums: &Albums, on: &BotRef, arrival: Arrival) -> Vec<Arrival> {
        albums.complete(on, Box::new(arrival)).map(|part| *part).collect()
    }

    #[test]
    fn an_album_is_addressed_if_one_of_its_parts_is_in_whatever_order_they_come() {
        let (albums, clock) = albums();
        let bot = on("b");
        for number in [1, 2, 2] {
            let parts = complete(&albums, &bot, part("c", "ann", "a", number, false));
            assert_eq!((parts.len(), parts[0].addressed), (1, false));
            assert!(parts.into_iter().all(|part| albums.wait(&bot, Box::new(part)).is_none()));
        }
        let parts = complete(&albums, &bot, part("c", "ann", "a", 3, true));
        let dedups: Vec<_> = parts.iter().map(|part| part.dedup.to_string()).collect();
        assert_eq!(dedups, ["a-1", "a-2", "a-3"]);
        assert!(parts.iter().all(|part| part.addressed));
        assert!(complete(&albums, &bot, part("c", "ann", "a", 4, false))[0].addressed);
        // It was judged while another part came.
        assert!(albums.wait(&bot, Box::new(part("c", "ann", "a", 5, false))).unwrap().addressed);
        for other in [
            part("d", "ann", "a", 1, false),
            part("c", "eve", "a", 1, false),
            part("c", "ann", "z", 1, false),
        ] {
            assert!(!complete(&albums, &bot, other)[0].addressed);
        }
        assert!(!complete(&albums, &on("other"), part("c", "ann", "a", 1, false))[0].addressed);
        clock.wind(COMPLETE_WITHIN);
        assert!(!complete(&albums, &bot, part("c", "ann", "a", 6, false))[0].addressed);
    }

    #[test]
    fn albums_are_bounded_and_a_busy_bot_forgets_its_own() {
        let (albums, clock) = albums();
        let waits = |bot: &str, chat: &str, album: &str, number| {
            clock.wind(Duration::from_millis(1));
            albums.wait(&on(bot), Box::new(part(chat, "ann", album, number, false)));
        };
        waits("quiet", "c", "a", 1);
        for number in 0..100 {
            waits("quiet", "other", "long", number);
        }
        for bot in 0..20 {
            for number in 0..100 {
                waits(&format!("busy-{bot}"), &format!("c{number}"), "a", 1);
            }
        }
        assert_eq!(albums.albums.lock().len(), ALBUMS);
        assert_eq!(complete(&albums, &on("quiet"), part("c", "ann", "a", 2, true)).len(), 2);
        assert_eq!(complete(&albums, &on("quiet"), part("other", "ann", "long", 200, true)).len(), PARTS + 1);
        for number in 0..10 {
            waits("quiet", "c", &format!("album-{number}"), 1);
        }
        let of_the_chat = albums.albums.lock().keys().filter(|key| key.chat.as_str() == "c").count();
        assert_eq!(of_the_chat, OF_A_CHAT);
    }
}
