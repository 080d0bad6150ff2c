//! `posthouse skillfile execute`: runs a skill over the home folder, without tool connectors and models.

use clap::{Args, ValueEnum};
use skill::TraceMode;
use skill::check::render_plain;
use workshop::run_envelope;

use super::failure;
use crate::cli::output::Output;
use crate::cli::skill::compile::{FormatArg, InputArgs};
use crate::cli::skill::lint;
use crate::cli::skill::run::unless_interrupted;
use crate::cli::skill::run_result::{self, PrintedText};
use crate::cli::skill_home::{ConnectorSource, LocalEnd, LocalHost, LocalOrder, SkillHome};

/// The share of runs that `sample` records, in percent.
const SAMPLE: u8 = 10;

#[derive(Args)]
pub struct ExecuteArgs {
    /// A file, or a skill of the home folder
    skill: String,
    #[command(flatten)]
    inputs: InputArgs,
    /// Accepted as the reference does; it does not change what is printed
    #[arg(long, value_enum, value_name = "FORM", default_value = "prompt")]
    format: FormatArg,
    /// Only show what the skill would do
    #[arg(long)]
    mechanical: bool,
    /// Which runs are recorded in the folder traces of the home
    #[arg(long, value_enum, value_name = "MODE", default_value = "off")]
    trace: TraceArg,
}

#[derive(Clone, Copy, ValueEnum)]
enum TraceArg {
    On,
    Off,
    Sample,
}

impl ExecuteArgs {
    pub async fn act(self, output: &Output, home: &SkillHome) -> anyhow::Result<()> {
        unless_interrupted(self.run(output, home)).await
    }

    async fn run(self, output: &Output, home: &SkillHome) -> anyhow::Result<()> {
        let text = home.read(&self.skill, 1)?;
        let host = LocalHost::open(home, ConnectorSource::Nowhere).await?;
        let order = LocalOrder {
            inputs: self.inputs.values(),
            is_mechanical: self.mechanical,
            // A file that is not stored runs without effects in secured mode, as in the reference.
            gates_files: false,
            trace: match self.trace {
                TraceArg::On => TraceMode::On,
                TraceArg::Off => TraceMode::Off,
                TraceArg::Sample => TraceMode::Sample(SAMPLE),
            },
        };
        match host.run(&text, &order).await {
            LocalEnd::Refused(refusal) => Err(failure(refusal.message)),
            LocalEnd::LintErrors(findings) => {
                eprintln!("{}", render_plain(&findings));
                Err(lint::failed(&text.label, findings.len()))
            }
            LocalEnd::Ended { tree, outcome, trace } => {
                // A run whose record cannot be stored has still happened.
                if let Some(Err(error)) = trace.map(|trace| home.traces().write(&trace)) {
                    eprintln!("posthouse: {error:#}");
                }
                let text_kind = match tree.template {
                    Some(_) => PrintedText::TextOutput,
                    None => PrintedText::Transcript,
                };
                let envelope = run_envelope(&outcome, &tree, order.is_mechanical);
                run_result::print(output, &text.label, &envelope, text_kind)
            }
        }
    }
}
