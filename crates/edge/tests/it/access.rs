//! Access control of bots, tested with a platform of its own, because the rules are the same for all platforms.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use edge::OpenedBot;
use edge::platform::{
    Arrival, BotField, BotTrouble, EventDelivery, InteractionAck, Moved, Platform, PlatformBot, Reading,
    VerifiedRequest, WebhookRefusal, once,
};
use ledger::{BotRef, Decision, Discriminator, PrincipalPolicy, Subject};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::{Action, Descriptor, Event, Outcome, Source, session_key};
use relay::{EgressResult, PermittedAction, StopRule};
use vault::{Credentials, Redemption};

use crate::telegram::test_server::TestServer;

/// Records what the bot sends, and which button presses were acknowledged.
#[derive(Default)]
pub struct Pigeon {
    said: Mutex<Vec<(String, String)>>,
    acknowledged: Mutex<usize>,
    /// Number of the next notices that cannot be sent.
    refuses: Mutex<usize>,
    /// Called once, after a route was found and before the message is stored.
    pub meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

#[async_trait]
impl Platform for Pigeon {
    fn name(&self) -> &'static str {
        "pigeon"
    }

    fn descriptor(&self, _bot: &OpenedBot) -> Descriptor {
        Descriptor::new("pigeon", "Pigeon")
    }

    fn fields(&self) -> &'static [BotField] {
        &[]
    }

    fn delivery(&self, _bot: &OpenedBot, _door: Option<&str>) -> EventDelivery {
        EventDelivery::BuiltIn
    }

    async fn check_credentials(&self, _draft: &OpenedBot) -> Result<PlatformBot, BotTrouble> {
        Err(BotTrouble::Other("not in these tests".to_owned()))
    }

    fn normalize(&self, _bot: &OpenedBot, _verified: VerifiedRequest) -> Result<Reading, WebhookRefusal> {
        Ok(Reading::default())
    }

    fn stop_rule(&self) -> StopRule {
        if let Some(meanwhile) = self.meanwhile.lock().unwrap().take() {
            meanwhile();
        }
        StopRule::Text
    }

    async fn acknowledge_interaction(&self, _bot: &OpenedBot, _courtesy: InteractionAck) {
        *self.acknowledged.lock().unwrap() += 1;
    }

    async fn perform(&self, _bot: &OpenedBot, order: PermittedAction) -> EgressResult {
        let Action::Send { chat_id, content, .. } = order.action else { panic!("only notices are sent") };
        let mut refuses = self.refuses.lock().unwrap();
        if *refuses > 0 {
            *refuses -= 1;
            return Outcome::failed("the platform did not answer").into();
        }
        self.said.lock().unwrap().push((chat_id.to_string(), content));
        Outcome::sent("m1".into()).into()
    }

    async fn register(&self, _bot: &OpenedBot, _door: Option<&str>) -> Result<(), BotTrouble> {
        Ok(())
    }
}

pub struct Fixture {
    pub server: TestServer,
    pub pigeon: Arc<Pigeon>,
    bot: Arc<OpenedBot>,
    clock: Timepiece,
    told: std::sync::atomic::AtomicU64,
}

fn bot(shared: bool) -> OpenedBot {
    OpenedBot {
        platform: "pigeon".into(),
        id: "7001".into(),
        shared,
        settings: serde_json::Map::new(),
        credentials: Credentials::default(),
    }
}

pub fn user(id: &str) -> Subject {
    Subject::User(id.into())
}

fn chat(id: &str) -> Subject {
    Subject::Chat(id.into())
}

/// A person writes to the bot alone.
pub fn direct(person: &str) -> Source {
    Source {
        platform: "pigeon".into(),
        chat_id: Some(person.into()),
        chat_type: "dm".to_owned(),
        user_id: Some(person.into()),
        user_name: Some(format!("Person {person}")),
        ..Source::default()
    }
}

/// A person addresses the bot in a group.
fn in_group(group: &str, person: &str) -> Source {
    Source {
        chat_id: Some(group.into()),
        chat_type: "group".to_owned(),
        chat_name: Some(format!("Group {group}")),
        ..direct(person)
    }
}

