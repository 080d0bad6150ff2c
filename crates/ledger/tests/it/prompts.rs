use ledger::{
    AdmittedTenant, BotRef, MANIFESTS_OF_AN_AGENT, MadeThread, PROMPTS_OF_AN_AGENT, Removed, ShownPrompt,
    THREADS_OF_AN_AGENT, UseBotResult,
};
use posthouse_wire::InstanceId;

use crate::book::{days, hours, minutes, on};
use crate::rooms::{line, room};

pub fn prompt(of: &InstanceId, chat: &str, message: &str) -> ShownPrompt {
    ShownPrompt {
        on: on("tb"),
        chat: chat.into(),
        message: message.into(),
        prompt: "a1.b2".into(),
        instance: of.clone(),
        options: vec![("once".into(), "Allow once".to_owned()), ("deny".into(), "Deny".to_owned())],
        pressed: None,
    }
}

pub fn thread(of: &InstanceId, thread: &str, name: &str) -> MadeThread {
    MadeThread {
        on: on("tb"),
        chat: "chat-1".into(),
        thread: thread.into(),
        instance: of.clone(),
        name: name.to_owned(),
        renamed: false,
    }
}

stories! {
    async fn a_prompt_is_found_by_its_message_and_keeps_its_first_press(book) {
        let heron = book.enrols("acme", "heron").await;
        let prompts = book.ledger.prompts();
        prompts.show(prompt(&heron, "chat-1", "7")).await.unwrap();
        let again = ShownPrompt { prompt: "other".into(), ..prompt(&heron, "chat-1", "7") };
        prompts.show(again).await.unwrap();
        let (bot, chat, message) = (on("tb"), "chat-1".into(), "7".into());
        let found = prompts.prompt(&bot, &chat, &message).await.unwrap().unwrap();
        assert_eq!(found, prompt(&heron, "chat-1", "7"));
        assert_eq!(found.label(&"deny".into()), Some("Deny"));
        assert_eq!(found.label(&"always".into()), None);
        for (bot, chat, message) in [("other", "chat-1", "7"), ("tb", "chat-2", "7"), ("tb", "chat-1", "8")] {
            let found = prompts.prompt(&on(bot), &chat.into(), &message.into()).await.unwrap();
            assert_eq!(found, None, "{bot} {chat} {message}");
        }
        assert!(prompts.press(&found, &"once".into()).await.unwrap());
        assert!(!prompts.press(&found, &"deny".into()).await.unwrap(), "once");
        assert!(!prompts.press(&prompt(&heron, "chat-1", "8"), &"deny".into()).await.unwrap());
        let shown = prompts.prompts_in(&bot, &chat).await.unwrap();
        assert_eq!(shown.len(), 1);
        assert_eq!(shown[0].pressed, Some("once".into()));
    }

    async fn prompts_end_after_a_week_and_are_bounded_for_each_agent(book) {
        let (heron, otter) = (book.enrols("acme", "heron").await, book.enrols("other", "otter").await);
        let prompts = book.ledger.prompts();
        prompts.show(prompt(&otter, "chat-9", "1")).await.unwrap();
        for number in 0..PROMPTS_OF_AN_AGENT + 5 {
            book.winds(minutes(1));
            prompts.show(prompt(&heron, "chat-1", &number.to_string())).await.unwrap();
        }
        let shown = prompts.prompts_in(&on("tb"), &"chat-1".into()).await.unwrap();
        assert_eq!(shown.len(), PROMPTS_OF_AN_AGENT as usize);
        assert_eq!(prompts.prompt(&on("tb"), &"chat-1".into(), &"4".into()).await.unwrap(), None, "the oldest");
        assert!(prompts.prompt(&on("tb"), &"chat-9".into(), &"1".into()).await.unwrap().is_some());
        book.winds(days(7));
        book.prunes().await;
        assert!(prompts.prompts_in(&on("tb"), &"chat-9".into()).await.unwrap().is_empty());
        book.winds(hours(12));
        book.prunes().await;
        assert!(prompts.prompts_in(&on("tb"), &"chat-1".into()).await.unwrap().is_empty());
    }

    async fn a_thread_counts_as_renamed_when_somebody_else_gave_another_name(book) {
        let (heron, otter) = (book.enrols("acme", "heron").await, book.enrols("acme", "otter").await);
        let threads = book.ledger.threads();
        let (bot, chat, id) = (on("tb"), "chat-1".into(), "5".into());
        threads.made_thread(thread(&heron, "5", "plans")).await.unwrap();
        threads.thread_named(&thread(&heron, "5", "plans"), "plans").await.unwrap();
        assert!(!threads.thread(&bot, &chat, &id).await.unwrap().unwrap().renamed, "our own name");
        threads.thread_named(&thread(&heron, "5", "plans"), "mine").await.unwrap();
        assert!(threads.thread(&bot, &chat, &id).await.unwrap().unwrap().renamed);
        threads.made_thread(thread(&heron, "5", "again")).await.unwrap();
        assert_eq!(threads.thread(&bot, &chat, &id).await.unwrap(), Some(thread(&heron, "5", "again")));
        threads.made_thread(thread(&otter, "5", "stolen")).await.unwrap();
        assert_eq!(threads.thread(&bot, &chat, &id).await.unwrap(), Some(thread(&heron, "5", "again")));
        threads.thread_named(&thread(&heron, "6", "plans"), "unknown").await.unwrap();
        for number in 0..=THREADS_OF_AN_AGENT {
            book.winds(minutes(1));
            threads.made_thread(thread(&heron, &format!("t{number}"), "x")).await.unwrap();
        }
        assert_eq!(threads.threads_in(&bot, &chat).await.unwrap().len(), THREADS_OF_AN_AGENT as usize);
        book.winds(days(91));
        book.prunes().await;
        assert!(threads.threads_in(&bot, &chat).await.unwrap().is_empty());
    }

    async fn a_manifest_is_stored_only_when_it_has_changed(book) {
        let heron = book.enrols("acme", "heron").await;
        let roster = book.ledger.roster();
        assert!(roster.keep_manifest(&heron, &on("tb"), "[1]").await.unwrap());
        assert!(!roster.keep_manifest(&heron, &on("tb"), "[1]").await.unwrap());
        assert!(roster.keep_manifest(&heron, &on("tb"), "[2]").await.unwrap());
        assert_eq!(roster.manifests(&heron).await.unwrap(), [(on("tb"), "[2]".to_owned())]);
        assert!(!roster.keep_manifest(&"inst_nobody".into(), &on("tb"), "[1]").await.unwrap());
        for number in 1..MANIFESTS_OF_AN_AGENT {
            let bot = on(&format!("b{number}"));
            assert!(roster.keep_manifest(&heron, &bot, "[]").await.unwrap());
        }
        assert!(!roster.keep_manifest(&heron, &on("one too many"), "[]").await.unwrap());
        assert!(roster.keep_manifest(&heron, &on("tb"), "[3]").await.unwrap(), "a known one still changes");
    }

    async fn announced_commands_count_while_their_agent_uses_the_bot_and_tenants_take_turns(book) {
        let (heron, wren) = (book.enrols("acme", "heron").await, book.enrols("acme", "wren").await);
        let (otter, crow) = (book.enrols("umbrella", "otter").await, book.enrols("rival", "crow").await);
        book.bot("tb", true).await;
        let (roster, bots) = (book.ledger.roster(), book.ledger.shared_bots());
        for (agent, manifest) in [(&heron, "[1]"), (&wren, "[2]"), (&otter, "[3]"), (&crow, "[4]")] {
            assert!(roster.keep_manifest(agent, &on("tb"), manifest).await.unwrap());
        }
        let announced = async |at_most: u32| -> Vec<String> {
            let found = book.ledger.event_feeds().announced_commands(&on("tb"), at_most).await.unwrap();
            found.into_iter().map(|one| one.manifest).collect()
        };
        assert!(announced(9).await.is_empty(), "nobody uses the bot");
        book.routes("tb", "chat:1", &heron).await;
        book.routes("tb", "chat:2", &heron).await;
        book.routes("tb", "chat:3", &wren).await;
        assert!(bots.admit_tenant(&on("tb"), &AdmittedTenant::Every).await.unwrap());
        assert_eq!(bots.use_bot(&otter, &on("tb")).await.unwrap(), UseBotResult::Uses);
        assert_eq!(announced(9).await, ["[1]", "[3]", "[2]"]);
        assert_eq!(announced(2).await, ["[1]", "[3]"]);
        for chat in ["chat:1", "chat:2"] {
            let which = chat.parse().unwrap();
            roster.remove_route(&on("tb").platform, &on("tb").bot, &which).await.unwrap();
        }
        bots.deprovision(&otter).await.unwrap();
        assert_eq!(announced(9).await, ["[2]"]);
    }

    async fn what_an_agent_or_a_bot_had_shown_goes_with_it(book) {
        let (heron, otter) = (book.enrols("acme", "heron").await, book.enrols("acme", "otter").await);
        let (prompts, threads, roster) = (book.ledger.prompts(), book.ledger.threads(), book.ledger.roster());
        for agent in [&heron, &otter] {
            prompts.show(prompt(agent, agent.as_str(), "1")).await.unwrap();
            threads.made_thread(MadeThread { chat: agent.as_str().into(), ..thread(agent, "5", "x") }).await.unwrap();
            roster.keep_manifest(agent, &on("tb"), "[]").await.unwrap();
        }
        let has = async |agent: &InstanceId| {
            let chat = agent.as_str().into();
            (
                prompts.prompts_in(&on("tb"), &chat).await.unwrap().len(),
                threads.threads_in(&on("tb"), &chat).await.unwrap().len(),
                roster.manifests(agent).await.unwrap().len(),
            )
        };
        assert_eq!(roster.remove_instance(&heron).await.unwrap(), Removed::Gone);
        assert_eq!((has(&heron).await, has(&otter).await), ((0, 0, 0), (1, 1, 1)));
        let late = prompt(&heron, "late", "1");
        prompts.show(late).await.unwrap();
        assert!(prompts.prompts_in(&on("tb"), &"late".into()).await.unwrap().is_empty());
        let BotRef { platform, bot } = on("tb");
        roster.remove_bot(&platform, &bot).await.unwrap();
        assert_eq!(has(&otter).await, (0, 0, 0));
    }

    async fn reactions_are_a_short_list_and_a_touched_message_is_shown_again(book) {
        let heron = book.enrols("acme", "heron").await;
        book.invites(&heron, "ada").await;
        let rooms = book.ledger.rooms();
        let web = rooms.enter(room(&book, "web-1", &heron, "ada")).await.unwrap().unwrap().id;
        rooms.say(&web, line(&book, "1", false, "hello")).await.unwrap();
        book.winds(minutes(1));
        let later = book.clock.now();
        let react = async |emoji: &str, remove| {
            rooms.react(&web, &"1".into(), emoji, remove, later).await.unwrap().unwrap()
        };
        assert_eq!(react("👀", true).await, Vec::<String>::new(), "it is not there");
        assert!(rooms.messages_after(&web, 0, Some(later), 1000).await.unwrap().is_empty());
        assert_eq!(react("👀", false).await, ["👀"]);
        assert_eq!(react("👀", false).await, ["👀"]);
        let changed = rooms.messages_after(&web, 0, Some(later), 1000).await.unwrap();
        assert_eq!(changed[0].1.marks.reactions, ["👀"]);
        assert_eq!(changed[0].1.edited, None);
        for emoji in ["1", "2", "3", "4"] {
            react(emoji, false).await;
        }
        assert_eq!(react("3", true).await, ["1", "2", "4"]);
        assert_eq!(rooms.react(&web, &"9".into(), "👀", false, later).await.unwrap(), None);
        book.winds(minutes(1));
        let touched = book.clock.now();
        rooms.touch(&web, &"1".into(), touched).await.unwrap();
        assert_eq!(rooms.messages_after(&web, 0, Some(touched), 1000).await.unwrap().len(), 1);
        assert_eq!(rooms.message(&web, &"1".into()).await.unwrap().unwrap().marks.touched, Some(touched));
        assert_eq!(rooms.message(&web, &"9".into()).await.unwrap(), None);
    }
}
