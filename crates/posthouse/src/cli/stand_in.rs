//! `posthouse stand-in`: chat platforms played on loopback.

use std::net::SocketAddr;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::json;
use stand_ins::{
    discord::{self, DiscordBot, DiscordLimits, DiscordStandIn},
    feishu::{self, FeishuApp, FeishuLimits, FeishuStandIn},
    harness::{HarnessSettings, StandIn, StandInPlatform},
    matrix::{self, MatrixAccount, MatrixLimits, MatrixStandIn},
    slack::{self, SlackApp, SlackLimits, SlackStandIn},
    telegram::{self, StandInBot},
    twilio::{self, TwilioAccount, TwilioStandIn},
    webhook::WebhookStandIn,
    wecom::{self, WeComApp, WeComBot, WeComStandIn},
    whatsapp::{self, WhatsAppLimits, WhatsAppNumber, WhatsAppStandIn},
};

use super::output::Output;
use crate::wiring::termination;

#[derive(Subcommand)]
pub enum Command {
    /// Plays the Telegram Bot API until interrupted; the first line printed is its base URL
    #[command(
        after_help = "The URLs below /_stand-in/ control people and faults, and show the transcript.\n\nExample:\n  \
        posthouse stand-in telegram --bot 7001:secret@posty_bot"
    )]
    Telegram {
        #[command(flatten)]
        listener: ListenArgs,
        /// Token of a bot that it knows; can be repeated
        #[arg(long = "bot", value_name = "ID:SECRET[@USERNAME]")]
        bots: Vec<StandInBot>,
    },
    /// Plays Discord (HTTP API, gateway, interactions) until interrupted; the first line printed is its base URL
    #[command(
        after_help = "The API is under /api/v10. The URLs below /_stand-in/ control people, servers, sockets and \
        faults, and show the transcript.\n\nExample:\n  posthouse stand-in discord --bot 7001:secret@posty"
    )]
    Discord {
        #[command(flatten)]
        listener: ListenArgs,
        /// Application id and bot token; can be repeated
        #[arg(long = "bot", value_name = "ID:TOKEN[@USERNAME]")]
        bots: Vec<DiscordBot>,
        /// Enforces rate limits as Discord does
        #[arg(long)]
        limits: bool,
    },
    /// Plays a Matrix homeserver until interrupted; the first line printed is its base URL
    #[command(
        after_help = "The URLs below /_stand-in/ control people, the URLs of application services and faults, and show \
        the transcript.\n\nExample:\n  posthouse stand-in matrix --account @posty:hs.test=as-token=hs-token"
    )]
    Matrix {
        #[command(flatten)]
        listener: ListenArgs,
        /// User with a token, and with an hs_token if it is an application service; can be repeated
        #[arg(long = "account", value_name = "USER=TOKEN[=HS_TOKEN]")]
        accounts: Vec<MatrixAccount>,
        /// Enforces rate limits as a homeserver does
        #[arg(long)]
        limits: bool,
    },
    /// Plays Slack (Web API, events, Socket Mode) until interrupted; the first line printed is its base URL
    #[command(
        after_help = "The Web API is under /api. The URLs below /_stand-in/ control people, URLs, sockets and faults, \
        and show the transcript.\n\nExample:\n  posthouse stand-in slack --app A1:xoxb-made-up:xapp-made-up:secret@posty"
    )]
    Slack {
        #[command(flatten)]
        listener: ListenArgs,
        /// App id, bot token, app-level token and signing secret; can be repeated
        #[arg(long = "app", value_name = "ID:BOT_TOKEN:APP_TOKEN:SECRET[@NAME]")]
        apps: Vec<SlackApp>,
        /// Enforces rate limits as Slack does
        #[arg(long)]
        limits: bool,
    },
    /// Plays Feishu and Lark (events, Open API) until interrupted; the first line printed is its base URL
    #[command(after_help = "The URLs below /_stand-in/ control people, connections and faults, and show \
        the transcript.\n\nExample:\n  posthouse stand-in feishu --app cli_a1:secret:encrypt-key:token@posty")]
    Feishu {
        #[command(flatten)]
        listener: ListenArgs,
        /// App id, app secret, encrypt key and verification token; can be repeated
        #[arg(long = "app", value_name = "ID:SECRET:ENCRYPT_KEY:TOKEN[@NAME]")]
        apps: Vec<FeishuApp>,
        /// Enforces rate limits as Feishu does
        #[arg(long)]
        limits: bool,
    },
    /// Plays the WhatsApp Cloud API until interrupted; the first line printed is its base URL
    #[command(
        name = "whatsapp",
        after_help = "The URLs below /_stand-in/ control people, the webhook and faults, and show the transcript.\n\n\
        Example:\n  posthouse stand-in whatsapp --number 106:token:app-secret:verify-token"
    )]
    WhatsApp {
        #[command(flatten)]
        listener: ListenArgs,
        /// Phone number id with its credentials; can be repeated
        #[arg(long = "number", value_name = "ID:TOKEN:APP_SECRET:VERIFY_TOKEN")]
        numbers: Vec<WhatsAppNumber>,
        /// Enforces rate limits as WhatsApp does
        #[arg(long)]
        limits: bool,
    },
    /// Plays the messaging API of Twilio until interrupted; the first line printed is its base URL
    #[command(
        after_help = "The URLs below /_stand-in/ control people, the webhook and faults, and show the transcript.\n\n\
        Example:\n  posthouse stand-in twilio --account AC1:token:+15550100"
    )]
    Twilio {
        #[command(flatten)]
        listener: ListenArgs,
        /// Account with its auth token and number; can be repeated
        #[arg(long = "account", value_name = "SID:TOKEN:+NUMBER")]
        accounts: Vec<TwilioAccount>,
    },
    /// Plays WeCom (applications and AI bots) until interrupted; the first line printed is its base URL
    #[command(
        name = "wecom",
        after_help = "Long connections are at /ws. The URLs below /_stand-in/ control people, callbacks, connections \
        and faults, and show the transcript. An AES key has 43 letters and digits.\n\nExample:\n  \
        posthouse stand-in wecom --app ww1:1000002:secret:token:AES_KEY --ai-bot AIB:secret:token:AES_KEY"
    )]
    WeCom {
        #[command(flatten)]
        listener: ListenArgs,
        /// Application with its credentials; can be repeated
        #[arg(long = "app", value_name = "CORP_ID:AGENT_ID:SECRET:TOKEN:AES_KEY")]
        apps: Vec<WeComApp>,
        /// AI bot with its credentials; can be repeated
        #[arg(long = "ai-bot", value_name = "BOT_ID:SECRET:TOKEN:AES_KEY")]
        bots: Vec<WeComBot>,
    },
    /// Sends signed webhooks until interrupted; the first line printed is its base URL
    #[command(
        after_help = "POST /_stand-in/inject sends an event with a signature of Standard Webhooks, GitHub, GitLab or \
        Stripe, or with a bearer token.\n\nExample:\n  posthouse stand-in webhook --listen 127.0.0.1:8083"
    )]
    Webhook {
        #[command(flatten)]
        listener: ListenArgs,
    },
}

