//! Events that come in several frames: joined when all parts are there, and forgotten after some seconds.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use posthouse_time::Instant;

/// Time for which the parts of an event are kept.
const KEPT: Duration = Duration::from_secs(5);
/// Most events that wait for parts, most parts of one, and most bytes of one.
const EVENTS: usize = 64;
const PARTS: usize = 64;
const LARGEST: usize = 4 << 20;

/// The parts of events of one connection.
#[derive(Default)]
pub(super) struct EventParts(HashMap<String, PartialEvent>);

struct PartialEvent {
    parts: Vec<Option<Bytes>>,
    size: usize,
    until: Instant,
}

impl EventParts {
    /// Adds one part, which has this place among so many. Returns the event once it is whole.
    pub fn add(&mut self, id: &str, (at, of): (usize, usize), part: Bytes, now: Instant) -> Option<Bytes> {
        self.0.retain(|_, event| event.until > now);
        if of > PARTS || at >= of || self.0.len() >= EVENTS && !self.0.contains_key(id) {
            return None;
        }
        let new = || PartialEvent { parts: vec![None; of], size: 0, until: now + KEPT };
        let event = self.0.entry(id.to_owned()).or_insert_with(new);
        // A part that disagrees about the number of parts belongs to something else.
        if event.parts.len() != of {
            return None;
        }
        event.size += part.len();
        event.parts[at] = Some(part);
        if event.size > LARGEST {
            self.0.remove(id);
            return None;
        }
        if event.parts.iter().any(Option::is_none) {
            return None;
        }
        let event = self.0.remove(id)?;
        Some(event.parts.into_iter().flatten().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn parts_are_joined_in_their_order_and_forgotten_after_some_seconds() {
        let (mut parts, now) = (EventParts::default(), Instant::default());
        assert_eq!(parts.add("m", (1, 2), part("b"), now), None);
        assert_eq!(parts.add("other", (0, 2), part("x"), now), None);
        assert_eq!(parts.add("m", (0, 2), part("a"), now), Some(part("ab")));
        assert_eq!(parts.add("other", (1, 2), part("y"), now + KEPT), None, "the first part is forgotten");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (mut parts, now) = (EventParts::default(), Instant::default());
        assert_eq!(parts.add("m", (0, PARTS + 1), part("a"), now), None);
        assert_eq!(parts.add("m", (2, 2), part("a"), now), None);
        for number in 0..EVENTS * 2 {
            parts.add(&number.to_string(), (0, 2), part("a"), now);
        }
        assert_eq!(parts.0.len(), EVENTS);
        let large = Bytes::from(vec![0; LARGEST]);
        let (mut parts, _) = (EventParts::default(), ());
        parts.add("m", (0, 3), large, now);
        parts.add("m", (1, 3), part("a"), now);
        assert!(parts.0.is_empty());
    }
}
