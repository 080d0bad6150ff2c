//! The gate of a shared bot: the author decides first, then the place.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use identity::{ChatVisibility, EventOrigin, GateDecision, IncomingMessage, LinkResult};
use ledger::{
    AdmittedTenant, AgentPrincipals, AuthorPolicy, BotRef, Created, Decision, Discriminator, RelevancePolicy,
    RouteTo, Subject, UseBotResult,
};
use posthouse_wire::{ChatId, Source, UserId};

use crate::fixtures::{TestAgent, TestServer, bot, seconds};

/// A platform that says what the test wants.
#[derive(Default)]
struct Members {
    sees: AtomicBool,
    asked: AtomicU32,
    /// A private thread, which nobody sees.
    private: OnceLock<ChatId>,
}

#[async_trait::async_trait]
impl ChatVisibility for Members {
    async fn sees(&self, _: &RouteTo, _: &BotRef, _: &UserId, chat: &ChatId) -> bool {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.sees.load(Ordering::SeqCst) && self.private.get() != Some(chat)
    }
}

/// Two agents of two tenants on one shared bot.
pub struct Shared {
    pub server: TestServer,
    pub on: BotRef,
    pub heron: TestAgent,
    pub otter: TestAgent,
    members: Arc<Members>,
}

impl Shared {
    pub async fn open() -> Self {
        let server = TestServer::open().await;
        let on = bot("pigeon", "shared");
        server.has_bot(&on, true).await;
        let claims = server.identity.gate.claims();
        assert!(claims.admit_tenant(&on, &AdmittedTenant::Every).await.unwrap());
        let heron = server.enrol("acme", "heron", &[]).await;
        let otter = server.enrol("umbrella", "otter", &[]).await;
        for agent in [&heron, &otter] {
            assert_eq!(claims.use_bot(&agent.instance, &on).await.unwrap(), UseBotResult::Uses);
        }
        let members = Arc::new(Members::default());
        members.sees.store(true, Ordering::SeqCst);
        server.identity.gate.set_chat_visibility(members.clone());
        Self { server, on, heron, otter, members }
    }

    pub async fn link(&self, user: &str, to: &TestAgent) {
        let codes = self.server.identity.gate.link_codes();
        let code = codes.mint(&to.instance, None).await.unwrap().unwrap();
        let chat = format!("dm-{user}").as_str().into();
        let linked = codes.redeem(&self.on, &user.into(), &chat, &code.code).await.unwrap();
        assert_eq!(linked, LinkResult::Linked(to.instance.clone()));
    }

    async fn decide(&self, source: &Source, addressed: bool, from_bot: bool) -> GateDecision {
        let origin = EventOrigin { source, path: None };
        let incoming = IncomingMessage {
            on: &self.on,
            shared: true,
            origin,
            addressed,
            several_people: false,
            from_bot,
            person: None,
        };
        self.server.identity.gate.decide(incoming).await.unwrap()
    }

    /// The agent that gets a message, or the reason why none does.
    pub async fn gets(&self, source: &Source, addressed: bool) -> String {
        shown(self.decide(source, addressed, false).await)
    }

    /// Whether the author of a message is admitted to this agent.
    pub async fn admits(&self, to: &TestAgent, source: &Source) -> bool {
        let origin = EventOrigin { source, path: None };
        let incoming = IncomingMessage {
            on: &self.on,
            shared: true,
            origin,
            addressed: true,
            several_people: false,
            from_bot: false,
            person: None,
        };
        let admitted = self.server.identity.gate.admit_to(&to.instance, incoming).await.unwrap();
        admitted.is_some_and(|admitted| {
            assert_eq!(admitted.to().instance, to.instance);
            true
        })
    }

    async fn policy(&self, of: &TestAgent, policy: AuthorPolicy, allowed: &[&str]) {
        let allowed = allowed.iter().map(|user| (*user).into()).collect();
        let principals = AgentPrincipals { platform: None, policy, allowed };
        assert!(self.server.identity.gate.policies().declare(&of.instance, principals).await.unwrap());
    }

    pub async fn claims(&self, agent: &TestAgent, value: &str) -> bool {
        let claims = self.server.identity.gate.claims();
        claims.claim(&agent.instance, std::slice::from_ref(&self.on), value, false).await.unwrap()
    }
}

fn shown(decision: GateDecision) -> String {
    match decision {
        GateDecision::Admitted(admitted) => admitted.to().tenant.to_string(),
        GateDecision::NotAddressed(_) => "not_addressed".to_owned(),
        GateDecision::Ignored(reason) => reason.to_owned(),
        GateDecision::Stranger(_) => "pairing".to_owned(),
    }
}

