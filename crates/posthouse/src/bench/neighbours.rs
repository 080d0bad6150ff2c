//! Noisy neighbour: how much slower the messages of one tenant get while another tenant floods the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use futures_util::{SinkExt, StreamExt};
use posthouse_wire::{Secret, token};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message};

use super::RelayArgs;
use super::agents::{SdkAgents, everything_acknowledged, everything_received};
use super::fixtures::{BenchAgent, BenchFolder, PLATFORM, Plan, ServerFixture};
use super::load::Posters;
use super::post::passes;
use super::poster::{PLACE, Poster, WORDS};
use super::report::{Report, Spread, at_most};
use super::server::ServerProcess;
use super::stopwatch::wall_micros;
use super::tally::MessageTally;

/// Messages per second of the measured tenant, and the connections they come over.
const RATE: u32 = 200;
const POSTERS: u32 = 16;
const WINDOW: u16 = 64;
/// Connections of the flooding tenant's programs.
const PROGRAMS: u32 = 64;
/// Bytes of junk in one WebSocket message, and of text in one big answer.
const JUNK: usize = 64 * 1024;
const ANSWER: usize = 200 * 1024;
/// Big answers sent before the first result is awaited.
const UNANSWERED: usize = 8;
/// Warm-up, because the first message of a chat costs more than later ones.
const WARM_UP: Duration = Duration::from_secs(1);
/// Pause before a connection that was closed or refused is tried again.
const AGAIN: Duration = Duration::from_millis(50);

/// Kind of flood.
#[derive(Clone, Copy, Debug)]
enum Flood {
    Notify,
    Wakes,
    Junk,
    BigAnswers,
}

impl Flood {
    const ALL: [Self; 4] = [Self::Notify, Self::Junk, Self::BigAnswers, Self::Wakes];

    fn words(self) -> &'static str {
        match self {
            Self::Notify => "notify",
            Self::Wakes => "wakes",
            Self::Junk => "junk frames",
            Self::BigAnswers => "big answers",
        }
    }

    /// Name of the figure that counts the flood.
    fn done(self) -> &'static str {
        match self {
            Self::Notify => "the neighbour's notify calls",
            Self::Wakes => "the neighbour's wake calls",
            Self::Junk => "the neighbour's messages of 64 KiB junk",
            Self::BigAnswers => "the neighbour's answers of 200 KiB",
        }
    }
}

/// The tenant that floods, and its target.
struct Neighbour {
    address: String,
    name: String,
    gateway: posthouse_wire::GatewayId,
    secret: Secret,
    bot: posthouse_wire::BotId,
    pass: Secret,
    /// Calls answered, junk messages accepted, big answers with a result.
    done: AtomicU64,
}

pub async fn measure(
    bench_folder: &BenchFolder,
    args: &RelayArgs,
    report: &mut Report,
) -> anyhow::Result<()> {
    let plan = Plan { loaded: 2, chats: 2 * POSTERS, shared: false, idle: 0 };
    let fixture = ServerFixture::prepare(bench_folder, plan).await?;
    let pass = passes(&fixture).await?.pop().context("there is no token for the second tenant")?;
    let server = ServerProcess::start(&fixture.folder, &[]).await?;
    let span = Duration::from_secs(args.seconds);
    let seconds = (args.seconds as usize + 1) * (Flood::ALL.len() + 1);
    let tally = Arc::new(MessageTally::new(RATE as usize * seconds, 2 * POSTERS as usize));
    let agents = SdkAgents::dial(&server, &fixture.loaded, WINDOW, &tally).await?;
    let mut posters = Vec::new();
    // Every second poster writes to the first agent.
    for at in (0..2 * POSTERS).step_by(2) {
        posters.push(Poster::connect(&server, &fixture, at).await?);
    }
    let mut posters = Posters::of(posters);
    posters.open_loop(RATE, WARM_UP, &tally).await?;
    everything_acknowledged(&server, &tally).await?;

    let quiet = took(&server, &mut posters, span, &tally).await?;
    report.figure("noisy", "post until the agent has it, quiet, p50", quiet.percentile(50.0), "ms");
    report.figure("noisy", "post until the agent has it, quiet, p95", quiet.percentile(95.0), "ms");
    let neighbour = Arc::new(Neighbour::of(&server, &fixture.loaded[1], pass)?);
    for flood in Flood::ALL {
        let mut flooding = neighbour.start(flood);
        let noisy = took(&server, &mut posters, span, &tally).await?;
        flooding.shutdown().await;
        let done = neighbour.done.swap(0, Ordering::Relaxed);
        ensure!(done > 0, "the flood by {} did not reach the server", flood.words());
        report.figure("noisy", flood.done(), done as f64 / span.as_secs_f64(), "/s");
        for percent in [50.0, 95.0] {
            let ratio = noisy.percentile(percent) / quiet.percentile(percent);
            let name = format!("another tenant floods by {}, p{percent} against quiet", flood.words());
            report.judged("noisy", name, ratio, "x", at_most(3.0).goal(1.5));
        }
    }
    agents.leave().await;
    server.stop().await?;
    tally.check()
}

