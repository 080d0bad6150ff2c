//! The table of lint rules: id, severity, when a rule fires, and what to do about it.

use serde::Serialize;

use super::Severity::{self, Error, Info, Warning};

/// One rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LintRule {
    pub id: &'static str,
    /// The usual severity. `unwired-primary-connector` is milder if every call has a fallback.
    pub severity: Severity,
    pub summary: &'static str,
    pub remedy: &'static str,
}

/// Rules that the reference runtime does not have.
const OWN_RULES: &[&str] =
    &["exchange-unbound", "exchange-unbounded", "ignored-line", "status-disagrees", "unsigned-literal-line"];

impl LintRule {
    /// Whether the reference runtime lacks this rule.
    pub fn is_own(&self) -> bool {
        OWN_RULES.contains(&self.id)
    }

    pub fn named(id: &str) -> Option<&'static Self> {
        LINT_RULES.iter().find(|rule| rule.id == id)
    }
}

macro_rules! rules {
    ($($id:literal $severity:ident: $summary:literal => $remedy:literal;)*) => {
        /// Every rule, by topic.
        pub static LINT_RULES: &[LintRule] =
            &[$(LintRule { id: $id, severity: $severity, summary: $summary, remedy: $remedy }),*];
    };
}

rules! {
    // What the parser refuses.
    "parse-error" Error: "a line cannot be read" => "correct the line as the message says";
    "malformed-op-grammar" Error: "an operation lacks a part, or its form is no longer supported" => "use `$ tool name=value -> R` for tools and `call(name=value) -> R` for the built-in operations";
    "invalid-conditional-syntax" Error: "a condition has a form that the language does not have" => "compare a reference with text in double quotes or with another reference, and join conditions with `and`, `or` and `not`";
    "single-equals" Error: "a condition compares with a single `=`" => "write `==`";
    "reserved-keyword" Error: "a name is a word of the language" => "choose another name";
    "ignored-line" Warning: "a line of a target is no operation, and a run ignores it" => "correct the operation, put `#` before a comment, or remove the line";
    "indentation" Error: "a line is indented with tabs, or by a number of spaces that no open block has" => "indent each block by 4 more spaces than the line that opens it";

    // Targets.
    "no-targets" Error: "a skill has neither a target nor a template" => "add a target: a line `name:` with indented operations below it";
    "no-entry-target" Error: "no target is the entry of the skill" => "add a line `default: NAME`";
    "missing-default-target" Error: "a skill has targets but no `default:` line" => "add a line `default: NAME`";
    "orphan-target" Warning: "a target is not needed by the entry target" => "name it as a dependency, make it the entry, or remove it";
    "circular-dependency" Error: "targets depend on each other in a circle" => "remove one of the dependencies";
    "missing-dependency" Error: "a target depends on one that does not exist" => "declare that target or remove the dependency";

    // Variables and references.
    "undeclared-var" Error: "an operation refers to a variable that nothing sets" => "declare it in `# Vars:`, set it before, or correct its name";
    "unknown-filter" Error: "a reference uses a filter that does not exist" => "use url, shell, json, trim, length, fallback, isodate, contains, head, tail, lines or pluck";
    "unknown-returns-ref" Error: "`# Returns:` names a variable that nothing sets" => "set the variable, or remove it from `# Returns:`";
    "numeric-subscript" Warning: "a reference takes an element of a list by its number" => "use `foreach` to go over the list";
    "transcript-footgun" Warning: "the transcript of another skill is used as text, and it is a list" => "use `${R.outputs.text}`, or go over the list with `foreach`";
    "deprecated-substitution-shape" Warning: "a reference has the old form `$(NAME)`" => "write `${NAME}`";

    // Other skills.
    "unknown-skill-reference" Warning: "a skill that is called or inlined is not in the store" => "correct the name, or store that skill before this one runs";
    "unknown-template-reference" Warning: "`# Templates:` names a skill that is not in the store" => "correct the name, or store that skill";
    "disabled-skill-reference" Error: "a skill that is called or inlined is disabled" => "enable that skill or do not use it";
    "reference-to-disabled-skill" Warning: "a skill that is called or inlined is disabled" => "replace the disabled skill by another one";
    "missing-skillstore-for-data-ref" Error: "a skill is inlined, and there is no store to take it from" => "check the skill together with the store";
    "unexported-final-var-access" Warning: "a variable of another skill is used that this skill does not return" => "add the name to `# Returns:` of that skill, or use `${R.outputs.text}`";

    // Connectors and tools.
    "unknown-capability" Error: "`# Requires:` names a feature that no connector provides" => "configure a connector with that feature, or remove the requirement";
    "unknown-connector" Error: "a call names a connector that is not configured" => "correct the name, or configure the connector";
    "connector-as-tool" Error: "a connector and its tool are written with a blank between them" => "write `$ connector.tool`";
    "unknown-connector-class" Error: "the configuration names a class of connectors that does not exist" => "correct the class in the configuration";
    "unwired-primary-connector" Error: "a tool without a connector is neither built in nor the name of a connector" => "write `$ connector.tool`, or configure a connector of that name";
    "disallowed-tool" Error: "a tool is not on the list of allowed tools of its connector" => "use an allowed tool, or ask the operator to allow this one";
    "unknown-tool-on-connector" Error: "a connector declares its tools, and this is none of them" => "use one of the declared tools";
    "unverified-qualified-tool" Info: "a connector does not say which tools it has" => "make sure that the tool exists";
    "unknown-connector-arg" Warning: "an argument is not in the schema of the tool" => "use an argument of the schema, or remove this one";
    "missing-required-connector-arg" Warning: "an argument that the tool requires is absent" => "add the argument";
    "unknown-llm-model" Warning: "`$ llm` names a model that is not configured" => "correct the name, or configure the model";
    "unknown-llm-arg" Warning: "`$ llm` has an argument that it does not know" => "remove the argument; other settings belong to the configuration of the model";
    "unknown-data-read-arg" Warning: "`$ data_read` has an argument that it does not know" => "put other conditions into `filters={…}`";
    "colon-kwarg-syntax" Error: "an argument is written with a colon" => "write `name=value`";
    "deprecated-addressed-to" Warning: "`$ data_write` has the argument `addressed_to`, which is ignored" => "use `recipients=[\"agent\"]`";

    // Values.
    "uninitialized-append" Error: "`$append` has a variable that is not set before" => "write `$set NAME = []` before it, in the same block or in one around it";
    "foreach-local-accumulator-target" Error: "a list is set again in every round of a loop" => "move the `$set` before the loop";
    "append-to-non-list" Error: "`$append` has a variable that is neither a list nor a text" => "set the variable to `[]` or to `\"\"`";
    "append-structured-to-string" Info: "the result of a tool is appended to a text" => "append one field, or use the filter `json`";
    "set-json-literal-advisory" Info: "`$set` has a list of objects, which it does not parse" => "use `$ json_parse […] -> NAME`";
    "object-iteration-advisory" Info: "a loop goes over the whole result of a tool" => "if the result is an object, go over the field that holds the list";
    "remote-result-needs-parse" Info: "`length` of a result counts characters if the result is text" => "parse the result with `$ json_parse ${R} -> P` first";
    "unparsed-json-field-access" Info: "`json_parse` is used as a filter" => "use `$ json_parse ${X} -> P`, then `${P.field}`";
    "deprecated-question" Warning: "the operation `?` is deprecated" => "use `emit(text=\"…\")`";
    "unknown-file-encoding" Warning: "`file_read` has an encoding that does not exist" => "use `utf8` or `base64`";

    // Commands.
    "shell-quoted-var-in-command" Warning: "a reference in a command has quotes around it, which its value may break" => "use `shell(argv=[\"program\", \"${VALUE}\"])`";
    "unquoted-substitution-in-kwarg-value" Warning: "a reference in a command has a value that may hold blanks" => "use `shell(argv=[\"program\", \"${VALUE}\"])`";
    "unsafe-shell-op" Warning: "a command is run by a shell" => "use `shell(command=…)` without `unsafe`, or `argv`, where one program is enough";
    "unsafe-shell-disabled" Error: "a command is run by a shell, which the operator does not allow" => "use `shell(command=…)` without `unsafe`, or `argv`";
    "unsafe-shell-ambiguous-subst" Warning: "an unsafe command has `$(…)` that is no variable of the skill" => "write `$$(…)` for the shell";
    "unsafe-shell-unescaped-subst" Warning: "an unsafe command has a variable without the filter `shell`" => "write `${NAME|shell}`";
    "shell-binary-not-allowed" Error: "a program is not on the operator's list" => "use a program of the list, or ask the operator to add this one";

    // Safety.
    "unconfirmed-mutation" Warning: "an operation changes something without being authorised" => "add `approved=\"reason\"`, or `# Autonomous: true` to the skill";
    "credential-in-args" Warning: "a text looks like a credential" => "take it out, and use `{{secret.NAME}}` with `# Requires: secret.NAME`";
    "secret-use-only" Error: "a secret marker stands where its value would be shown or kept" => "use secrets only in commands and in arguments of tools";
    "secret-undeclared" Error: "a secret is used that `# Requires:` does not name" => "add `# Requires: secret.NAME`";
    "secret-dynamic-name" Error: "a secret marker does not hold a plain name" => "write the name of the secret into the marker";
    "unbounded-no-deadline" Info: "an operation has no time limit" => "add `timeout=SECONDS` with a fallback, or `# Timeout:` for all operations";

    // Questions to agents.
    "exchange-unbound" Warning: "the answer of an agent is not bound, so nothing reads it" => "write `-> NAME` behind the call, or use `notify`";
    "exchange-unbounded" Info: "a question to an agent has no time limit of its own" => "add `timeout=SECONDS`, `# Timeout:` or `# Deadline:`";

    // Header.
    "status-disagrees" Warning: "the approval gate and the parser read different statuses, so the skill counts as a draft" => "keep exactly one `# Status:` line, among the header lines";
    "unsigned-literal-line" Warning: "a line that looks like a status or tag line stands in the body, where a signature does not protect it" => "move it to the header, or write the text differently";
    "status-disabled" Error: "the skill is disabled" => "change its status before it is used";
    "draft-with-trigger" Warning: "a draft has triggers, which do not start it" => "approve the skill, or remove the triggers";
    "space-separated-vars" Warning: "the name of a variable holds blanks" => "separate variables with commas";
    "vars-space-separated" Warning: "the default of a variable looks as if another variable followed" => "put a comma before that variable, or quotes around the default";
    "unused-augmenting-header" Warning: "`# Event-type:` is set without an output to an agent" => "add `# Output: agent: NAME`, or remove the line";
    "legacy-frontmatter-header" Warning: "`# Delivery-context:` is ignored" => "write `# Event-type:`";
    "output-agent-target-no-emit" Warning: "an output goes to an agent, and nothing is emitted" => "add `emit(text=\"…\")` or a template";
    "output-agent-target-no-connector" Warning: "an output goes to an agent, and no connector can deliver it" => "configure a connector to agents";
    "address-routed-wake" Info: "an address names a session, so the agent is woken" => "leave out `@session` to deliver without waking";
    "skill-name-collision" Info: "another text is stored under the name of this skill" => "rename the skill, or overwrite the stored one on purpose";
    "duplicate-skill-name" Info: "the store has several skills of this name" => "rename one of them";
    "plugin-collision" Info: "never" => "nothing is to be done";

    // Template.
    "unset-template-var" Error: "the template refers to a variable that nothing sets" => "declare the variable or set it";
    "template-looks-like-target" Warning: "a line of the template looks like a target" => "add operations below it, or text behind the colon";
    "body-template-detected" Info: "text outside of targets is the output, and nothing says that this is meant" => "put `#` before comments, or add `# Output: text`";
    "emit-with-template" Info: "a skill has a template and `emit`" => "remove the template if the emitted text is the output";
}
