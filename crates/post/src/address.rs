//! Addresses of agents: `agent`, or `agent@session`.

/// An address split at its first `@`. The `@` alone decides whether it means a delivery or a wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<'a> {
    pub whole: &'a str,
    /// Before the first `@`.
    pub agent: &'a str,
    /// After the first `@`. Its presence makes the address a wake, even if it is empty.
    pub session: Option<&'a str>,
}

impl<'a> Address<'a> {
    pub fn read(whole: &'a str) -> Self {
        match whole.split_once('@') {
            Some((agent, session)) => Self { whole, agent, session: Some(session) },
            None => Self { whole, agent: whole, session: None },
        }
    }

    /// True for `agent@session`, which wakes. A bare `agent` delivers.
    pub fn wakes(&self) -> bool {
        self.session.is_some()
    }

    /// The session to use. `named` overrides the session in the address. An empty session counts as none.
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
