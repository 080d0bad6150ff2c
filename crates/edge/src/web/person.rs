//! Names of invited people, and the event source that agents see for them.

use identity::fingerprint;
use ledger::Room;
use posthouse_wire::{Source, UserId};

use super::NAME;

/// The longest name, in Unicode scalar values.
const LONGEST: usize = 64;

/// The name of a person, as given in the invitation. It is not an identity: several people may share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonName(String);

impl PersonName {
    /// Trims the name. `None` if it is blank, too long, or contains control characters.
    pub fn read(name: &str) -> Option<Self> {
        let name = name.trim();
        let fits = !name.is_empty() && name.chars().count() <= LONGEST && !name.chars().any(char::is_control);
        fits.then(|| Self(name.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The person's id. It is derived from the invitation, so that two people with the same name have different ids. For a
/// room without an invitation it is derived from the room.
fn user_id(room: &Room) -> UserId {
    let whose = room.invitation.as_ref().map_or(room.id.as_str(), |invitation| invitation.as_str());
    format!("web-user-{}", &fingerprint(whose)[..32]).into()
}

/// The event source of all messages in this room.
pub(super) fn source(room: &Room) -> Source {
    Source {
        platform: NAME.into(),
        chat_id: Some(room.id.clone()),
        chat_type: "dm".to_owned(),
        chat_name: Some(room.person.clone()),
        user_id: Some(user_id(room)),
        user_name: Some(room.person.clone()),
        ..Source::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_be_written_in_any_script_but_not_be_blank() {
        assert_eq!(PersonName::read("  Zoë 🦉 ").unwrap().as_str(), "Zoë 🦉");
        assert_eq!(PersonName::read("山田").unwrap().as_str(), "山田");
        for bad in ["", "   ", "a\nb", "\u{7}", &"x".repeat(65)] {
            assert_eq!(PersonName::read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn two_people_of_one_name_have_different_ids() {
        let room = |invitation: &str| Room {
            id: "web-1".into(),
            instance: "inst_1".into(),
            invitation: Some(invitation.into()),
            person: "ann".to_owned(),
            created: posthouse_time::Moment::from_millis(0),
        };
        let (one, other) = (source(&room("inv_1")), source(&room("inv_2")));
        assert_eq!(one.user_name, other.user_name);
        assert_ne!(one.user_id, other.user_id);
        assert!(one.user_id.is_some_and(|id| id.as_str().starts_with("web-user-")));
    }
}