/// Latencies of the measured tenant's messages, from the post until the agent has them.
async fn took(
    server: &ServerProcess,
    posters: &mut Posters,
    span: Duration,
    tally: &Arc<MessageTally>,
) -> anyhow::Result<Spread> {
    let before = tally.count_answered();
    posters.redial(server).await?;
    posters.open_loop(RATE, span, tally).await?;
    // The tally counts this tenant's messages only, not the neighbour's.
    everything_received(tally).await?;
    Ok(Spread::of(tally.whole_way(before)))
}

impl Neighbour {
    fn of(server: &ServerProcess, agent: &BenchAgent, pass: Secret) -> anyhow::Result<Self> {
        Ok(Self {
            address: server.address()?.to_owned(),
            name: agent.name.clone(),
            gateway: agent.gateway.clone(),
            secret: agent.secret.clone(),
            bot: agent.bot.clone(),
            pass,
            done: AtomicU64::new(0),
        })
    }

    /// Floods until it is stopped.
    fn start(self: &Arc<Self>, flood: Flood) -> JoinSet<()> {
        let mut flooding = JoinSet::new();
        let connections = match flood {
            Flood::Notify | Flood::Wakes => PROGRAMS,
            Flood::Junk | Flood::BigAnswers => 1,
        };
        for _ in 0..connections {
            let neighbour = Arc::clone(self);
            flooding.spawn(async move {
                loop {
                    // Whatever the server does to stop it, the flood starts again.
                    let _ = neighbour.flood(flood).await;
                    tokio::time::sleep(AGAIN).await;
                }
            });
        }
        flooding
    }

    async fn flood(&self, flood: Flood) -> anyhow::Result<()> {
        match flood {
            Flood::Notify => {
                self.call(
                    "notify",
                    &format!("\"message\":\"{WORDS}\",\"from\":\"program\",\"correlation_id\":\"{PLACE}\""),
                )
                .await
            }
            Flood::Wakes => self.call("wake", "\"wait\":0").await,
            Flood::Junk => self.send_junk().await,
            Flood::BigAnswers => self.send_big_answers().await,
        }
    }

    /// Calls as fast as answers come, whatever they are.
    async fn call(&self, verb: &str, fields: &str) -> anyhow::Result<()> {
        let body = format!("{{\"agent\":\"{}\",{fields}}}", self.name);
        let request = format!(
            "POST /v1/{verb} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Authorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            self.pass.expose(),
            body.len()
        );
        let mut poster = Poster::open(&self.address, request).await?;
        for number in 0.. {
            poster.post(number).await?;
            self.done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn send_junk(&self) -> anyhow::Result<()> {
        let mut socket = self.dial().await?;
        let line = "{\"type\":\"no such frame\",\"of\":[1,2,3]}\n";
        let junk = Message::text(line.repeat(JUNK / line.len()));
        loop {
            socket.send(junk.clone()).await?;
            self.done.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sends big answers to the conversation in which a program wrote, a few at the same time.
    async fn send_big_answers(&self) -> anyhow::Result<()> {
        let mut socket = self.dial().await?;
        let content = WORDS.repeat(ANSWER / WORDS.len());
        let mut unanswered = 0;
        for number in 0_u64.. {
            let action = json!({ "op": "send", "chat_id": "post-program", "content": content });
            let frame = json!({
                "type": "outbound", "requestId": format!("{}-{number}", wall_micros()), "action": action,
                "platform": "post",
            });
            socket.send(Message::text(format!("{frame}\n"))).await?;
            unanswered += 1;
            while unanswered >= UNANSWERED {
                let message = socket.next().await.context("the server closed the socket")??;
                let results = message.to_text().map_or(0, |text| text.matches("outbound_result").count());
                unanswered -= results.min(unanswered);
                self.done.fetch_add(results as u64, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// A live socket of the neighbour's agent.
    async fn dial(&self) -> anyhow::Result<tokio_tungstenite::WebSocketStream<TcpStream>> {
        let token = token::mint(&self.gateway, &self.secret, 300, wall_micros() / 1_000_000);
        let mut request = format!("ws://{}/relay", self.address).into_client_request()?;
        request.headers_mut().insert("authorization", format!("Bearer {token}").parse()?);
        let stream = TcpStream::connect(&self.address).await?;
        let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await?;
        let hello = json!({ "type": "hello", "platform": PLATFORM, "botId": self.bot.as_str() });
        socket.send(Message::text(format!("{hello}\n"))).await?;
        match socket.next().await.context("the server closed the socket")?? {
            tungstenite::Message::Text(_) => Ok(socket),
            other => anyhow::bail!("a hello was answered with {other:?}"),
        }
    }
}
