//! Agents on a shared bot: links of authors, claims, and what an agent may reach because of them.

use ledger::{
    AdmittedTenant, AgentPrincipals, AuthorPolicy, AuthorSighting, BoundAgent, ChangedPlace, ClaimFilter,
    Created, Discriminator, LinkingAuthor, PlaceOwner, RouteOrigin, RouteTo, TokenHash, UseBotResult,
};
use posthouse_wire::InstanceId;

use crate::book::{Book, days, minutes, on};

fn hash(code: u8) -> TokenHash {
    TokenHash([code; 32])
}

fn author(user: &str) -> LinkingAuthor {
    author_on("tb", user)
}

fn author_on(bot: &str, user: &str) -> LinkingAuthor {
    LinkingAuthor { on: on(bot), user: user.into(), chat: format!("dm-{user}").as_str().into() }
}

/// A message of an author in a chat, whose scope is `g` followed by the name of the chat up to a dash.
fn seen(user: &str, chat: &str) -> AuthorSighting {
    let scope = chat.split_once('-').map(|(scope, _)| format!("g{scope}").as_str().into());
    AuthorSighting { on: on("tb"), user: user.into(), chat: chat.into(), direct: false, parent: None, scope }
}

fn got(of: &InstanceId, place: &str) -> ChangedPlace {
    ChangedPlace { on: on("tb"), place: place.parse().unwrap(), instance: of.clone() }
}

impl Book {
    /// Two agents of two tenants on the shared bot `tb`.
    async fn share(&self) -> (InstanceId, InstanceId) {
        let heron = self.enrols("acme", "heron").await;
        let otter = self.enrols("umbrella", "otter").await;
        self.bot("tb", true).await;
        let bots = self.ledger.shared_bots();
        assert!(bots.admit_tenant(&on("tb"), &AdmittedTenant::Every).await.unwrap());
        for agent in [&heron, &otter] {
            assert_eq!(bots.use_bot(agent, &on("tb")).await.unwrap(), UseBotResult::Uses);
        }
        (heron, otter)
    }

    async fn links(&self, user: &str, to: &InstanceId) {
        self.links_on("tb", user, to).await;
    }

    async fn links_on(&self, bot: &str, user: &str, to: &InstanceId) {
        let bindings = self.ledger.bindings();
        let expires = self.clock.now() + minutes(10);
        assert!(bindings.mint_link_code(to, hash(200), None, expires).await.unwrap());
        let linked = bindings.redeem_link_code(hash(200), author_on(bot, user)).await.unwrap();
        assert_eq!(linked.map(|linked| linked.instance).as_ref(), Some(to));
    }

    async fn agents(&self, user: &str) -> Vec<InstanceId> {
        let agents = self.ledger.bindings().agents_of_author(&on("tb"), &user.into()).await.unwrap();
        agents.into_iter().map(|agent| agent.to.instance).collect()
    }

    async fn sees(&self, user: &str, chat: &str) -> Vec<ChangedPlace> {
        self.ledger.bindings().note_author(seen(user, chat)).await.unwrap()
    }

    async fn may_reach(&self, from: &InstanceId, chat: &str) -> bool {
        self.ledger.roster().may_reach(from, &on("tb"), &chat.into()).await.unwrap()
    }

    async fn replaces(
        &self,
        of: &InstanceId,
        gateway: &str,
        keys: &[&str],
    ) -> (Vec<String>, Vec<ChangedPlace>) {
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        let claims = self.ledger.claims();
        let replaced = claims.replace_of_gateway(of, &gateway.into(), &on("tb"), &keys).await.unwrap();
        (replaced.live, replaced.changed)
    }

    async fn claims_of(&self, of: &InstanceId) -> Vec<String> {
        let filter = ClaimFilter { instance: Some(of.clone()), on: None };
        let claims = self.ledger.claims().claims(filter, None, 100).await.unwrap();
        let show = |claim: ledger::ScopeClaim| {
            format!("{}:{} {}", claim.kind, claim.value, if claim.live { "live" } else { "waits" })
        };
        claims.into_iter().map(show).collect()
    }
}