impl Fixture {
    async fn open(shared: bool, route: Discriminator) -> Fixture {
        let clock = Timepiece::wound(Moment::from_seconds(1_800_000_000));
        let bot = bot(shared);
        let server = TestServer::closed(&bot, route, &clock).await;
        Fixture { server, pigeon: Arc::default(), bot: Arc::new(bot), clock, told: Default::default() }
    }

    pub async fn owned() -> Fixture {
        Fixture::open(false, Discriminator::Any).await
    }

    pub fn on(&self) -> BotRef {
        self.bot.bot_ref()
    }

    pub fn arrival(&self, source: Source) -> Arrival {
        let number = self.told.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let event = Event { text: format!("m{number}"), source, ..Event::default() };
        Arrival { addressed: true, ..Arrival::new(event, format!("d{number}"), self.clock.now()) }
    }

    pub async fn takes(&self, reading: Reading) -> bool {
        let platform: Arc<dyn Platform> = self.pigeon.clone();
        let taken = self.server.intake().take(&platform, &self.bot, reading, None).await.unwrap();
        // Notices are sent in tasks of their own.
        let sent = async {
            while !self.server.relay.tasks().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), sent).await.expect("a notice is never sent");
        !taken.entries.is_empty()
    }

    /// Whether a message from there reaches the agent. Enough time goes by that a notice could be sent.
    pub async fn comes_through(&self, source: Source) -> bool {
        self.clock.wind(Duration::from_secs(2));
        self.comes_through_at_once(source).await
    }

    async fn comes_through_at_once(&self, source: Source) -> bool {
        self.takes(Reading { arrivals: vec![self.arrival(source)], ..Reading::default() }).await
    }

    /// The pairing codes that were sent to this chat.
    fn codes(&self, chat: &str) -> Vec<String> {
        let said = self.pigeon.said.lock().unwrap();
        let here = said.iter().filter(|(to, _)| to == chat);
        here.map(|(_, text)| {
            let after = text.split("runs it: ").nth(1).expect("a notice names a code");
            after.split('\n').next().unwrap().to_owned()
        })
        .collect()
    }

    pub async fn decides(&self, about: Subject, decision: Decision) {
        assert!(self.server.access().decide(&self.on(), &about, decision).await.unwrap());
    }
}

#[tokio::test]
async fn a_stranger_is_answered_once_with_a_pairing_code_and_reaches_nobody() {
    let fixture = Fixture::owned().await;
    for _ in 0..5 {
        assert!(!fixture.comes_through(direct("5")).await);
    }
    assert_eq!(fixture.codes("5").len(), 1, "answered once");
    assert!(fixture.server.texts().await.is_empty());
    assert!(
        !fixture
            .server
            .ledger
            .roster()
            .knows_chat(&fixture.server.agent, &fixture.on(), &"5".into())
            .await
            .unwrap()
    );
}

#[tokio::test]
async fn the_operator_admits_by_code_and_only_who_was_given_it() {
    let fixture = Fixture::owned().await;
    fixture.comes_through(direct("5")).await;
    fixture.comes_through(direct("6")).await;
    let code = fixture.codes("5").remove(0);
    let access = fixture.server.access();
    assert_eq!(access.decide_by_code(&fixture.on(), "AAAAAA", Decision::Allowed).await.unwrap(), None);
    let typed = format!(" {}-{}", code[..3].to_lowercase(), &code[3..]);
    let rule = access.decide_by_code(&fixture.on(), &typed, Decision::Allowed).await.unwrap().unwrap();
    assert_eq!((rule.subject, rule.name.as_deref()), (user("5"), Some("Person 5")));
    assert!(fixture.comes_through(direct("5")).await);
    assert!(!fixture.comes_through(direct("6")).await);
    assert_eq!(
        access.decide_by_code(&fixture.on(), &code, Decision::Allowed).await.unwrap(),
        None,
        "used up"
    );
}