pub fn group(user: &str, chat: &str) -> Source {
    Source {
        platform: "pigeon".into(),
        chat_id: Some(chat.into()),
        chat_type: "group".to_owned(),
        user_id: Some(user.into()),
        scope_id: Some("guild".into()),
        ..Source::default()
    }
}

pub fn direct(user: &str) -> Source {
    Source { chat_type: "dm".to_owned(), scope_id: None, ..group(user, &format!("dm-{user}")) }
}

pub fn tenant(agent: &TestAgent) -> String {
    agent.tenant.to_string()
}

#[tokio::test]
async fn a_linked_author_reaches_their_own_agent_and_an_unlinked_one_nobody() {
    let shared = Shared::open().await;
    assert_eq!(shared.gets(&direct("ann"), true).await, "no_route");
    assert_eq!(shared.gets(&group("ann", "c1"), true).await, "no_route");
    shared.link("ann", &shared.heron).await;
    shared.link("bob", &shared.otter).await;
    for addressed in [true, false] {
        assert_eq!(shared.gets(&group("ann", "c1"), addressed).await, tenant(&shared.heron));
        assert_eq!(shared.gets(&group("bob", "c1"), addressed).await, tenant(&shared.otter));
        assert_eq!(shared.gets(&group("eve", "c1"), addressed).await, "no_route");
    }
    assert_eq!(shared.gets(&direct("ann"), true).await, tenant(&shared.heron));
    let platform = "pigeon".into();
    let links = shared.server.identity.gate.links();
    assert!(links.unlink(&shared.heron.instance, &platform, &"ann".into()).await.unwrap());
    assert!(!links.unlink(&shared.heron.instance, &platform, &"ann".into()).await.unwrap());
    assert_eq!(shared.gets(&direct("ann"), true).await, "no_route");
}

#[tokio::test]
async fn of_several_agents_the_owner_of_the_channel_the_default_or_the_latest_gets_a_message() {
    let shared = Shared::open().await;
    shared.link("ann", &shared.heron).await;
    shared.link("ann", &shared.otter).await;
    assert_eq!(shared.gets(&direct("ann"), true).await, tenant(&shared.otter), "the latest");
    assert_eq!(shared.gets(&group("ann", "c1"), true).await, tenant(&shared.otter));
    assert!(shared.claims(&shared.heron, "guild").await);
    assert_eq!(shared.gets(&group("ann", "c1"), true).await, tenant(&shared.heron), "it claimed the guild");
    let links = shared.server.identity.gate.links();
    assert!(links.set_dm_default(&shared.heron.instance, &"pigeon".into(), &"ann".into()).await.unwrap());
    assert_eq!(shared.gets(&direct("ann"), true).await, tenant(&shared.heron));
}

#[tokio::test]
async fn in_a_claimed_place_the_policy_the_platform_and_relevance_decide_about_unlinked_authors() {
    let shared = Shared::open().await;
    shared.link("ann", &shared.heron).await;
    assert!(!shared.claims(&shared.heron, "guild").await, "nobody was seen there");
    shared.gets(&group("ann", "c1"), true).await;
    assert!(!shared.claims(&shared.otter, "guild").await, "nobody of theirs was seen there");
    assert!(shared.claims(&shared.heron, "guild").await);
    let eve = group("eve", "c1");
    assert_eq!(shared.gets(&eve, true).await, "not_linked", "only linked authors at first");
    shared.policy(&shared.heron, AuthorPolicy::AllowList, &["eve"]).await;
    assert_eq!(shared.gets(&eve, true).await, tenant(&shared.heron));
    assert_eq!(shared.gets(&group("mallory", "c1"), true).await, "not_linked");
    assert_eq!(shared.gets(&direct("eve"), true).await, "no_route");
    shared.policy(&shared.heron, AuthorPolicy::Any, &[]).await;
    assert_eq!(shared.gets(&group("mallory", "c1"), true).await, tenant(&shared.heron));
    assert_eq!(shared.gets(&group("mallory", "c1"), false).await, "not_addressed");

    // The platform is asked again after a minute at most.
    shared.members.sees.store(false, Ordering::SeqCst);
    shared.server.winds(seconds(61));
    assert_eq!(shared.gets(&eve, true).await, "not_visible");
    assert_eq!(shared.gets(&group("ann", "c1"), true).await, tenant(&shared.heron), "their own agent");
    let access = shared.server.identity.gate.access();
    assert!(access.decide(&shared.on, &Subject::User("ann".into()), Decision::Denied).await.unwrap());
    assert_eq!(shared.gets(&group("ann", "c1"), true).await, "denied");
}