stories! {
    async fn a_link_code_works_once_in_time_on_its_platform_for_an_agent_of_the_bot(book) {
        let (heron, _) = book.share().await;
        let bindings = book.ledger.bindings();
        let expires = book.clock.now() + minutes(10);
        assert!(!bindings.mint_link_code(&"inst_nobody".into(), hash(1), None, expires).await.unwrap());
        let redeem = async |code, user: &str| bindings.redeem_link_code(hash(code), author(user)).await.unwrap();
        assert_eq!(redeem(1, "ann").await, None);

        let other = "carrier".into();
        assert!(bindings.mint_link_code(&heron, hash(2), Some(&other), expires).await.unwrap());
        assert_eq!(redeem(2, "ann").await, None, "it is for another platform");

        let egret = book.enrols("acme", "egret").await;
        assert!(bindings.mint_link_code(&egret, hash(3), None, expires).await.unwrap());
        assert_eq!(redeem(3, "ann").await, None, "the agent does not use this bot");

        assert!(bindings.mint_link_code(&heron, hash(4), Some(&"telegram".into()), expires).await.unwrap());
        let to = RouteTo { tenant: "ten_acme".into(), instance: heron.clone() };
        assert_eq!(redeem(4, "ann").await, Some(to.clone()));
        assert_eq!(redeem(4, "bob").await, None, "it was used");
        let expected = BoundAgent { to, fronts: true, dm_default: false, profile: None };
        assert_eq!(bindings.agents_of_author(&on("tb"), &"ann".into()).await.unwrap(), [expected]);
        assert!(book.agents("bob").await.is_empty());

        assert!(bindings.mint_link_code(&heron, hash(5), None, expires).await.unwrap());
        bindings.revoke_link_code(hash(5)).await.unwrap();
        assert_eq!(redeem(5, "bob").await, None, "it was published");
        assert!(bindings.mint_link_code(&heron, hash(6), None, expires).await.unwrap());
        book.winds(minutes(11));
        assert_eq!(redeem(6, "bob").await, None, "it has expired");
    }

    async fn a_sixth_link_code_ends_the_oldest(book) {
        let (heron, _) = book.share().await;
        let bindings = book.ledger.bindings();
        for code in 1..=6 {
            let expires = book.clock.now() + minutes(10);
            bindings.mint_link_code(&heron, hash(code), None, expires).await.unwrap();
            book.winds(minutes(1) / 60);
        }
        assert_eq!(bindings.redeem_link_code(hash(1), author("ann")).await.unwrap(), None);
        assert!(bindings.redeem_link_code(hash(2), author("ann")).await.unwrap().is_some());
    }

    async fn the_latest_link_comes_first_and_one_agent_is_the_default_for_direct_messages(book) {
        let (heron, otter) = book.share().await;
        book.links("ann", &heron).await;
        book.links("ann", &otter).await;
        assert_eq!(book.agents("ann").await, [otter.clone(), heron.clone()]);
        let bindings = book.ledger.bindings();
        let (platform, ann) = ("telegram".into(), "ann".into());
        assert!(bindings.set_dm_default(&heron, &platform, &ann).await.unwrap());
        assert!(!bindings.set_dm_default(&heron, &platform, &"bob".into()).await.unwrap());
        assert!(bindings.set_dm_default(&otter, &platform, &ann).await.unwrap());
        let agents = bindings.agents_of_author(&on("tb"), &ann).await.unwrap();
        let defaults: Vec<bool> = agents.iter().map(|agent| agent.dm_default).collect();
        assert_eq!(defaults, [true, false]);
        book.links("ann", &heron).await;
        assert_eq!(book.agents("ann").await, [heron, otter], "linked again");
    }

    async fn a_link_is_one_of_its_bot_until_the_bot_is_removed_or_the_author_unlinked(book) {
        let (heron, otter) = book.share().await;
        book.bot("own", false).await;
        book.routes("own", "*", &otter).await;
        book.links("ann", &heron).await;
        book.links("ann", &otter).await;
        book.links_on("own", "ann", &otter).await;
        let bindings = book.ledger.bindings();
        let ann = "ann".into();
        let on_own = async || bindings.agents_of_author(&on("own"), &ann).await.unwrap();
        assert_eq!(book.agents("ann").await, [otter.clone(), heron.clone()]);
        assert_eq!(on_own().await.len(), 1, "heron was linked on another bot");
        book.ledger.roster().remove_bot(&"telegram".into(), &"own".into()).await.unwrap();
        book.bot("own", false).await;
        book.routes("own", "*", &otter).await;
        assert!(on_own().await.is_empty(), "another bot of the same name");
        book.links_on("own", "ann", &otter).await;
        assert!(bindings.unbind(&otter, &"telegram".into(), &ann).await.unwrap());
        assert!(on_own().await.is_empty());
        assert_eq!(book.agents("ann").await, [heron]);
    }

    async fn an_author_has_a_limited_number_of_agents(book) {
        book.share().await;
        for number in 0..ledger::AGENTS_OF_AN_AUTHOR {
            let agent = book.enrols("acme", &format!("egret{number}")).await;
            book.ledger.shared_bots().use_bot(&agent, &on("tb")).await.unwrap();
            book.links("ann", &agent).await;
        }
        let one_more = book.enrols("acme", "one-more").await;
        book.ledger.shared_bots().use_bot(&one_more, &on("tb")).await.unwrap();
        let bindings = book.ledger.bindings();
        bindings.mint_link_code(&one_more, hash(9), None, book.clock.now() + minutes(10)).await.unwrap();
        assert_eq!(bindings.redeem_link_code(hash(9), author("ann")).await.unwrap(), None);
    }

    async fn a_tenant_that_is_not_admitted_cannot_use_a_bot_and_loses_it_with_the_admission(book) {
        let heron = book.enrols("acme", "heron").await;
        let otter = book.enrols("umbrella", "otter").await;
        book.bot("tb", true).await;
        book.bot("own", false).await;
        let bots = book.ledger.shared_bots();
        let acme = AdmittedTenant::One("ten_acme".into());
        assert_eq!(bots.use_bot(&heron, &on("tb")).await.unwrap(), UseBotResult::Refused);
        assert!(!bots.admit_tenant(&on("own"), &acme).await.unwrap(), "it is not shared");
        assert!(!bots.admit_tenant(&on("tb"), &AdmittedTenant::One("ten_x".into())).await.unwrap());
        assert!(bots.admit_tenant(&on("tb"), &acme).await.unwrap());
        assert!(bots.admit_tenant(&on("tb"), &acme).await.unwrap());
        assert_eq!(bots.use_bot(&heron, &on("tb")).await.unwrap(), UseBotResult::Uses);
        assert_eq!(bots.use_bot(&heron, &on("tb")).await.unwrap(), UseBotResult::Uses);
        assert_eq!(bots.use_bot(&otter, &on("tb")).await.unwrap(), UseBotResult::Refused);
        let platform = "telegram".into();
        assert_eq!(bots.bots_for_tenant(&"ten_acme".into(), &platform).await.unwrap(), [on("tb")]);
        assert!(bots.bots_for_tenant(&"ten_umbrella".into(), &platform).await.unwrap().is_empty());
        assert_eq!(book.ledger.roster().bots_used_by(&heron).await.unwrap(), [on("tb")]);

        book.links("ann", &heron).await;
        book.sees("ann", "1-a").await;
        assert_eq!(book.replaces(&heron, "gw-1", &["g1"]).await.0, ["g1"]);
        book.routes("tb", "chat:operators", &otter).await;
        let (agents, places) = bots.withdraw_tenant(&on("tb"), &acme).await.unwrap();
        assert_eq!((agents, places), (vec![heron.clone()], vec![got(&heron, "scope:g1")]));
        assert!(bots.admitted_tenants(&on("tb")).await.unwrap().is_empty());
        assert!(book.ledger.roster().bots_used_by(&heron).await.unwrap().is_empty());
        assert_eq!(book.owner("tb", &["chat:operators"]).await, Some(otter));
        assert_eq!(book.owner("tb", &["scope:g1"]).await, None);
    }

    async fn a_claim_waits_until_a_linked_author_is_seen_there(book) {
        let (heron, otter) = book.share().await;
        assert_eq!(book.replaces(&otter, "gw-2", &["g1", "1-a"]).await, (vec![], vec![]));
        assert_eq!(book.claims_of(&otter).await, ["key:1-a waits", "key:g1 waits"]);
        assert_eq!(book.owner("tb", &["scope:g1", "chat:1-a"]).await, None, "it delivers nothing");
        book.links("ann", &heron).await;
        assert_eq!(book.replaces(&heron, "gw-1", &["g1"]).await.0, [""; 0]);
        assert_eq!(book.sees("ann", "1-a").await, [got(&heron, "scope:g1")], "and blocks nobody");
        let owner = book.ledger.roster().place_owner(&on("tb"), &["scope:g1".parse().unwrap()]).await.unwrap();
        let to = RouteTo { tenant: "ten_acme".into(), instance: heron.clone() };
        let which: Discriminator = "scope:g1".parse().unwrap();
        assert_eq!(owner, Some(PlaceOwner { to, which, origin: RouteOrigin::Claim, profile: None }));
        assert_eq!(book.replaces(&heron, "gw-1", &["g1", "g1"]).await, (vec!["g1".to_owned()], vec![]));

        // Somebody linked to the other agent is seen there too. The first owner keeps the scope and what lies in it.
        book.links("bob", &otter).await;
        assert!(book.sees("bob", "1-a").await.is_empty());
        assert_eq!(book.replaces(&otter, "gw-2", &["g1", "1-a"]).await, (vec![], vec![]));
        assert_eq!(book.ledger.claims().claim(&otter, &on("tb"), "1-a", true).await.unwrap(), None);
        assert!(book.ledger.roster().routes().await.unwrap().is_empty(), "claims are not the operator's routes");

        // Given up by the first, it goes to the other with the next message of its author.
        assert_eq!(book.replaces(&heron, "gw-1", &[]).await, (vec![], vec![got(&heron, "scope:g1")]));
        assert_eq!(book.sees("bob", "1-a").await, [got(&otter, "scope:g1"), got(&otter, "chat:1-a")]);
    }

    async fn one_gateways_claims_do_not_replace_those_of_another(book) {
        let (heron, _) = book.share().await;
        book.links("ann", &heron).await;
        book.sees("ann", "1-a").await;
        book.sees("ann", "2-a").await;
        assert_eq!(book.replaces(&heron, "gw-1", &["g1", "g9"]).await.0, ["g1"]);
        assert_eq!(book.replaces(&heron, "gw-2", &["g2"]).await.0, ["g2"]);
        assert_eq!(book.claims_of(&heron).await, ["key:g9 waits", "scope:g1 live", "scope:g2 live"]);
        book.replaces(&heron, "gw-1", &[]).await;
        assert_eq!(book.claims_of(&heron).await, ["scope:g2 live"]);
    }

    async fn an_agent_has_a_limited_number_of_claims_and_odd_keys_are_left_out(book) {
        let (heron, _) = book.share().await;
        let many: Vec<String> = (0..300).map(|number| format!("g{number}")).collect();
        let mut keys: Vec<&str> = vec![""];
        let long = "x".repeat(257);
        keys.push(&long);
        keys.extend(many.iter().map(String::as_str));
        book.replaces(&heron, "gw-1", &keys).await;
        let filter = ClaimFilter { instance: Some(heron.clone()), on: Some(on("tb")) };
        let claims = book.ledger.claims().claims(filter.clone(), None, 1000).await.unwrap();
        assert_eq!(claims.len(), ledger::CLAIMS_OF_AN_AGENT as usize);
        // The pages together are the list.
        let (mut paged, mut after) = (Vec::new(), None);
        loop {
            let page = book.ledger.claims().claims(filter.clone(), after, 100).await.unwrap();
            let Some(last) = page.last().cloned() else { break };
            let ledger::ScopeClaim { on, kind, value, instance, .. } = last;
            after = Some(ledger::ClaimPosition { on, kind, value, instance });
            paged.extend(page);
        }
        assert_eq!(paged, claims);
        book.links("ann", &heron).await;
        book.sees("ann", "900-a").await;
        let claim = book.ledger.claims().claim(&heron, &on("tb"), "g900", false).await.unwrap();
        assert_eq!(claim, None, "one too many");
    }

    async fn a_claim_by_hand_needs_a_linked_author_who_was_seen_there(book) {
        let (heron, _) = book.share().await;
        let claims = book.ledger.claims();
        assert_eq!(claims.claim(&heron, &on("tb"), "g1", false).await.unwrap(), None);
        assert!(book.claims_of(&heron).await.is_empty(), "nothing is stored");
        book.links("ann", &heron).await;
        book.sees("ann", "1-a").await;
        assert_eq!(claims.claim(&heron, &on("tb"), "g1", true).await.unwrap(), None, "it is not a chat");
        let live = claims.claim(&heron, &on("tb"), "g1", false).await.unwrap();
        assert_eq!(live, Some(got(&heron, "scope:g1")));
        assert_eq!(claims.claim(&heron, &on("tb"), "g1", false).await.unwrap(), live, "again");
        let platform = "telegram".into();
        assert_eq!(claims.release_claim(&heron, &platform, "g1").await.unwrap(), [got(&heron, "scope:g1")]);
        assert!(claims.release_claim(&heron, &platform, "g1").await.unwrap().is_empty());
        assert!(book.ledger.bindings().unbind(&heron, &platform, &"ann".into()).await.unwrap());
        assert_eq!(claims.claim(&heron, &on("tb"), "g1", false).await.unwrap(), None, "not linked any more");
    }

    async fn the_operator_grants_a_claim_but_not_a_place_of_another_agent(book) {
        let (heron, otter) = book.share().await;
        let claims = book.ledger.claims();
        let place: Discriminator = "scope:g1".parse().unwrap();
        book.replaces(&heron, "gw-1", &["g1"]).await;
        assert_eq!(claims.grant_claim(&heron, &on("tb"), &place).await.unwrap(), Created::Made);
        assert_eq!(book.claims_of(&heron).await, ["scope:g1 live"]);
        assert_eq!(claims.grant_claim(&otter, &on("tb"), &place).await.unwrap(), Created::Taken);
        let same_value: Discriminator = "chat:g1".parse().unwrap();
        assert_eq!(claims.grant_claim(&otter, &on("tb"), &same_value).await.unwrap(), Created::Taken);
        assert!(matches!(claims.grant_claim(&otter, &on("tb"), &Discriminator::Any).await.unwrap(), Created::Unfit(_)));
        assert!(matches!(claims.grant_claim(&otter, &on("no"), &place).await.unwrap(), Created::Unfit(_)));
        assert_eq!(book.routes("tb", "scope:g1", &otter).await, Created::Taken);
        book.replaces(&heron, "gw-1", &[]).await;
        assert!(book.claims_of(&heron).await.is_empty(), "the gateway's own list goes on deciding");
    }

    async fn an_agent_reaches_the_chats_of_its_authors_and_of_its_scopes(book) {
        let (heron, otter) = book.share().await;
        assert!(!book.may_reach(&heron, "dm-ann").await);
        book.links("ann", &heron).await;
        assert!(book.may_reach(&heron, "dm-ann").await, "the direct chat of a linked author");
        assert!(!book.may_reach(&otter, "dm-ann").await);
        book.sees("ann", "1-a").await;
        assert!(!book.may_reach(&heron, "1-a").await, "seen there, but nothing was delivered");
        book.ledger.bindings().note_place(&on("tb"), &"1-b".into(), &"g1".into()).await.unwrap();
        assert!(!book.may_reach(&heron, "1-b").await);
        book.ledger.claims().claim(&heron, &on("tb"), "g1", false).await.unwrap();
        assert!(book.may_reach(&heron, "1-b").await, "a chat of its scope");
        assert!(!book.may_reach(&otter, "1-b").await);
        book.routes("tb", "chat:1-b", &otter).await;
        assert!(!book.may_reach(&heron, "1-b").await, "it belongs to another agent");
        book.ledger.bindings().unbind(&heron, &"telegram".into(), &"ann".into()).await.unwrap();
        assert!(!book.may_reach(&heron, "dm-ann").await);
    }

    async fn an_agent_answers_its_author_in_a_chat_of_another_agent(book) {
        let (heron, otter) = book.share().await;
        book.routes("tb", "chat:chat-1", &otter).await;
        book.links("ann", &heron).await;
        book.keeps_letter(book.sighted(heron.as_str(), "hello", None, &[])).await;
        assert!(!book.may_reach(&heron, "chat-1").await);
        book.ledger.bindings().note_author(AuthorSighting { scope: None, ..seen("ann", "chat-1") }).await.unwrap();
        assert!(book.may_reach(&heron, "chat-1").await);
        assert!(book.may_reach(&otter, "chat-1").await);
        book.ledger.bindings().unbind(&heron, &"telegram".into(), &"ann".into()).await.unwrap();
        assert!(!book.may_reach(&heron, "chat-1").await);
    }

    async fn what_waits_ends_with_the_link_or_the_claim_that_it_came_by(book) {
        let (heron, otter) = book.share().await;
        book.links("ann", &heron).await;
        book.links("bob", &otter).await;
        book.sees("ann", "1-a").await;
        book.ledger.claims().claim(&heron, &on("tb"), "g1", false).await.unwrap();
        let says = |user: &str| {
            let event = format!(r#"{{"source":{{"chat_id":"1-a","scope_id":"g1","user_id":"{user}"}}}}"#);
            ledger::Append { event: event.into(), chat: "1-a".into(), ..book.letter(heron.as_str(), user) }
        };
        let (ann, eve) = (book.keeps_letter(says("ann")).await, book.keeps_letter(says("eve")).await);
        let count = async || book.ledger.inbox().unread(&heron, ledger::Seq(0), 9).await.unwrap().len();
        assert_eq!(count().await, 2);
        book.ledger.claims().release_claim(&heron, &"telegram".into(), "g1").await.unwrap();
        assert!(book.steps(&eve).await.contains(&"dropped"), "{:?}", book.steps(&eve).await);
        assert_eq!(count().await, 1, "the linked author's message waits on");
        assert!(!book.ledger.roster().end_unrouted(&on("tb"), &heron).await.unwrap());
        book.ledger.bindings().unbind(&heron, &"telegram".into(), &"ann".into()).await.unwrap();
        assert_eq!(count().await, 0, "{:?}", book.steps(&ann).await);
    }

    async fn deprovisioning_removes_everything_of_one_agent_and_nothing_of_others(book) {
        let (heron, otter) = book.share().await;
        book.gateway(&heron, "gw-1").await;
        book.routes("tb", "chat:operators", &heron).await;
        for (user, agent) in [("ann", &heron), ("bob", &otter), ("eve", &heron)] {
            book.links(user, agent).await;
        }
        book.sees("ann", "1-a").await;
        book.sees("bob", "2-a").await;
        book.replaces(&heron, "gw-1", &["g1", "g7"]).await;
        book.ledger.claims().claim(&otter, &on("tb"), "g2", false).await.unwrap();
        let any = AgentPrincipals { platform: None, policy: AuthorPolicy::Any, allowed: vec![] };
        book.ledger.principals().set_principals(&heron, any.clone()).await.unwrap();
        book.ledger.principals().set_principals(&otter, any).await.unwrap();
        book.keeps(heron.as_str(), "waits").await;
        book.keeps(otter.as_str(), "stays").await;
        let done = book.ledger.shared_bots().deprovision(&heron).await.unwrap();
        assert_eq!(done.authors, [("telegram".into(), "ann".into()), ("telegram".into(), "eve".into())]);
        assert_eq!(done.places, [got(&heron, "scope:g1")]);
        assert_eq!(done.gateways, [posthouse_wire::GatewayId::new("gw-1")]);
        assert_eq!(done.tenant, Some("ten_acme".into()));
        assert!(book.unread(heron.as_str()).await.is_empty());
        assert!(book.claims_of(&heron).await.is_empty());
        assert!(book.agents("ann").await.is_empty());
        assert!(book.ledger.principals().principals(&heron).await.unwrap().is_empty());
        assert_eq!(book.owner("tb", &["chat:operators"]).await, Some(heron.clone()));
        assert_eq!(book.unread(otter.as_str()).await, ["stays"]);
        assert_eq!(book.agents("bob").await.first(), Some(&otter));
        assert_eq!(book.claims_of(&otter).await, ["scope:g2 live"]);
        assert_eq!(book.ledger.principals().principals(&otter).await.unwrap().len(), 1);
        let again = book.ledger.shared_bots().deprovision(&heron).await.unwrap();
        assert!(again.authors.is_empty() && again.places.is_empty() && again.gateways.is_empty());
    }

    async fn an_agent_a_bot_and_a_tenant_go_with_all_of_it(book) {
        let (heron, otter) = book.share().await;
        let acme = AdmittedTenant::One("ten_acme".into());
        book.ledger.shared_bots().admit_tenant(&on("tb"), &acme).await.unwrap();
        book.links("ann", &heron).await;
        book.links("bob", &otter).await;
        book.sees("ann", "1-a").await;
        book.replaces(&heron, "gw-1", &["g1", "g7"]).await;
        book.ledger.bindings().mint_link_code(&heron, hash(1), None, book.clock.now() + minutes(1)).await.unwrap();
        let listed = AgentPrincipals { platform: None, policy: AuthorPolicy::AllowList, allowed: vec!["bob".into()] };
        book.ledger.principals().set_principals(&heron, listed).await.unwrap();
        book.ledger.roster().remove_instance(&heron).await.unwrap();
        assert!(book.agents("ann").await.is_empty());
        book.ledger.roster().remove_tenant(&"ten_acme".into()).await.unwrap();
        assert_eq!(book.ledger.shared_bots().admitted_tenants(&on("tb")).await.unwrap(), [AdmittedTenant::Every]);
        book.sees("bob", "1-a").await;
        book.replaces(&otter, "gw-2", &["g1", "g7"]).await;
        book.ledger.roster().remove_bot(&"telegram".into(), &"tb".into()).await.unwrap();
        assert!(book.ledger.roster().bots_used_by(&otter).await.unwrap().is_empty());
        assert!(book.claims_of(&otter).await.is_empty());
    }

    async fn a_principal_policy_is_for_one_platform_or_for_all(book) {
        let (heron, _) = book.share().await;
        let principals = book.ledger.principals();
        let admits = async |platform: &str, user: &str| {
            principals.admits_author(&heron, &platform.into(), &user.into()).await.unwrap()
        };
        assert!(!admits("telegram", "ann").await, "only linked authors at first");
        let set = async |platform: Option<&str>, policy, allowed: &[&str]| {
            let allowed = allowed.iter().map(|user| (*user).into()).collect();
            let policy = AgentPrincipals { platform: platform.map(Into::into), policy, allowed };
            principals.set_principals(&heron, policy).await.unwrap()
        };
        assert!(set(None, AuthorPolicy::AllowList, &["ann", "ann"]).await);
        assert!(admits("telegram", "ann").await && !admits("telegram", "bob").await);
        assert!(set(Some("telegram"), AuthorPolicy::OwnerOnly, &["ann"]).await);
        assert!(!admits("telegram", "ann").await && admits("carrier", "ann").await);
        assert!(set(Some("telegram"), AuthorPolicy::AllowList, &["bob"]).await);
        assert!(!admits("telegram", "ann").await && admits("telegram", "bob").await);
        assert!(set(None, AuthorPolicy::Any, &[]).await);
        assert_eq!(principals.principals(&heron).await.unwrap().len(), 1, "it replaces all");
        assert!(admits("telegram", "anybody").await);
        let nobody = AgentPrincipals { platform: None, policy: AuthorPolicy::Any, allowed: vec![] };
        assert!(!principals.set_principals(&"inst_nobody".into(), nobody).await.unwrap());
        principals.clear_principals(&heron).await.unwrap();
        assert!(!admits("telegram", "anybody").await);
    }

    async fn where_authors_were_seen_is_forgotten_after_ninety_days(book) {
        let (heron, _) = book.share().await;
        book.links("ann", &heron).await;
        book.sees("ann", "1-a").await;
        assert!(book.may_reach(&heron, "dm-ann").await);
        book.winds(days(91));
        book.prunes().await;
        assert!(!book.may_reach(&heron, "dm-ann").await);
        assert_eq!(book.ledger.claims().claim(&heron, &on("tb"), "g1", false).await.unwrap(), None);
        assert_eq!(book.agents("ann").await, [heron], "the link stays");
    }

    async fn a_bot_has_a_default_for_addressed_messages_and_agents_have_profiles(book) {
        let (heron, _) = book.share().await;
        let bots = book.ledger.shared_bots();
        assert!(bots.require_address(&on("tb")).await.unwrap());
        assert!(bots.set_require_address(&on("tb"), false).await.unwrap());
        assert!(!bots.require_address(&on("tb")).await.unwrap());
        assert!(bots.require_address(&on("unknown")).await.unwrap());
        assert!(!bots.set_require_address(&on("unknown"), false).await.unwrap());
        let roster = book.ledger.roster();
        bots.set_profile(&heron, Some("day")).await.unwrap();
        assert_eq!(bots.profile(&heron).await.unwrap().as_deref(), Some("day"));
        book.routes("tb", "chat:1", &heron).await;
        let owner = roster.place_owner(&on("tb"), &["chat:1".parse().unwrap()]).await.unwrap().unwrap();
        assert_eq!((owner.origin, owner.profile.as_deref()), (RouteOrigin::Operator, Some("day")));
        let night = ledger::Route {
            platform: "telegram".into(),
            bot: "tb".into(),
            discriminator: "chat:2".parse().unwrap(),
            instance: heron.clone(),
            created: book.clock.now(),
            profile: Some("night".to_owned()),
        };
        roster.create_route(night).await.unwrap();
        let owner = roster.place_owner(&on("tb"), &["chat:2".parse().unwrap()]).await.unwrap().unwrap();
        assert_eq!(owner.profile.as_deref(), Some("night"));
        assert_eq!(bots.agents_on(&on("tb")).await.unwrap().len(), 2);
    }

    async fn all_links_are_listed_in_pages(book) {
        let (heron, otter) = book.share().await;
        book.bot("own", false).await;
        book.routes("own", "*", &otter).await;
        for (bot, user, agent) in
            [("tb", "ann", &heron), ("tb", "bob", &otter), ("tb", "eve", &heron), ("own", "ann", &otter)]
        {
            book.links_on(bot, user, agent).await;
        }
        let bindings = book.ledger.bindings();
        let mut listed = Vec::new();
        let mut after = None;
        loop {
            let page = bindings.bindings(None, after, 2).await.unwrap();
            let Some(last) = page.last().cloned() else { break };
            listed.extend(page.into_iter().map(|binding| format!("{} {}", binding.on.bot, binding.user)));
            after = Some(ledger::BindingPosition { on: last.on, user: last.user, instance: last.to.instance });
        }
        assert_eq!(listed, ["own ann", "tb ann", "tb bob", "tb eve"]);
        assert_eq!(bindings.bindings(Some(&heron), None, 9).await.unwrap().len(), 2);
    }
}