#[tokio::test]
async fn groups_are_admitted_by_chat_and_people_for_their_own_conversation() {
    let fixture = Fixture::owned().await;
    fixture.decides(user("5"), Decision::Allowed).await;
    assert!(fixture.comes_through(direct("5")).await);
    assert!(!fixture.comes_through(in_group("-7", "5")).await, "an admitted person in an unknown group");
    assert_eq!(fixture.codes("-7").len(), 1, "the code is for the group");
    fixture.decides(chat("-7"), Decision::Allowed).await;
    assert!(fixture.comes_through(in_group("-7", "6")).await, "a stranger in an admitted group");
    assert!(!fixture.comes_through(direct("6")).await, "and alone with the bot");
    let thread =
        Source { chat_id: Some("t1".into()), parent_chat_id: Some("-7".into()), ..in_group("-7", "6") };
    assert!(fixture.comes_through(thread).await, "a thread of an admitted group");
}

#[tokio::test]
async fn what_is_not_addressed_in_an_unknown_group_and_posts_of_a_channel_are_not_answered() {
    let fixture = Fixture::owned().await;
    let mut chatter = fixture.arrival(in_group("-7", "5"));
    chatter.addressed = false;
    assert!(!fixture.takes(Reading { arrivals: vec![chatter], ..Reading::default() }).await);
    let channel = Source { chat_type: "channel".to_owned(), ..in_group("-9", "-9") };
    assert!(!fixture.comes_through(channel).await);
    assert!(fixture.codes("-7").is_empty() && fixture.codes("-9").is_empty());
    let pending = fixture.server.access().pairings(Some(&fixture.on())).await.unwrap();
    assert_eq!(pending.len(), 1, "the operator sees that the channel asks");
    assert_eq!(pending[0].subject, chat("-9"));
}

#[tokio::test]
async fn button_presses_pass_the_same_rule() {
    let fixture = Fixture::owned().await;
    let press = |fixture: &Fixture| {
        let mut arrival = fixture.arrival(direct("5"));
        arrival.capabilities.push(once("pigeon.press", "canary"));
        let interaction_acks = vec![InteractionAck(once("pigeon.press", "canary"))];
        Reading { arrivals: vec![arrival], interaction_acks, ..Reading::default() }
    };
    let key = session_key::plausible_of_interaction(&direct("5")).remove(0);
    for admitted in [false, true] {
        assert_eq!(fixture.takes(press(&fixture)).await, admitted);
        assert_eq!(*fixture.pigeon.acknowledged.lock().unwrap(), usize::from(admitted));
        let (tenant, kind) = ("ten_1".into(), "pigeon.press".into());
        let bound =
            fixture.server.vault.redeem(&tenant, &fixture.server.agent, &key, &kind, None).await.unwrap();
        assert_eq!(matches!(bound, Redemption::Granted(_)), admitted);
        fixture.decides(user("5"), Decision::Allowed).await;
    }
}

#[tokio::test]
async fn removal_and_denial_take_effect_at_once() {
    let fixture = Fixture::owned().await;
    fixture.decides(user("5"), Decision::Allowed).await;
    assert!(fixture.comes_through(direct("5")).await);
    assert!(fixture.server.access().forget(&fixture.on(), &user("5")).await.unwrap());
    assert!(!fixture.comes_through(direct("5")).await);
    assert_eq!(fixture.codes("5").len(), 1, "a stranger again");
    fixture.decides(user("5"), Decision::Denied).await;
    assert!(!fixture.comes_through(direct("5")).await);
    assert_eq!(fixture.codes("5").len(), 1, "whoever is denied is not answered");
    fixture.decides(chat("-7"), Decision::Allowed).await;
    assert!(!fixture.comes_through(in_group("-7", "5")).await, "nor let in by a group");
    assert!(fixture.comes_through(in_group("-7", "6")).await);
}

