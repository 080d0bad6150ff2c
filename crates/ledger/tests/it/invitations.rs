use ledger::{ExpiringHash, Invitation, Removed};

use crate::book::{Book, days, minutes};

fn hash(book: &Book, hash: &str) -> ExpiringHash {
    ExpiringHash { hash: hash.to_owned(), expires: book.clock.now() + minutes(10) }
}

async fn invitation(book: &Book, id: &str, tenant: &str) -> Invitation {
    Invitation {
        id: id.into(),
        tenant: book.ledger.roster().tenant(tenant).await.unwrap().unwrap().id,
        agents: None,
        person: "ada".to_owned(),
        owner: true,
        created: book.clock.now(),
    }
}

stories! {
    async fn a_link_works_once_and_until_it_expires(book) {
        book.enrols("acme", "heron").await;
        let invitations = book.ledger.invitations();
        let ada = invitation(&book, "inv_1", "acme").await;
        invitations.invite(ada.clone(), hash(&book, "link")).await.unwrap();
        assert_eq!(invitations.behind_link("link").await.unwrap(), Some(ada.clone()));
        assert_eq!(invitations.redeem_link("link", hash(&book, "session")).await.unwrap(), Some(ada.clone()));
        assert_eq!(invitations.redeem_link("link", hash(&book, "again")).await.unwrap(), None);
        assert_eq!(invitations.session("session").await.unwrap(), Some(ada.clone()));
        assert_eq!(invitations.session("again").await.unwrap(), None);
        assert!(invitations.renew_link(&ada.id, hash(&book, "late")).await.unwrap());
        book.winds(minutes(10));
        assert_eq!(invitations.behind_link("late").await.unwrap(), None);
        assert_eq!(invitations.redeem_link("late", hash(&book, "x")).await.unwrap(), None);
        assert_eq!(invitations.session("session").await.unwrap(), None);
    }

    async fn links_and_sessions_end_by_wall_or_ledger_time_whichever_comes_first(book) {
        book.enrols("acme", "heron").await;
        let invitations = book.ledger.invitations();
        let (ada, start) = (invitation(&book, "inv_1", "acme").await, book.clock.now());
        invitations.invite(ada.clone(), hash(&book, "link")).await.unwrap();
        invitations.redeem_link("link", hash(&book, "session")).await.unwrap().unwrap();
        assert!(invitations.renew_link(&ada.id, hash(&book, "further")).await.unwrap());
        let good = || async {
            let session = invitations.session("session").await.unwrap();
            [session.is_some(), invitations.behind_link("further").await.unwrap().is_some()]
        };
        // A wall clock that runs ahead ends them, and one that is set right again gives them back.
        book.clock.set(start + days(181));
        assert_eq!(good().await, [false; 2]);
        assert_eq!(invitations.redeem_link("further", hash(&book, "x")).await.unwrap(), None);
        book.clock.set(start);
        assert_eq!(good().await, [true; 2]);
        // A wall clock that was set back prolongs nothing.
        book.clock.set(start - days(100));
        book.winds(minutes(9));
        assert_eq!(good().await, [true; 2]);
        book.winds(minutes(1));
        assert_eq!(good().await, [false; 2]);
    }

    async fn a_new_link_ends_an_unused_one_and_leaves_the_invitation_as_it_is(book) {
        book.enrols("acme", "heron").await;
        let invitations = book.ledger.invitations();
        let ada = invitation(&book, "inv_1", "acme").await;
        invitations.invite(ada.clone(), hash(&book, "first")).await.unwrap();
        let changed = Invitation { person: "bob".to_owned(), owner: false, ..ada.clone() };
        invitations.invite(changed, hash(&book, "second")).await.unwrap();
        assert_eq!(invitations.behind_link("first").await.unwrap(), None);
        assert_eq!(invitations.behind_link("second").await.unwrap(), Some(ada));
        assert!(!invitations.renew_link(&"inv_0".into(), hash(&book, "none")).await.unwrap());
    }

    async fn a_further_browser_ends_the_oldest_session(book) {
        book.enrols("acme", "heron").await;
        let invitations = book.ledger.invitations();
        let ada = invitation(&book, "inv_1", "acme").await;
        for number in 0..17 {
            invitations.invite(ada.clone(), hash(&book, "link")).await.unwrap();
            let session = hash(&book, &format!("session {number}"));
            invitations.redeem_link("link", session).await.unwrap().unwrap();
        }
        assert_eq!(invitations.session("session 0").await.unwrap(), None);
        assert!(invitations.session("session 1").await.unwrap().is_some());
        assert!(invitations.session("session 16").await.unwrap().is_some());
    }

    async fn a_browser_that_signs_in_after_the_wall_clock_was_set_back_is_the_newest(book) {
        book.enrols("acme", "heron").await;
        let invitations = book.ledger.invitations();
        let ada = invitation(&book, "inv_1", "acme").await;
        for number in 0..17 {
            if number == 16 {
                book.clock.set(book.clock.now() - crate::book::hours(24));
            }
            invitations.invite(ada.clone(), hash(&book, "link")).await.unwrap();
            let session = hash(&book, &format!("session {number}"));
            invitations.redeem_link("link", session).await.unwrap().unwrap();
        }
        assert!(invitations.session("session 16").await.unwrap().is_some());
        assert!(invitations.session("session 1").await.unwrap().is_some());
        assert_eq!(invitations.session("session 0").await.unwrap(), None);
    }

    async fn withdrawing_ends_everything_of_the_invitation(book) {
        let heron = book.enrols("acme", "heron").await;
        let invitations = book.ledger.invitations();
        let ada = Invitation { agents: Some(vec![heron]), ..invitation(&book, "inv_1", "acme").await };
        invitations.invite(ada.clone(), hash(&book, "link")).await.unwrap();
        invitations.redeem_link("link", hash(&book, "session")).await.unwrap().unwrap();
        assert!(invitations.renew_link(&ada.id, hash(&book, "second")).await.unwrap());
        assert_eq!(invitations.invitations().await.unwrap(), std::slice::from_ref(&ada));
        assert!(invitations.withdraw(&ada.id).await.unwrap());
        assert!(!invitations.withdraw(&ada.id).await.unwrap());
        assert_eq!(invitations.session("session").await.unwrap(), None);
        assert_eq!(invitations.behind_link("second").await.unwrap(), None);
        assert_eq!(invitations.invitation(&ada.id).await.unwrap(), None);
    }

    async fn a_tenant_takes_its_invitations_along_and_an_agent_its_place_in_them(book) {
        let heron = book.enrols("acme", "heron").await;
        let invitations = book.ledger.invitations();
        let ada = Invitation { agents: Some(vec![heron.clone()]), ..invitation(&book, "inv_1", "acme").await };
        invitations.invite(ada.clone(), hash(&book, "link")).await.unwrap();
        let roster = book.ledger.roster();
        assert_eq!(roster.remove_instance(&heron).await.unwrap(), Removed::Gone);
        let left = invitations.invitation(&ada.id).await.unwrap().unwrap();
        assert_eq!(left.agents, Some(Vec::new()), "for none, not for all");
        assert!(!left.covers(&ada.tenant, &heron));
        assert_eq!(roster.remove_tenant(&ada.tenant).await.unwrap(), Removed::Gone);
        assert_eq!(invitations.invitation(&ada.id).await.unwrap(), None);
    }
}