#[tokio::test]
async fn messages_of_a_private_thread_reach_only_an_agent_whose_people_see_that_thread() {
    let shared = Shared::open().await;
    shared.link("ann", &shared.heron).await;
    shared.gets(&group("ann", "c1"), true).await;
    assert!(shared.claims(&shared.heron, "guild").await);
    shared.policy(&shared.heron, AuthorPolicy::Any, &[]).await;
    shared.members.private.set("t2".into()).unwrap();
    let in_thread = |thread: &str| Source {
        chat_type: "thread".to_owned(),
        thread_id: Some(thread.into()),
        parent_chat_id: Some("c1".into()),
        ..group("eve", thread)
    };
    assert_eq!(shared.gets(&group("eve", "c1"), true).await, tenant(&shared.heron));
    assert_eq!(shared.gets(&in_thread("t1"), true).await, tenant(&shared.heron));
    assert_eq!(shared.gets(&in_thread("t2"), true).await, "not_visible");
}

#[tokio::test]
async fn a_place_that_the_operator_routed_works_as_before_except_for_linked_authors() {
    let shared = Shared::open().await;
    let chat = Discriminator::Chat("c1".into());
    shared.server.routes(&shared.on, chat, &shared.otter).await;
    assert_eq!(shared.gets(&group("eve", "c1"), true).await, tenant(&shared.otter));
    assert_eq!(shared.gets(&group("eve", "c1"), false).await, "not_addressed");
    shared.link("ann", &shared.heron).await;
    assert_eq!(shared.gets(&group("ann", "c1"), true).await, tenant(&shared.heron));
    let nobody = Source { user_id: None, chat_type: "channel".to_owned(), ..group("", "c1") };
    assert_eq!(shared.gets(&nobody, true).await, tenant(&shared.otter));
}

#[tokio::test]
async fn messages_of_other_bots_are_wanted_only_by_policy() {
    let shared = Shared::open().await;
    shared.server.routes(&shared.on, Discriminator::Chat("c1".into()), &shared.otter).await;
    let robot = group("robot", "c1");
    let gets = async || shown(shared.decide(&robot, true, true).await);
    assert_eq!(gets().await, "bot_author");
    let policy = RelevancePolicy { require_address: true, free_scopes: vec![], allow_other_bots: true };
    let relevance = shared.server.identity.gate.relevance();
    assert!(relevance.declare(&shared.otter.instance, &"pigeon".into(), policy).await.unwrap());
    assert_eq!(gets().await, tenant(&shared.otter));
    assert_eq!(shown(shared.decide(&robot, false, true).await), "bot_author", "not addressed");
}

#[tokio::test]
async fn the_bots_default_is_for_agents_without_a_policy() {
    let shared = Shared::open().await;
    shared.server.routes(&shared.on, Discriminator::Chat("c1".into()), &shared.otter).await;
    assert_eq!(shared.gets(&group("eve", "c1"), false).await, "not_addressed");
    let bots = shared.server.identity.gate.claims().shared_bots();
    assert!(bots.set_require_address(&shared.on, false).await.unwrap());
    shared.server.identity.roster.bot_changed(&shared.on);
    assert_eq!(shared.gets(&group("eve", "c1"), false).await, tenant(&shared.otter));
    let strict = RelevancePolicy { require_address: true, free_scopes: vec![], allow_other_bots: false };
    let relevance = shared.server.identity.gate.relevance();
    assert!(relevance.declare(&shared.otter.instance, &"pigeon".into(), strict).await.unwrap());
    assert_eq!(shared.gets(&group("eve", "c1"), false).await, "not_addressed");
}

#[tokio::test]
async fn after_five_wrong_codes_an_author_waits_an_hour() {
    let shared = Shared::open().await;
    let codes = shared.server.identity.gate.link_codes();
    let good = codes.mint(&shared.heron.instance, None).await.unwrap().unwrap();
    let tries = async |user: &str, code: &str| {
        codes.redeem(&shared.on, &user.into(), &"dm".into(), code).await.unwrap()
    };
    for code in ["", "AAAAAAAA", "short", "BBBBBBBB", "CCCCCCCC"] {
        assert_eq!(tries("eve", code).await, LinkResult::Wrong);
    }
    assert_eq!(tries("eve", &good.code).await, LinkResult::TryLater);
    let spelled = good.code.to_ascii_lowercase();
    assert_eq!(tries("ann", &spelled).await, LinkResult::Linked(shared.heron.instance.clone()));
    shared.server.winds(seconds(3601));
    let next = codes.mint(&shared.otter.instance, None).await.unwrap().unwrap();
    assert_eq!(tries("eve", &next.code).await, LinkResult::Linked(shared.otter.instance.clone()));
}

