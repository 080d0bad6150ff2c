//! The `shell` operation.

use std::sync::Arc;

use super::secrets::{Masks, Unmasked};
use super::time_limits::AllowedTime;
use super::{BoundVariable, Executor};
use crate::run::host::CommandRequest;
use crate::run::limits::too_large;
use crate::run::run_error::{CutOperation, ErrorClass, RunError};
use crate::run::utf16::utf16_preview;
use crate::run::value::SkillValue;
use crate::syntax::blanks::is_blank;
use crate::syntax::tree::{ShellCommand, ShellOp, TextTemplate};

impl<'r> Executor<'r> {
    pub(super) async fn shell(&mut self, op: &'r ShellOp) -> Result<BoundVariable<'r>, RunError> {
        // References are resolved first, because a fallback does not replace an error in them.
        let (shown, form, label) = match &op.command {
            ShellCommand::Words(command) => (self.scope().text(command)?, "", "shell"),
            ShellCommand::Unsafe(command) => (self.scope().text(command)?, "", "unsafe shell"),
            ShellCommand::Argv(arguments) => (self.joined(arguments)?, "argv ", "shell argv"),
        };
        let allowed = self.allowed_time(None)?;
        if self.context.is_mechanical {
            self.emit(Arc::new(format!("Would run {label}: {shown} (mechanical: true preview).")))?;
            let value = format!("[mechanical: would run {form}{}]", utf16_preview(&shown, 40));
            return self.bind(&op.binding, value.into());
        }
        let mut unmasked = Unmasked::default();
        let fallback = op.binding.fallback.as_deref().map(SkillValue::from);
        match (self.run_command(op, &shown, &allowed, &mut unmasked).await, fallback) {
            (Ok(output), Some(value)) if output.is_blank() => self.bind_fallback(
                &op.binding,
                "shell",
                value,
                format!("{} produced empty stdout", named(form)),
            ),
            (Ok(output), _) => self.bind(&op.binding, output),
            (Err(mut error), _) if error.ends_run() => {
                let cut = CutOperation { op_kind: "shell", label: "shell".to_owned(), is_uncertain: true };
                error.cut.get_or_insert_with(|| Box::new(cut));
                Err(error)
            }
            (Err(error), Some(value)) => {
                let reason = unmasked.redacted(format!("{} failed: {}", named(form), error.message));
                self.bind_fallback(&op.binding, "shell", value, reason)
            }
            (Err(error), None) => Err(unmasked.redact(error)),
        }
    }

    fn joined(&self, arguments: &[TextTemplate]) -> Result<Arc<String>, RunError> {
        let scope = self.scope();
        let mut joined = String::new();
        for (index, argument) in arguments.iter().enumerate() {
            if index > 0 {
                joined.push(' ');
            }
            joined.push_str(&scope.text(argument)?);
            scope.bounded(joined.len())?;
        }
        Ok(Arc::new(joined))
    }

    async fn run_command(
        &self,
        op: &ShellOp,
        shown: &str,
        allowed: &AllowedTime,
        unmasked: &mut Unmasked,
    ) -> Result<SkillValue, RunError> {
        let mut masks = Masks::default();
        let words = match &op.command {
            ShellCommand::Words(command) => {
                self.check_declared([command])?;
                split_words(&self.masked(command, &mut masks)?)
            }
            ShellCommand::Unsafe(command) => {
                self.check_declared([command])?;
                let command = self.masked(command, &mut masks)?;
                if !self.context.policy.allows_unsafe_shell {
                    return Err(unsafe_disabled(shown));
                }
                vec!["bash".to_owned(), "-c".to_owned(), command.to_string()]
            }
            ShellCommand::Argv(arguments) => {
                self.check_declared(arguments)?;
                let words = arguments
                    .iter()
                    .map(|argument| self.masked(argument, &mut masks).map(|word| word.to_string()));
                words.collect::<Result<_, _>>()?
            }
        };
        let Some(program) = words.first() else {
            return Err(
                RunError::op_error("the command is empty").with_remedy("Write `shell(command=\"…\")`")
            );
        };
        self.check_program(program)?;
        *unmasked = self.unmask(&masks).await?;
        let mut words = words.iter().map(|word| unmasked.fill(word));
        let limit = self.limits().standard_output;
        let command = CommandRequest {
            program: words.next().unwrap_or_default(),
            arguments: words.collect(),
            timeout: allowed.timeout,
            output_limit: limit,
        };
        let mut output = self.within(allowed, "shell", None, self.host.run_command(command)).await??;
        if output.len() > limit {
            return Err(too_large("the standard output of the command", limit));
        }
        if output.ends_with('\n') {
            output.pop();
        }
        Ok(output.into())
    }

    fn check_program(&self, program: &str) -> Result<(), RunError> {
        let programs = self.context.policy.shell_programs.as_deref().unwrap_or_default();
        if programs.iter().any(|allowed| allowed == program) {
            return Ok(());
        }
        let message = format!("the program '{program}' is not in the operator's list of allowed programs");
        Err(RunError::new(ErrorClass::ShellBinaryNotAllowed, message)
            .with_remedy("Ask the operator to allow the program, or use an allowed one"))
    }
}

fn named(form: &str) -> &'static str {
    if form.is_empty() { "shell" } else { "shell argv" }
}

fn unsafe_disabled(command: &str) -> RunError {
    let message = format!("unsafe commands are not enabled: '{}'", utf16_preview(command, 80));
    // The reference implementation reports these under `@`.
    RunError::new(ErrorClass::UnsafeShellDisabled, message).of("@").with_remedy(
        "Write the command without pipes and redirections, or ask the operator to enable unsafe commands",
    )
}

/// Splits at blanks outside of quotes. Quotes are removed, there are no escapes, and an empty word vanishes.
fn split_words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in command.chars() {
        match quote {
            Some(open) if open == c => quote = None,
            Some(_) => word.push(c),
            None if c == '"' || c == '\'' => quote = Some(c),
            None if is_blank(c) => words.push(std::mem::take(&mut word)),
            None => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_at_blanks_outside_of_quotes() {
        assert_eq!(split_words("a  'b c'd \"e\\\" f\t''"), ["a", "b cd", "e\\", "f"]);
        assert_eq!(split_words("echo 'it\"s"), ["echo", "it\"s"]);
        assert!(split_words("  \"\" ").is_empty());
    }
}