#[tokio::test]
async fn a_bot_that_is_declared_open_lets_everybody_in_but_the_denied() {
    let fixture = Fixture::owned().await;
    assert!(!fixture.comes_through(direct("5")).await);
    fixture.server.access().set_policy(&fixture.on(), PrincipalPolicy::Any).await.unwrap();
    fixture.decides(user("6"), Decision::Denied).await;
    assert!(fixture.comes_through(direct("5")).await);
    assert!(fixture.comes_through(in_group("-7", "5")).await);
    assert!(!fixture.comes_through(direct("6")).await);
    fixture.server.access().set_policy(&fixture.on(), PrincipalPolicy::AllowList).await.unwrap();
    assert!(!fixture.comes_through(direct("5")).await);
}

#[tokio::test]
async fn a_person_admitted_at_one_bot_is_a_stranger_at_another() {
    let fixture = Fixture::owned().await;
    let other = BotRef { bot: "7002".into(), ..fixture.on() };
    let record = ledger::Bot {
        platform: other.platform.clone(),
        id: other.bot.clone(),
        shared: false,
        principals: PrincipalPolicy::default(),
        settings: "{}".to_owned(),
        created: fixture.clock.now(),
    };
    fixture.server.ledger.roster().create_bot(record).await.unwrap();
    assert!(fixture.server.access().decide(&other, &user("5"), Decision::Allowed).await.unwrap());
    assert!(!fixture.comes_through(direct("5")).await);
    let code = fixture.codes("5").remove(0);
    let elsewhere = fixture.server.access().decide_by_code(&other, &code, Decision::Allowed).await.unwrap();
    assert_eq!(elsewhere, None, "a code is good at its own bot");
}

#[tokio::test]
async fn a_route_that_names_a_chat_is_itself_admission() {
    let fixture = Fixture::open(true, Discriminator::Chat("-7".into())).await;
    assert!(fixture.comes_through(in_group("-7", "5")).await);
    assert!(!fixture.comes_through(direct("5")).await);
    assert!(fixture.pigeon.said.lock().unwrap().is_empty(), "pairing is of no use where no route leads from");
    fixture.decides(user("5"), Decision::Denied).await;
    assert!(!fixture.comes_through(in_group("-7", "5")).await);
}

#[tokio::test]
async fn a_route_that_names_a_scope_is_admission_too_and_one_that_names_a_path_is_not() {
    let fixture = Fixture::open(true, Discriminator::Scope("guild".into())).await;
    let within = |scope: &str| Source { scope_id: Some(scope.into()), ..in_group("-7", "5") };
    assert!(fixture.comes_through(within("guild")).await);
    assert!(!fixture.comes_through(within("another")).await);
    assert!(fixture.pigeon.said.lock().unwrap().is_empty(), "pairing is of no use where no route leads from");

    let fixture = Fixture::open(true, Discriminator::Path("door".into())).await;
    let by_path = |fixture: &Fixture| {
        fixture.clock.wind(Duration::from_secs(2));
        let mut arrival = fixture.arrival(in_group("-7", "5"));
        arrival.path = Some("door".to_owned());
        Reading { arrivals: vec![arrival], ..Reading::default() }
    };
    assert!(!fixture.takes(by_path(&fixture)).await, "whoever knows the address may be anybody");
    assert_eq!(fixture.codes("-7").len(), 1);
    fixture.decides(chat("-7"), Decision::Allowed).await;
    assert!(fixture.takes(by_path(&fixture)).await);
}

#[tokio::test]
async fn an_admitted_group_that_moves_stays_admitted_under_its_new_id() {
    let fixture = Fixture::owned().await;
    fixture.decides(chat("-7"), Decision::Allowed).await;
    assert!(!fixture.comes_through(in_group("-1007", "5")).await, "remembered as unknown");
    let moved = vec![Moved { from: "-7".into(), to: "-1007".into() }];
    fixture.takes(Reading { moved, ..Reading::default() }).await;
    assert!(fixture.comes_through(in_group("-1007", "5")).await);
    assert!(!fixture.comes_through(in_group("-7", "5")).await, "the old id is nobody's");
}

