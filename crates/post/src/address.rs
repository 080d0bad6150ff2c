//! Whom a program means: `agent`, or `agent@session`.

/// An address as it was written, and where it divides. Only the `@` decides between the classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<'a> {
    pub whole: &'a str,
    /// Before the first `@`.
    pub agent: &'a str,
    /// After it; what stands there makes it a wake, even if it is nothing.
    pub session: Option<&'a str>,
}

impl<'a> Address<'a> {
    pub fn read(whole: &'a str) -> Self {
        match whole.split_once('@') {
            Some((agent, session)) => Self { whole, agent, session: Some(session) },
            None => Self { whole, agent: whole, session: None },
        }
    }

    /// A bare address delivers, a composite one wakes.
    pub fn wakes(&self) -> bool {
        self.session.is_some()
    }

    /// The session that is meant: one named apart beats the one in the address, and an empty one is none.
    pub fn session_meant(&self, named: Option<&'a str>) -> Option<&'a str> {
        named.or(self.session).filter(|session| !session.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_at_sign_divides() {
        let address = Address::read("perry@kitchen@home");
        assert_eq!((address.agent, address.session), ("perry", Some("kitchen@home")));
        assert!(address.wakes() && !Address::read("perry").wakes() && Address::read("perry@").wakes());
    }

    #[test]
    fn a_session_named_apart_beats_the_one_in_the_address() {
        let address = Address::read("perry@kitchen");
        assert_eq!(address.session_meant(Some("attic")), Some("attic"));
        assert_eq!(address.session_meant(None), Some("kitchen"));
        assert_eq!(Address::read("perry@").session_meant(None), None);
    }
}