#[tokio::test]
async fn links_and_claims_of_a_thousand_others_cause_no_ledger_read_for_a_message() {
    let shared = Shared::open().await;
    shared.server.routes(&shared.on, Discriminator::Chat("c1".into()), &shared.otter).await;
    shared.link("ann", &shared.heron).await;
    let messages = [direct("ann"), group("ann", "c7"), group("eve", "c1"), direct("stranger")];
    let decisions = async || {
        let mut all = Vec::new();
        for message in &messages {
            all.push(shared.gets(message, true).await);
        }
        all
    };
    let first = decisions().await;
    let busy = shared.server.enrol("busy", "bee", &[]).await;
    let claims = shared.server.identity.gate.claims();
    claims.use_bot(&busy.instance, &shared.on).await.unwrap();
    let mut read = 0;
    for number in 0..1000 {
        shared.link(&format!("user-{number}"), &busy).await;
        if number % 100 == 0 {
            let place = Discriminator::Chat(format!("busy-{number}").as_str().into());
            let granted = claims.grant(&busy.instance, &shared.on, &place).await.unwrap();
            assert_eq!(granted, Created::Made);
        }
        if number % 20 == 0 {
            let before = shared.server.ledger.reads();
            assert_eq!(decisions().await, first);
            read += shared.server.ledger.reads() - before;
        }
    }
    // The notifications of the first changes may come around meanwhile. If the changes of others counted, each of the
    // fifty rounds would read something.
    assert!(read < 50, "{read} reads in 50 rounds");
}

#[tokio::test]
async fn an_author_with_several_agents_is_admitted_to_each_of_them_and_to_no_other() {
    let shared = Shared::open().await;
    let (heron, otter) = (&shared.heron, &shared.otter);
    let stranger = shared.server.enrol("initech", "stork", &[]).await;
    shared.server.identity.gate.claims().use_bot(&stranger.instance, &shared.on).await.unwrap();
    shared.link("ann", heron).await;
    shared.link("ann", otter).await;
    shared.link("bob", otter).await;
    for message in [direct("ann"), group("ann", "c1")] {
        assert!(shared.admits(heron, &message).await && shared.admits(otter, &message).await);
        assert!(!shared.admits(&stranger, &message).await);
    }
    assert!(
        shared.admits(otter, &group("bob", "c1")).await && !shared.admits(heron, &group("bob", "c1")).await
    );
    assert!(!shared.admits(heron, &group("eve", "c1")).await);

    let access = shared.server.identity.gate.access();
    let chat = Subject::Chat("c1".into());
    assert!(access.decide(&shared.on, &chat, Decision::Denied).await.unwrap());
    assert!(!shared.admits(heron, &group("ann", "c1")).await, "the operator denied the chat");
    assert!(shared.admits(heron, &group("ann", "c2")).await);
    shared
        .server
        .identity
        .accounts
        .deprovision(shared.server.identity.gate.claims(), &heron.instance)
        .await
        .unwrap();
    assert!(!shared.admits(heron, &direct("ann")).await && shared.admits(otter, &direct("ann")).await);
}

#[tokio::test]
async fn who_is_admitted_to_an_asked_agent_follows_its_claims_its_policy_and_the_operators_routes() {
    let shared = Shared::open().await;
    let (heron, otter) = (&shared.heron, &shared.otter);
    shared.link("ann", heron).await;
    shared.gets(&group("ann", "c1"), true).await;
    assert!(shared.claims(heron, "guild").await);
    let eve = group("eve", "c1");
    assert!(!shared.admits(heron, &eve).await, "only linked authors at first");
    shared.policy(heron, AuthorPolicy::AllowList, &["eve"]).await;
    assert!(shared.admits(heron, &eve).await && !shared.admits(otter, &eve).await);
    assert!(!shared.admits(heron, &group("mallory", "c1")).await);
    assert!(!shared.admits(heron, &direct("eve")).await, "a claim concerns its place");
    shared.members.sees.store(false, Ordering::SeqCst);
    shared.server.winds(seconds(61));
    assert!(!shared.admits(heron, &eve).await, "the platform says that nobody of the agent sees the chat");

    shared.server.routes(&shared.on, Discriminator::Chat("c9".into()), otter).await;
    assert!(
        shared.admits(otter, &group("eve", "c9")).await && !shared.admits(heron, &group("eve", "c9")).await
    );
    assert!(
        shared.admits(heron, &group("ann", "c9")).await,
        "their own agent, also where another has a route"
    );
    assert!(
        !shared.admits(otter, &group("ann", "c9")).await,
        "a linked author reaches the agents they linked"
    );
}
