// The compiler of the reference, answered by Posthouse.

// Findings stop a compilation by a class of the reference that holds them. Tests ask for the class.
import { LintFailureError } from "reference/errors";

import { known } from "./facts.mjs";
import { findings } from "./lint.mjs";
import { parse, parsedSkill, sources } from "./parser.mjs";
import { played } from "./posthouse.mjs";

/** The inputs, with what the caller's function knows about `# Requires:` lines. */
async function inputsOf(source, { inputs = {}, requireResolver }) {
  const given = { ...inputs };
  for (const required of requireResolver === undefined ? [] : parse(source).requires) {
    const value = required.target in given ? null : await requireResolver(required);
    if (value !== null) given[required.target] = value;
  }
  return given;
}

export async function compile(source, options = {}) {
  const { format = "prompt", registry, skillStore, enableUnsafeShell, skipLintPreflight } = options;
  const { options: facts, stored } = await known({ registry, skillStore, enableUnsafeShell });
  const asked = {
    ...facts,
    inputs: await inputsOf(source, options),
    format,
    compile_only: true,
    skip_lint: skipLintPreflight === true,
    inline_provenance: options.inlineProvenance === true,
  };
  const found = played(source, asked, { stored_skills: stored });
  const list = skipLintPreflight === true ? [] : findings(found.lint);
  const of = (severity) => list.filter((finding) => finding.severity === severity);
  if (found.compile.ok !== true) {
    const { class: name, message } = found.compile.error;
    if (name === "LintFailureError") throw new LintFailureError(of("error"), "compile");
    throw Object.assign(new Error(message), { name });
  }
  const { prepared, provenance, rendered, resolved_variables, target_order, outputs } = found.compile;
  const parsed = parsedSkill(prepared, source);
  return {
    skillName: parsed.name,
    format,
    resolvedVariables: resolved_variables,
    targetOrder: target_order,
    output: rendered,
    triggers: parsed.triggers,
    outputs,
    warnings: of("warning").map(({ rule, message }) => `${rule}: ${message}`),
    advisories: of("info").map(({ rule, message }) => `${rule}: ${message}`),
    parsed,
    dataSkillsInlined: provenance.data_skills_inlined,
    provenance,
  };
}

/** The order of the targets of a parsed skill, from its default target. */
export function toposort(targets) {
  const options = { lint_facts: {}, lint_no_store: true, skip_lint: true, compile_only: true };
  const { compile } = played(sources.get(targets), options);
  if (compile.ok !== true) throw new Error(compile.error.message);
  return compile.target_order;
}
