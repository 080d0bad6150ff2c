//! Who sits before the page.

use aws_lc_rs::digest::{SHA256, digest};
use ledger::Room;
use posthouse_wire::{Source, UserId};

use super::NAME;

/// The longest name, in Unicode scalar values.
const LONGEST: usize = 64;

/// A person by the name they gave, or that their invitation gave them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person(String);

impl Person {
    /// Trims; nothing for a name that is blank, too long, or holds control characters.
    pub fn read(name: &str) -> Option<Self> {
        let name = name.trim();
        let fits = !name.is_empty() && name.chars().count() <= LONGEST && !name.chars().any(char::is_control);
        fits.then(|| Self(name.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// An id made of the name: names may hold anything, ids end up in session keys.
    fn user_id(&self) -> UserId {
        let sum = digest(&SHA256, self.0.as_bytes());
        format!("web-user-{}", hex::encode(&sum.as_ref()[..16])).into()
    }
}

/// Where everything said in this room comes from, as the agent is told.
pub(super) fn source(room: &Room) -> Source {
    let person = Person(room.person.clone());
    Source {
        platform: NAME.into(),
        chat_id: Some(room.id.clone()),
        chat_type: "dm".to_owned(),
        chat_name: Some(room.person.clone()),
        user_id: Some(person.user_id()),
        user_name: Some(person.0),
        ..Source::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_be_written_in_any_script_but_not_be_blank() {
        assert_eq!(Person::read("  Zoë 🦉 ").unwrap().as_str(), "Zoë 🦉");
        assert_eq!(Person::read("山田").unwrap().as_str(), "山田");
        for bad in ["", "   ", "a\nb", "\u{7}", &"x".repeat(65)] {
            assert_eq!(Person::read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn people_of_different_names_have_different_ids() {
        let ids: Vec<UserId> = ["ann", "Ann", "ann ann", "山田"]
            .iter()
            .map(|name| Person::read(name).unwrap().user_id())
            .collect();
        for (index, id) in ids.iter().enumerate() {
            assert!(id.as_str().starts_with("web-user-") && id.as_str().is_ascii(), "{id}");
            assert!(!ids[..index].contains(id), "{id}");
        }
    }
}
