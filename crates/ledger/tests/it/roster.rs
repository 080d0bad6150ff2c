use ledger::{
    CapabilityRecord, Created, DeadLetterFilter, Discriminator, FailedDelivery, Generation, Removed, Room,
    RoomMarks, RoomMessage, Sealed, Uses,
};

use crate::book::{minutes, on};

stories! {
    async fn a_tenant_has_one_name_and_goes_when_its_agents_are_gone(book) {
        assert_eq!(book.tenant("acme").await, Created::Made);
        assert_eq!(book.tenant("acme").await, Created::Taken);
        let roster = book.ledger.roster();
        let acme = roster.tenant("acme").await.unwrap().unwrap();
        assert_eq!(roster.tenant(acme.id.as_str()).await.unwrap(), Some(acme.clone()));
        assert_eq!(roster.tenant("nobody").await.unwrap(), None);
        let heron = book.enrols("acme", "heron").await;
        assert_eq!(roster.remove_tenant(&acme.id).await.unwrap(), Removed::InUse);
        roster.remove_instance(&heron).await.unwrap();
        assert_eq!(roster.remove_tenant(&acme.id).await.unwrap(), Removed::Gone);
        assert_eq!(roster.remove_tenant(&acme.id).await.unwrap(), Removed::Absent);
        assert!(roster.tenants().await.unwrap().is_empty());
    }

    async fn an_agents_name_is_unique_in_its_tenant_only(book) {
        let heron = book.enrols("acme", "heron").await;
        let theirs = book.enrols("umbrella", "heron").await;
        assert_ne!(heron, theirs);
        let roster = book.ledger.roster();
        let mut twin = book.agent("acme", "heron");
        twin.id = "inst_twin".into();
        assert_eq!(roster.create_instance(twin).await.unwrap(), Created::Taken);
        let stray = book.agent("nowhere", "stray");
        assert_eq!(roster.create_instance(stray).await.unwrap(), Created::Unfit("no such tenant"));
        let found = roster.instance_named(&"ten_umbrella".into(), "heron").await.unwrap().unwrap();
        assert_eq!(found.id, theirs);
        assert_eq!(roster.instance_named(&"ten_acme".into(), "otter").await.unwrap(), None);
        assert_eq!(roster.instances(Some(&"ten_acme".into())).await.unwrap().len(), 1);
        assert_eq!(roster.instances(None).await.unwrap().len(), 2);
    }

    async fn what_is_learned_about_an_agent_is_kept(book) {
        let heron = book.enrols("acme", "heron").await;
        let roster = book.ledger.roster();
        roster.set_wake_url(&heron, Some("https://wake.example/")).await.unwrap();
        roster.set_idle(&heron, true).await.unwrap();
        roster.set_idle(&heron, true).await.unwrap();
        assert!(roster.pin_generation(&heron, None, Generation::Newer).await.unwrap());
        let known = roster.instance(&heron).await.unwrap().unwrap();
        assert_eq!(known.wake_url.as_deref(), Some("https://wake.example/"));
        assert_eq!((known.idle, known.generation), (true, Generation::Newer));
        roster.set_wake_url(&heron, None).await.unwrap();
        roster.set_idle(&heron, false).await.unwrap();
        let known = roster.instance(&heron).await.unwrap().unwrap();
        assert_eq!((known.wake_url, known.idle), (None, false));
        roster.set_idle(&"inst_nobody".into(), true).await.unwrap();
        assert_eq!(roster.instance(&"inst_nobody".into()).await.unwrap(), None);
    }

    async fn a_generation_is_pinned_for_one_credential_or_for_all(book) {
        let heron = book.enrols("acme", "heron").await;
        let otter = book.enrols("acme", "otter").await;
        let (one, two) = (book.gateway(&heron, "gw-1").await, book.gateway(&heron, "gw-2").await);
        let roster = book.ledger.roster();
        let pins = async || {
            let one = roster.pinned_generation(&heron, &one).await.unwrap();
            (one, roster.pinned_generation(&heron, &two).await.unwrap())
        };
        assert_eq!(pins().await, (Generation::Auto, Generation::Auto));
        assert!(roster.pin_generation(&heron, Some(&two), Generation::Newer).await.unwrap());
        assert_eq!(pins().await, (Generation::Auto, Generation::Newer));
        assert!(!roster.pin_generation(&otter, Some(&two), Generation::Stock019).await.unwrap());
        assert_eq!(pins().await, (Generation::Auto, Generation::Newer));
        assert!(roster.pin_generation(&heron, None, Generation::Stock019).await.unwrap());
        assert_eq!(pins().await, (Generation::Stock019, Generation::Stock019));
        assert!(roster.pin_generation(&heron, Some(&one), Generation::Auto).await.unwrap());
        assert_eq!(pins().await, (Generation::Auto, Generation::Stock019));
    }

    async fn an_owned_bot_has_one_route_for_everything_and_a_shared_one_any_others(book) {
        let heron = book.enrols("acme", "heron").await;
        let otter = book.enrols("umbrella", "otter").await;
        assert_eq!(book.bot("own", false).await, Created::Made);
        assert_eq!(book.bot("own", true).await, Created::Taken);
        book.bot("shared", true).await;
        assert_eq!(book.routes("own", "*", &heron).await, Created::Made);
        assert_eq!(book.routes("own", "*", &otter).await, Created::Taken);
        assert!(matches!(book.routes("own", "chat:1", &heron).await, Created::Unfit(_)));
        assert!(matches!(book.routes("shared", "*", &heron).await, Created::Unfit(_)));
        assert!(matches!(book.routes("missing", "*", &heron).await, Created::Unfit(_)));
        assert!(matches!(book.routes("shared", "chat:9", &"inst_x".into()).await, Created::Unfit(_)));
        assert_eq!(book.routes("shared", "chat:1", &heron).await, Created::Made);
        assert_eq!(book.routes("shared", "chat:1", &otter).await, Created::Taken);
        assert_eq!(book.routes("shared", "scope:g1", &otter).await, Created::Made);
        assert_eq!(book.routes("shared", "path:a/b:c", &otter).await, Created::Made);
        assert_eq!(book.ledger.roster().routes().await.unwrap().len(), 4);
    }

    async fn the_first_candidate_with_a_route_decides_whose_an_event_is(book) {
        let heron = book.enrols("acme", "heron").await;
        let otter = book.enrols("umbrella", "otter").await;
        book.bot("shared", true).await;
        book.routes("shared", "chat:1", &heron).await;
        book.routes("shared", "scope:g1", &otter).await;
        assert_eq!(book.owner("shared", &["chat:1", "scope:g1", "*"]).await, Some(heron.clone()));
        assert_eq!(book.owner("shared", &["chat:2", "scope:g1", "*"]).await, Some(otter));
        assert_eq!(book.owner("shared", &["chat:2", "scope:g2", "path:x", "*"]).await, None);
        assert_eq!(book.owner("other", &["chat:1"]).await, None, "another bot's chat of the same name");
        let to = book.ledger.roster().route(&on("shared"), &[Discriminator::Chat("1".into())]).await.unwrap().unwrap();
        assert_eq!(to.tenant, "ten_acme");
    }

    async fn an_agent_speaks_as_the_bots_that_routes_lead_to_it_oldest_first(book) {
        let heron = book.enrols("acme", "heron").await;
        book.bot("zebra", false).await;
        book.bot("ant", true).await;
        book.routes("zebra", "*", &heron).await;
        book.winds(minutes(1));
        book.routes("ant", "chat:1", &heron).await;
        book.routes("ant", "chat:2", &heron).await;
        let roster = book.ledger.roster();
        assert_eq!(roster.bots_used_by(&heron).await.unwrap(), [on("zebra"), on("ant")]);
        let telegram = "telegram".into();
        let first = Discriminator::Chat("1".into());
        assert_eq!(roster.remove_route(&telegram, &"ant".into(), &first).await.unwrap(), Removed::Gone);
        assert_eq!(roster.remove_route(&telegram, &"ant".into(), &first).await.unwrap(), Removed::Absent);
        assert_eq!(roster.remove_bot(&telegram, &"zebra".into()).await.unwrap(), Removed::Gone);
        assert_eq!(roster.remove_bot(&telegram, &"zebra".into()).await.unwrap(), Removed::Absent);
        assert_eq!(roster.bots_used_by(&heron).await.unwrap(), [on("ant")]);
    }

    async fn a_removed_bot_takes_its_secrets_along(book) {
        book.bot("tb", false).await;
        let (telegram, tb) = ("telegram".into(), "tb".into());
        let sealed = Sealed { key_id: "k".to_owned(), blob: vec![1] };
        book.ledger.vault().put_credential(&telegram, &tb, "token", sealed).await.unwrap();
        assert!(!book.ledger.roster().bot(&telegram, &tb).await.unwrap().unwrap().shared);
        book.ledger.roster().remove_bot(&telegram, &tb).await.unwrap();
        assert!(book.ledger.vault().credentials(&telegram, &tb).await.unwrap().is_empty());
        assert!(book.ledger.roster().bots().await.unwrap().is_empty());
    }

    async fn a_chat_may_be_answered_where_it_was_delivered_and_nowhere_else(book) {
        let heron = book.enrols("acme", "heron").await;
        let otter = book.enrols("umbrella", "otter").await;
        book.bot("tb", false).await;
        book.routes("tb", "*", &heron).await;
        let roster = book.ledger.roster();
        let chat = "chat-1".into();
        assert!(!roster.may_reach(&heron, &on("tb"), &chat).await.unwrap(), "never delivered");
        book.keeps_letter(book.sighted(heron.as_str(), "m", None, &["key", "other key"])).await;
        assert!(roster.may_reach(&heron, &on("tb"), &chat).await.unwrap());
        assert!(!roster.may_reach(&heron, &on("tb"), &"chat-2".into()).await.unwrap());
        assert!(!roster.may_reach(&heron, &on("other"), &chat).await.unwrap());
        assert!(!roster.may_reach(&otter, &on("tb"), &chat).await.unwrap());
        assert_eq!(roster.last_identity(&heron, &chat).await.unwrap(), Some(on("tb")));
        assert_eq!(roster.last_identity(&otter, &chat).await.unwrap(), None);
        let found = roster.chat_of_session(&heron, &"other key".into()).await.unwrap();
        assert_eq!(found, Some((on("tb"), chat)));
        assert_eq!(roster.chat_of_session(&otter, &"key".into()).await.unwrap(), None);
    }

    async fn a_chat_that_was_given_to_another_tenant_is_out_of_reach_at_once(book) {
        let heron = book.enrols("acme", "heron").await;
        let otter = book.enrols("umbrella", "otter").await;
        book.bot("tb", true).await;
        book.routes("tb", "scope:guild", &heron).await;
        book.keeps_letter(book.sighted(heron.as_str(), "m", Some("guild"), &["key"])).await;
        let (roster, chat) = (book.ledger.roster(), "chat-1".into());
        assert!(roster.may_reach(&heron, &on("tb"), &chat).await.unwrap());

        book.winds(minutes(1));
        book.routes("tb", "chat:chat-1", &otter).await;
        assert!(!roster.may_reach(&heron, &on("tb"), &chat).await.unwrap());
        assert!(roster.may_reach(&otter, &on("tb"), &chat).await.unwrap(), "it is routed there");

        let telegram = "telegram".into();
        roster.remove_route(&telegram, &"tb".into(), &Discriminator::Chat(chat.clone())).await.unwrap();
        assert!(roster.may_reach(&heron, &on("tb"), &chat).await.unwrap());
        roster.remove_route(&telegram, &"tb".into(), &Discriminator::Scope("guild".into())).await.unwrap();
        book.routes("tb", "scope:guild", &otter).await;
        assert!(!roster.may_reach(&heron, &on("tb"), &chat).await.unwrap());

        // A thread that came by the route of its parent stays, whoever has the rest of the scope.
        book.winds(minutes(1));
        book.routes("tb", "chat:parent", &heron).await;
        book.keeps_letter(book.sighted(heron.as_str(), "m2", Some("guild"), &["key"])).await;
        assert!(roster.may_reach(&heron, &on("tb"), &chat).await.unwrap());
    }

    async fn a_chat_that_moved_is_still_its_agents(book) {
        let heron = book.enrols("acme", "heron").await;
        let otter = book.enrols("umbrella", "otter").await;
        book.bot("tb", true).await;
        book.bot("other", true).await;
        book.routes("tb", "chat:chat-1", &heron).await;
        book.routes("other", "chat:chat-1", &otter).await;
        book.keeps_letter(book.sighted(heron.as_str(), "m", None, &["key"])).await;
        let (roster, old, new) = (book.ledger.roster(), "chat-1".into(), "chat-2".into());
        assert!(roster.move_chat(&on("tb"), &old, &new).await.unwrap());
        assert_eq!(book.owner("tb", &["chat:chat-2"]).await, Some(heron.clone()));
        assert_eq!(book.owner("tb", &["chat:chat-1"]).await, None);
        assert_eq!(book.owner("other", &["chat:chat-1"]).await, Some(otter.clone()), "another bot's chat");
        assert_eq!(roster.last_identity(&heron, &new).await.unwrap(), Some(on("tb")));
        assert!(roster.may_reach(&heron, &on("tb"), &new).await.unwrap());
        assert!(!roster.may_reach(&heron, &on("tb"), &old).await.unwrap(), "a way around the route");
        assert!(!roster.may_reach(&otter, &on("tb"), &new).await.unwrap());

        let routes = roster.routes().await.unwrap();
        assert!(!roster.move_chat(&on("tb"), &old, &new).await.unwrap(), "told again");
        assert!(!roster.move_chat(&on("tb"), &new, &new).await.unwrap());
        assert_eq!(roster.routes().await.unwrap(), routes);
    }

    async fn a_chat_that_moves_takes_nothing_from_whoever_has_the_new_id(book) {
        let heron = book.enrols("acme", "heron").await;
        let otter = book.enrols("umbrella", "otter").await;
        book.bot("tb", true).await;
        book.routes("tb", "chat:chat-1", &heron).await;
        book.routes("tb", "chat:chat-2", &otter).await;
        book.keeps_letter(book.sighted(heron.as_str(), "m", None, &["key"])).await;
        let (roster, new) = (book.ledger.roster(), "chat-2".into());
        assert!(roster.move_chat(&on("tb"), &"chat-1".into(), &new).await.unwrap());
        assert_eq!(book.owner("tb", &["chat:chat-2"]).await, Some(otter.clone()));
        assert_eq!(book.owner("tb", &["chat:chat-1"]).await, None);
        assert!(roster.may_reach(&otter, &on("tb"), &new).await.unwrap());
        for chat in ["chat-1", "chat-2"] {
            assert!(!roster.may_reach(&heron, &on("tb"), &chat.into()).await.unwrap());
        }
    }

    async fn a_chat_that_moves_lets_nobody_in_who_had_it_before(book) {
        let heron = book.enrols("acme", "heron").await;
        let otter = book.enrols("umbrella", "otter").await;
        book.bot("tb", true).await;
        book.keeps_letter(book.sighted(heron.as_str(), "m", None, &["key"])).await;
        book.routes("tb", "chat:chat-1", &otter).await;
        let roster = book.ledger.roster();
        roster.move_chat(&on("tb"), &"chat-1".into(), &"chat-2".into()).await.unwrap();
        for chat in ["chat-1", "chat-2"] {
            assert!(!roster.may_reach(&heron, &on("tb"), &chat.into()).await.unwrap());
            assert_eq!(roster.last_identity(&heron, &chat.into()).await.unwrap(), None);
        }
    }

    async fn an_owned_bots_chat_that_moved_is_answered_under_either_id(book) {
        let heron = book.enrols("acme", "heron").await;
        book.bot("tb", false).await;
        book.routes("tb", "*", &heron).await;
        book.keeps_letter(book.sighted(heron.as_str(), "m", None, &["key"])).await;
        let roster = book.ledger.roster();
        for _ in 0..2 {
            let moved = roster.move_chat(&on("tb"), &"chat-1".into(), &"chat-2".into()).await.unwrap();
            assert!(!moved, "its one route is for everything");
        }
        for chat in ["chat-1", "chat-2"] {
            assert!(roster.may_reach(&heron, &on("tb"), &chat.into()).await.unwrap());
        }
    }

    async fn an_owned_bot_that_changes_hands_takes_its_chats_along(book) {
        let heron = book.enrols("acme", "heron").await;
        let otter = book.enrols("umbrella", "otter").await;
        book.bot("tb", false).await;
        book.routes("tb", "*", &heron).await;
        book.keeps_letter(book.sighted(heron.as_str(), "m", None, &["key"])).await;
        let roster = book.ledger.roster();
        roster.remove_route(&"telegram".into(), &"tb".into(), &Discriminator::Any).await.unwrap();
        book.routes("tb", "*", &otter).await;
        assert!(!roster.may_reach(&heron, &on("tb"), &"chat-1".into()).await.unwrap());
        assert!(!roster.may_reach(&otter, &on("tb"), &"chat-1".into()).await.unwrap(), "not delivered there yet");
    }

    async fn without_a_current_route_nothing_that_was_delivered_by_one_is_within_reach(book) {
        let heron = book.enrols("acme", "heron").await;
        book.bot("tb", false).await;
        book.routes("tb", "*", &heron).await;
        book.keeps_letter(book.sighted(heron.as_str(), "m", None, &["key"])).await;
        let (roster, chat) = (book.ledger.roster(), "chat-1".into());
        assert!(roster.may_reach(&heron, &on("tb"), &chat).await.unwrap());
        roster.remove_route(&"telegram".into(), &"tb".into(), &Discriminator::Any).await.unwrap();
        assert!(!roster.may_reach(&heron, &on("tb"), &chat).await.unwrap());
        assert!(roster.knows_chat(&heron, &on("tb"), &chat).await.unwrap());
        book.routes("tb", "*", &heron).await;
        assert!(roster.may_reach(&heron, &on("tb"), &chat).await.unwrap(), "the route is there again");
    }

    async fn a_removed_route_ends_what_waited_for_it_alone(book) {
        let heron = book.enrols("acme", "heron").await;
        book.bot("tb", true).await;
        for route in ["chat:chat-1", "chat:chat-2", "scope:guild"] {
            book.routes("tb", route, &heron).await;
        }
        let waits = async |chat: &str, scope: Option<&str>, word: &str| {
            let event = serde_json::json!({ "text": word, "source": { "chat_id": chat, "scope_id": scope } });
            let letter = book.sighted(heron.as_str(), word, scope, &["key"]);
            let event = event.to_string().into();
            book.keeps_letter(ledger::Append { chat: chat.into(), event, ..letter }).await
        };
        let gone = waits("chat-1", None, "gone").await;
        let covered = waits("chat-1", Some("guild"), "covered").await;
        let other = waits("chat-2", None, "other").await;
        let (roster, telegram) = (book.ledger.roster(), "telegram".into());
        roster.remove_route(&telegram, &"tb".into(), &Discriminator::Chat("chat-1".into())).await.unwrap();
        assert_eq!(book.unread(heron.as_str()).await.len(), 2);
        assert_eq!(book.steps(&gone).await, ["accepted", "durable", "dropped"]);
        let story = book.ledger.traces().entry(&gone).await.unwrap().unwrap();
        assert_eq!(story.steps[2].note.as_deref(), Some("its route was removed"));
        for waiting in [&covered, &other] {
            assert_eq!(book.steps(waiting).await, ["accepted", "durable"]);
        }
        assert!(roster.may_reach(&heron, &on("tb"), &"chat-1".into()).await.unwrap(), "the scope has it");
        roster.remove_route(&telegram, &"tb".into(), &Discriminator::Scope("guild".into())).await.unwrap();
        assert_eq!(book.steps(&covered).await, ["accepted", "durable", "dropped"]);
        assert!(!roster.may_reach(&heron, &on("tb"), &"chat-1".into()).await.unwrap());
        assert!(roster.may_reach(&heron, &on("tb"), &"chat-2".into()).await.unwrap());
        roster.remove_bot(&telegram, &"tb".into()).await.unwrap();
        assert_eq!(book.steps(&other).await, ["accepted", "durable", "dropped"]);
        book.winds(minutes(60 * 24 * 8));
        book.prunes().await;
        assert!(book.steps(&gone).await.is_empty(), "the trace is kept for its week");
    }

    async fn what_is_kept_after_its_route_was_removed_ends_and_a_dead_letter_is_not_driven_again(book) {
        let heron = book.enrols("acme", "heron").await;
        book.bot("tb", false).await;
        book.routes("tb", "*", &heron).await;
        let dead = book.keeps(heron.as_str(), "dead").await;
        for _ in 0..3 {
            book.ledger.inbox().record_failed_delivery(&heron, &dead, FailedDelivery::Poison).await.unwrap();
        }
        let (roster, telegram) = (book.ledger.roster(), "telegram".into());
        assert!(!roster.end_unrouted(&on("tb"), &heron).await.unwrap(), "there is a route");
        roster.remove_route(&telegram, &"tb".into(), &Discriminator::Any).await.unwrap();
        assert_eq!(book.ledger.inbox().redrive(&dead).await.unwrap(), None);
        let late = book.keeps(heron.as_str(), "late").await;
        assert!(roster.end_unrouted(&on("tb"), &heron).await.unwrap());
        assert_eq!(book.steps(&late).await, ["accepted", "durable", "dropped"]);
        assert!(book.unread(heron.as_str()).await.is_empty());
        assert!(!roster.end_unrouted(&on("tb"), &heron).await.unwrap(), "once");
    }

    async fn a_removed_agent_leaves_nothing_to_read_but_its_traces(book) {
        let heron = book.enrols("acme", "heron").await;
        let otter = book.enrols("acme", "otter").await;
        book.bot("tb", false).await;
        book.routes("tb", "*", &heron).await;
        let unread = book.keeps_letter(book.sighted(heron.as_str(), "private words", None, &["key"])).await;
        let dead = book.keeps(heron.as_str(), "dead words").await;
        for _ in 0..3 {
            book.ledger.inbox().record_failed_delivery(&heron, &dead, FailedDelivery::Poison).await.unwrap();
        }
        book.keeps(otter.as_str(), "otter's").await;
        let (vault, rooms, roster) = (book.ledger.vault(), book.ledger.rooms(), book.ledger.roster());
        let sealed = || Sealed { key_id: "k".to_owned(), blob: vec![1] };
        let now = book.clock.now();
        vault.issue(&"gw".into(), &heron, sealed(), now, now).await.unwrap();
        let (tenant, kind) = ("ten_acme".into(), "discord.interaction_token".into());
        let capability = CapabilityRecord {
        entry: None,
            tenant: "ten_acme".into(),
            instance: heron.clone(),
            kind: "discord.interaction_token".into(),
            session_keys: vec!["key".into()],
            sealed: sealed(),
            expires: None,
            uses: Uses::Many,
        };
        vault.bind(capability).await.unwrap();
        book.invites(&heron, "ada").await;
        let room = Room {
            id: "web-1".into(),
            instance: heron.clone(),
            invitation: Some("inv_ada".into()),
            person: "ada".to_owned(),
            created: now,
        };
        rooms.enter(room).await.unwrap();
        let line = RoomMessage {
            message: "1".into(),
            by_agent: false,
            text: "private".to_owned(),
            reply_to: None,
            sent: now,
            edited: None,
            entry: None,
            delivered: None,
            marks: RoomMarks::default(),
            files: Vec::new(),
        };
        rooms.say(&"web-1".into(), line).await.unwrap();

        assert_eq!(roster.remove_instance(&heron).await.unwrap(), Removed::Gone);
        assert_eq!(roster.remove_instance(&heron).await.unwrap(), Removed::Absent);
        assert_eq!(roster.instance(&heron).await.unwrap(), None);
        assert!(book.unread(heron.as_str()).await.is_empty());
        assert!(book.ledger.inbox().dead_letters(DeadLetterFilter::default(), 10).await.unwrap().is_empty());
        assert_eq!(book.ledger.inbox().redrive(&dead).await.unwrap(), None);
        assert!(vault.gateway(&"gw".into()).await.unwrap().is_none());
        assert!(vault.gateways(&heron).await.unwrap().is_empty());
        assert!(vault.sealed_under_other_keys("none", 10).await.unwrap().is_empty());
        assert!(vault.redeem(&tenant, &heron, &"key".into(), &kind, None).await.unwrap().is_none());
        assert_eq!(rooms.room(&"web-1".into()).await.unwrap(), None);
        assert!(rooms.messages_after(&"web-1".into(), 0, None, 10_000).await.unwrap().is_empty());
        assert!(roster.bots_used_by(&heron).await.unwrap().is_empty());
        assert!(!roster.may_reach(&heron, &on("tb"), &"chat-1".into()).await.unwrap());
        assert_eq!(roster.chat_of_session(&heron, &"key".into()).await.unwrap(), None);
        assert_eq!(book.owner("tb", &["*"]).await, None);
        assert_eq!(book.steps(&unread).await, ["accepted", "durable", "dropped"]);
        assert_eq!(book.unread(otter.as_str()).await, ["otter's"], "its neighbour is untouched");
    }
}
