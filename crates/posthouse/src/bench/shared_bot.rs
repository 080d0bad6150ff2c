//! Shared-bot load of `posthouse bench relay`: a thousand tenants on one bot, the latency of their messages, and its
//! growth while one of them floods.
//!
//! Each tenant has one connected agent, and one person who is linked to it and writes once a second. Rounds without and
//! with a flood take turns on one server, so that a change of the machine's speed affects both. The figures are medians
//! over the rounds, so that a short disturbance of the machine affects none.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use identity::LimitValues;
use posthouse_wire::Secret;
use stand_ins::telegram::{Settings, StandInBot, TelegramStandIn};

use super::RelayArgs;
use super::agents::{SdkAgents, everything_received};
use super::fixtures::{BOT_NAME, BenchFolder, BotApi, SHARED_BOT, ServerFixture, busy_chat};
use super::load::Posters;
use super::poster::Poster;
use super::report::{Report, Spread, at_most};
use super::server::ServerProcess;
use super::stopwatch::Stopwatch;
use super::tally::MessageTally;

pub const TENANTS: u32 = 1_000;
/// Messages per second of all tenants but the last, which floods.
pub const RATE: u32 = TENANTS - 1;
/// Rounds of each kind.
pub const ROUNDS: u32 = 5;
/// How many times its quota a tenant floods with.
const TIMES: u32 = 10;
/// Connections of the platform, as many as Telegram opens at most.
const CONNECTIONS: u32 = 100;
/// Of the platform for the messages of the flood.
const FLOOD_CONNECTIONS: u32 = 32;
const WINDOW: u16 = 32;
/// Every person writes at least once, because the first message of a chat costs more than later ones.
const WARM_UP: Duration = Duration::from_secs(2);
/// Limit for the messages that use up what the flooded agent may get at once.
const USED_UP_WITHIN: Duration = Duration::from_secs(120);
/// Far from the numbers of the measured messages.
const FIRST_OF_FLOOD: u64 = 2_000_000_000;
const FIRST_TO_USE_UP: u64 = 1_500_000_000;

/// Messages per second of each flood: ten times the quota of an agent, and ten times the quota of a tenant.
fn floods(limits: &LimitValues) -> [u32; 2] {
    [limits.agent_messages_per_minute, limits.messages_per_minute].map(|quota| quota * TIMES / 60)
}

/// A server with a connected agent of every tenant, and the platform's connections to it.
struct SharedBot {
    floods: [u32; 2],
    server: ServerProcess,
    posters: Posters,
    tally: Arc<MessageTally>,
    flood_posters: Posters,
    flood_tally: Arc<MessageTally>,
}

pub async fn measure(
    bench_folder: &BenchFolder,
    args: &RelayArgs,
    report: &mut Report,
) -> anyhow::Result<()> {
    let token = format!("{SHARED_BOT}:bench");
    let bots = vec![StandInBot::new(&token, BOT_NAME).map_err(anyhow::Error::msg)?];
    let telegram =
        TelegramStandIn::start(Settings { bots, accept_unknown_chats: true, ..Settings::default() }).await?;
    let api = BotApi { base_url: telegram.base_url(), token: Secret::new(token) };
    let fixture = ServerFixture::prepare_linked(bench_folder, TENANTS, &api).await?;
    let limits = LimitValues::default();
    let floods = floods(&limits);
    let server = ServerProcess::start(
        &fixture.folder,
        &[
            ("POSTHOUSE_LIMITS__MESSAGES_PER_MINUTE", limits.messages_per_minute.to_string()),
            ("POSTHOUSE_LIMITS__AGENT_MESSAGES_PER_MINUTE", limits.agent_messages_per_minute.to_string()),
        ],
    )
    .await?;

    let (seconds, warm_up) = (args.seconds as usize * ROUNDS as usize, WARM_UP.as_secs() as usize);
    let measured = RATE as usize * (seconds * (1 + floods.len()) + warm_up);
    let flooding = floods.iter().map(|rate| *rate as usize * seconds).sum();
    let tally = Arc::new(MessageTally::new(measured, TENANTS as usize));
    let flood_tally = Arc::new(MessageTally::numbered_from(FIRST_OF_FLOOD, flooding, TENANTS as usize));
    let (flooded, others) = fixture.loaded.split_last().context("there are no agents")?;
    let agents = SdkAgents::dial(&server, others, WINDOW, &tally).await?;
    let flooded = SdkAgents::dial(&server, std::slice::from_ref(flooded), WINDOW, &flood_tally).await?;

    let (posters, flood_posters) = connect(&server, &fixture).await?;
    let mut bot = SharedBot { floods, server, posters, tally, flood_posters, flood_tally };
    bot.load(WARM_UP, None).await?;
    bot.use_up_quota(limits.agent_messages_per_minute).await?;
    bot.alternate(Duration::from_secs(args.seconds), report).await?;
    agents.leave().await;
    flooded.leave().await;
    bot.server.stop().await?;
    telegram.stop().await;
    bot.tally.check()
}