/// Where a stand-in listens.
#[derive(Args)]
pub struct ListenArgs {
    /// Loopback address to listen on; port 0 chooses a free port
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
}

impl ListenArgs {
    fn harness(&self) -> HarnessSettings {
        HarnessSettings { listen: self.listen, ..HarnessSettings::default() }
    }

    fn problem(&self) -> String {
        format!("cannot listen on {}", self.listen)
    }
}

impl Command {
    pub async fn act(self, output: &Output) -> anyhow::Result<()> {
        match self {
            Command::Telegram { listener, bots } => {
                let settings = telegram::Settings { bots, ..telegram::Settings::default() };
                let telegram =
                    telegram::serve(listener.listen, settings).await.with_context(|| listener.problem())?;
                print_url(output, &telegram.base_url())?;
                termination().await?;
                telegram.stop().await;
                Ok(())
            }
            Command::Discord { listener, bots, limits } => {
                let harness = listener.harness();
                let limits = limits.then(DiscordLimits::default);
                let settings = discord::Settings { harness, bots, limits, ..discord::Settings::default() };
                run(output, DiscordStandIn::start(settings).await.with_context(|| listener.problem())?).await
            }
            Command::Matrix { listener, accounts, limits } => {
                let limits = limits.then(MatrixLimits::default);
                let settings = matrix::Settings { harness: listener.harness(), accounts, limits };
                run(output, MatrixStandIn::start(settings).await.with_context(|| listener.problem())?).await
            }
            Command::Slack { listener, apps, limits } => {
                let harness = listener.harness();
                let limits = limits.then(SlackLimits::default);
                let settings = slack::Settings { harness, apps, limits, ..slack::Settings::default() };
                run(output, SlackStandIn::start(settings).await.with_context(|| listener.problem())?).await
            }
            Command::Feishu { listener, apps, limits } => {
                let harness = listener.harness();
                let limits = limits.then(FeishuLimits::default);
                let settings = feishu::Settings { harness, apps, limits, ..feishu::Settings::default() };
                run(output, FeishuStandIn::start(settings).await.with_context(|| listener.problem())?).await
            }
            Command::WhatsApp { listener, numbers, limits } => {
                let limits = limits.then(WhatsAppLimits::default);
                let settings = whatsapp::Settings { harness: listener.harness(), numbers, limits };
                run(output, WhatsAppStandIn::start(settings).await.with_context(|| listener.problem())?).await
            }
            Command::Twilio { listener, accounts } => {
                let harness = listener.harness();
                let settings = twilio::Settings { harness, accounts, ..twilio::Settings::default() };
                run(output, TwilioStandIn::start(settings).await.with_context(|| listener.problem())?).await
            }
            Command::WeCom { listener, apps, bots } => {
                let harness = listener.harness();
                let settings = wecom::Settings { harness, apps, bots, ..wecom::Settings::default() };
                run(output, WeComStandIn::start(settings).await.with_context(|| listener.problem())?).await
            }
            Command::Webhook { listener } => {
                let started = WebhookStandIn::start(listener.harness()).await;
                run(output, started.with_context(|| listener.problem())?).await
            }
        }
    }
}

async fn run<P: StandInPlatform>(output: &Output, stand_in: StandIn<P>) -> anyhow::Result<()> {
    print_url(output, &stand_in.base_url())?;
    termination().await?;
    stand_in.stop().await;
    Ok(())
}

/// One line in both formats, so that the parent process can wait for it.
fn print_url(output: &Output, url: &str) -> anyhow::Result<()> {
    output.text(&if output.json { format!("{}\n", json!({ "url": url })) } else { format!("{url}\n") })
}