#[tokio::test]
async fn a_code_lives_an_hour() {
    let fixture = Fixture::owned().await;
    fixture.comes_through(direct("5")).await;
    fixture.clock.wind(Duration::from_secs(3600));
    let first = fixture.codes("5").remove(0);
    let access = fixture.server.access();
    assert!(access.pairings(None).await.unwrap().is_empty());
    assert_eq!(access.decide_by_code(&fixture.on(), &first, Decision::Allowed).await.unwrap(), None);
    fixture.comes_through(direct("5")).await;
    assert_eq!(fixture.codes("5").len(), 2, "and then another is given");
    let second = fixture.codes("5").remove(1);
    assert!(access.decide_by_code(&fixture.on(), &second, Decision::Allowed).await.unwrap().is_some());
}

#[tokio::test]
async fn a_code_lives_an_hour_also_when_the_wall_clock_is_set_back() {
    let fixture = Fixture::owned().await;
    fixture.comes_through(direct("5")).await;
    let code = fixture.codes("5").remove(0);
    fixture.clock.wind(Duration::from_secs(3600));
    fixture.clock.set(Moment::from_seconds(1_700_000_000));
    let admitted =
        fixture.server.access().decide_by_code(&fixture.on(), &code, Decision::Allowed).await.unwrap();
    assert_eq!(admitted, None);
}

#[tokio::test]
async fn one_stranger_with_many_groups_takes_no_place_from_others() {
    let fixture = Fixture::owned().await;
    for group in 1..=120 {
        fixture.comes_through(in_group(&format!("-{group}"), "5")).await;
    }
    assert_eq!(fixture.server.access().pairings(None).await.unwrap().len(), 3);
    assert!(!fixture.comes_through(direct("6")).await);
    assert_eq!(fixture.codes("6").len(), 1, "somebody else is answered all the same");
}

#[tokio::test]
async fn channels_of_one_stranger_leave_places_for_people() {
    let fixture = Fixture::owned().await;
    for number in 1..=120 {
        let channel = format!("-{number}");
        let post = Source { chat_type: "channel".to_owned(), ..in_group(&channel, &channel) };
        fixture.comes_through(post).await;
    }
    assert_eq!(fixture.server.access().pairings(None).await.unwrap().len(), 10);
    assert!(!fixture.comes_through(direct("6")).await);
    assert_eq!(fixture.codes("6").len(), 1, "a person is answered all the same");
}

#[tokio::test]
async fn pending_codes_of_a_bot_are_bounded_and_none_is_pushed_out() {
    let fixture = Fixture::owned().await;
    for person in 1..=130 {
        fixture.comes_through(direct(&person.to_string())).await;
    }
    let pending = fixture.server.access().pairings(None).await.unwrap();
    assert_eq!(pending.len(), 100);
    assert!(pending.iter().any(|pairing| pairing.subject == user("1")), "the first keeps its place");
    assert_eq!(fixture.pigeon.said.lock().unwrap().len(), 100);
}

#[tokio::test]
async fn a_stranger_whose_code_could_not_be_sent_gets_one_later() {
    let fixture = Fixture::owned().await;
    *fixture.pigeon.refuses.lock().unwrap() = 1;
    assert!(!fixture.comes_through(direct("5")).await);
    let forgotten = async {
        while !fixture.server.access().pairings(None).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), forgotten).await.expect("the code is forgotten");
    fixture.clock.wind(Duration::from_secs(10));
    assert!(!fixture.comes_through(direct("5")).await);
    let code = fixture.codes("5").remove(0);
    let admitted =
        fixture.server.access().decide_by_code(&fixture.on(), &code, Decision::Allowed).await.unwrap();
    assert_eq!(admitted.map(|rule| rule.subject), Some(user("5")));
    assert!(fixture.comes_through(direct("5")).await);
}

#[tokio::test]
async fn a_bot_says_at_most_one_notice_a_second() {
    let fixture = Fixture::owned().await;
    for person in 1..=20 {
        fixture.comes_through_at_once(direct(&person.to_string())).await;
    }
    assert_eq!(fixture.pigeon.said.lock().unwrap().len(), 1);
    fixture.clock.wind(Duration::from_secs(1));
    fixture.comes_through_at_once(direct("20")).await;
    assert_eq!(fixture.codes("20").len(), 1, "whoever was passed over is answered at their next message");
}