/// Each person always writes over the same connection, which keeps the order of their messages.
async fn connect(server: &ServerProcess, fixture: &ServerFixture) -> anyhow::Result<(Posters, Posters)> {
    let (mut posters, mut flood_posters) = (Vec::new(), Vec::new());
    for first in 0..CONNECTIONS {
        let chats = (first..TENANTS - 1).step_by(CONNECTIONS as usize).map(busy_chat).collect();
        posters.push(Poster::for_chats(server, fixture, chats).await?);
    }
    for _ in 0..FLOOD_CONNECTIONS {
        flood_posters.push(Poster::for_chats(server, fixture, vec![busy_chat(TENANTS - 1)]).await?);
    }
    Ok((Posters::of(posters), Posters::of(flood_posters)))
}

impl SharedBot {
    /// Rounds without a flood and with each flood, in turn.
    async fn alternate(&mut self, span: Duration, report: &mut Report) -> anyhow::Result<()> {
        let kinds = 1 + self.floods.len();
        let mut rounds: Vec<Vec<Spread>> = (0..kinds).map(|_| Vec::new()).collect();
        let mut cpu = vec![Duration::ZERO; kinds];
        let mut posted = vec![FloodPosted::default(); kinds];
        for round in 0..ROUNDS as usize {
            // The order changes from round to round, so that no kind always comes first.
            for kind in (0..kinds).map(|kind| (kind + round) % kinds) {
                let before = self.server.cpu()?;
                let flood = kind.checked_sub(1).map(|flood| self.floods[flood]);
                let (others, flooded) = self.load(span, flood).await?;
                rounds[kind].push(others);
                posted[kind].add(flooded);
                cpu[kind] += self.server.cpu()?.saturating_sub(before);
            }
        }
        let (quiet, flooded) = rounds.split_first().context("there was no round")?;
        let micros = |cpu: Duration, rate: u32| {
            cpu.as_secs_f64() * 1e6 / (f64::from(rate) * span.as_secs_f64() * f64::from(ROUNDS))
        };
        for percent in [50.0, 99.0] {
            let name = format!("webhook until the agent has it, p{percent}");
            report.figure("shared", name, median(quiet, percent), "ms");
        }
        report.figure("shared", "server CPU", micros(cpu[0], RATE), "us/msg");
        for (at, (rate, flooded)) in self.floods.into_iter().zip(flooded).enumerate() {
            let (with_flood, posted) = (cpu[at + 1], posted[at + 1]);
            let name = format!("one tenant floods with {rate}/s: reached");
            report.figure("shared", name, posted.per_second(), "/s");
            let name = format!("one tenant floods with {rate}/s: server CPU of the flood");
            let of_flood = with_flood.saturating_sub(cpu[0]).as_secs_f64() * 1e6 / posted.messages as f64;
            report.figure("shared", name, of_flood, "us/msg");
            for percent in [50.0, 99.0] {
                let name = format!("one tenant floods with {rate}/s: the others' p{percent}");
                report.figure("shared", name, median(flooded, percent), "ms");
            }
            let ratio = median(flooded, 99.0) / median(quiet, 99.0);
            let name = format!("one tenant floods with {rate}/s: the others' p99 against quiet");
            report.judged("shared", name, ratio, "x", at_most(1.5).goal(1.1));
        }
        let all = self.flood_tally.count_answered() as f64;
        let delivered = self.flood_tally.count_received() as f64;
        report.figure("shared", "messages of the floods that were delivered", delivered / all * 100.0, "%");
        Ok(())
    }

    /// Posts messages to the flooded agent until it has got as many as it may get at once. From then on it gets what its
    /// quota refills.
    async fn use_up_quota(&mut self, at_once: u32) -> anyhow::Result<()> {
        // The quota refills while they are posted.
        let enough = 2 * at_once as usize;
        let tally = Arc::new(MessageTally::numbered_from(FIRST_TO_USE_UP, enough, 0));
        self.flood_posters.closed_loop(USED_UP_WITHIN, &tally).await?;
        ensure!(tally.count_answered() == enough as u64, "the quota of the flooded agent was not used up");
        Ok(())
    }

    /// Latencies of the other tenants' messages, from the time each was due until its agent had it, and the messages of
    /// the flood.
    async fn load(&mut self, span: Duration, flood: Option<u32>) -> anyhow::Result<(Spread, FloodPosted)> {
        self.posters.redial(&self.server).await?;
        self.flood_posters.redial(&self.server).await?;
        let before = self.tally.count_answered();
        let flooding = async {
            let Some(rate) = flood else { return Ok(FloodPosted::default()) };
            let watch = Stopwatch::start();
            let posted = self.flood_posters.open_loop(rate, span, &self.flood_tally).await?;
            anyhow::Ok(FloodPosted { messages: posted.len(), took: watch.elapsed() })
        };
        let (_, posted) = tokio::try_join!(self.posters.open_loop(RATE, span, &self.tally), flooding)?;
        everything_received(&self.tally).await?;
        Ok((Spread::of(self.tally.whole_way(before)), posted))
    }
}

/// Messages of floods, and the time in which they were posted. A machine that is too slow reaches a lower rate.
#[derive(Clone, Copy, Default)]
struct FloodPosted {
    messages: usize,
    took: Duration,
}

impl FloodPosted {
    fn add(&mut self, more: Self) {
        self.messages += more.messages;
        self.took += more.took;
    }

    fn per_second(&self) -> f64 {
        self.messages as f64 / self.took.as_secs_f64()
    }
}

/// The median over the rounds of their percentiles, in milliseconds.
fn median(rounds: &[Spread], percent: f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(|round| round.percentile(percent)).collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
