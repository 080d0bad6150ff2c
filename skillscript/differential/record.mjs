// Plays a program on the skillscript runtime, and fills in `expect` as the recordings have it.

import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readFile, readdir, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { compile, execute, lint, parse } from "skillscript-runtime";

import { environment, PROGRAMS } from "./environment.mjs";

/** The time at which every program runs. */
const START = 1767225600000;
const AMBIENT = /^(NOW|USER|SESSION_CONTEXT|TRIGGER_TYPE|TRIGGER_PAYLOAD|EVENT\..*)$/;

const realNow = Date.now;

/** The package does not export these switches. */
const { setSecuredMode, setApprovalPublicKey } = await import(
  new URL("../node_modules/skillscript-runtime/dist/approval.js", import.meta.url)
);

/** The runtime does not export its own class of this name. */
class SecretNotProvisionedError extends Error {
  name = "SecretNotProvisionedError";
}

function className(error) {
  return error?.name && error.name !== "Error" ? error.name : (error?.constructor?.name ?? "Error");
}

async function filesBelow(folder, root = folder, found = {}) {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await filesBelow(path, root, found);
    else found[path.slice(root.length + 1)] = await readFile(path, "utf8");
  }
  return found;
}

/** The value as JSON would have it, with undefined values of variables and outputs marked. */
function marked(fields) {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, value === undefined ? "<undefined>" : value]));
}

async function compiled(source, options, { registry, skillStore }) {
  try {
    const result = await compile(source, {
      inputs: options.inputs ?? {},
      format: options.format ?? "prompt",
      ...(options.skip_lint ? { skipLintPreflight: true } : {}),
      ...(options.connectors === "none" ? {} : { registry }),
      ...(options.compile_no_store ? {} : { skillStore }),
    });
    const expect = {
      ok: true,
      target_order: result.targetOrder,
      resolved_variables: result.resolvedVariables,
      outputs: result.outputs,
      rendered: result.output,
      data_skills_inlined: [...new Set(result.dataSkillsInlined.map(({ name }) => name))],
    };
    return { result, expect };
  } catch (error) {
    const rules = error.diagnostics?.map(({ rule }) => rule);
    return { expect: { ok: false, error: { class: className(error), message: error.message, ...(rules ? { rules } : {}) } } };
  }
}

function programs({ shell_allowlist }) {
  return shell_allowlist === "unset" ? undefined : (shell_allowlist ?? PROGRAMS);
}

async function linted(source, options, { registry, skillStore }) {
  const { findings } = await lint(source, {
    registry,
    ...(options.lint_no_store ? {} : { skillStore }),
    ...(options.lint_shell === false ? {} : { shellAllowlist: programs(options) }),
    ...(options.lint_unsafe === undefined ? {} : { enableUnsafeShell: options.lint_unsafe }),
  });
  return findings.map(({ rule, severity, block }) => ({ rule, severity, ...(block === undefined ? {} : { block }) }));
}

async function ran({ parsed, resolvedVariables, targetOrder }, options, root, { registry, toolCalls, agentCalls }) {
  const traces = [];
  const traceStore = { write: async (record) => traces.push(record), query: async () => [], get: async () => null, prune: async () => 0 };
  const secretProvider = {
    async resolve(name) {
      const value = options.secrets?.[name];
      if (!value) throw new SecretNotProvisionedError(`the secret ${name} has no value`);
      return value;
    },
  };
  const context = {
    registry,
    agentId: options.agent_id,
    callerAgentId: options.caller,
    mechanical: options.mechanical === true,
    effectsAuthorized: options.secured !== true || options.isApproved === true,
    fsAllowlist: options.fs_allowlist === "unset" ? undefined : [root],
    shellAllowlist: programs(options),
    maxDeadlineMs: options.max_deadline_ms,
    triggerCtx: options.trigger && { ...options.trigger, fired_at_ms: START },
    enableUnsafeShell: options.unsafe === true,
    maxRecursionDepth: options.max_recursion,
    trace: { mode: "on" },
    traceStore,
    secretProvider,
  };
  for (const name of Object.keys(context)) if (context[name] === undefined) delete context[name];
  const [failedDeliveries, write] = [[], process.stderr.write];
  // The runtime only logs these failures.
  process.stderr.write = (text) => failedDeliveries.push(...(/^\[agent-dispatch\]/.test(text) ? [text] : [])) >= 0;
  let result;
  try {
    result = await execute(parsed, resolvedVariables, targetOrder, context);
  } catch (error) {
    return { threw: { class: className(error), message: error.message } };
  } finally {
    process.stderr.write = write;
  }
  const variables = Object.entries(result.finalVars).filter(([name]) => options.keep_ambient || !AMBIENT.test(name));
  return {
    transcript: result.emissions,
    outputs: marked(result.outputs),
    final_vars: marked(Object.fromEntries(variables)),
    errors: result.errors,
    fallbacks: result.fallbacks,
    agent_delivery_receipts: result.agentDeliveryReceipts,
    agent_wake_receipts: result.agentWakeReceipts,
    tool_calls: toolCalls,
    agent_calls: agentCalls,
    trace_ops: traces.at(-1)?.ops ?? [],
    ...(result.deadlineExceeded ? { deadline_exceeded: true } : {}),
    ...(result.uncertainEffects === undefined ? {} : { uncertain_effects: result.uncertainEffects }),
    ...(failedDeliveries.length === 0 ? {} : { stderr_agent_dispatch: failedDeliveries }),
    ...(options.dump_files ? { files: await filesBelow(root) } : {}),
  };
}

/** The history of a stored skill that its author has approved: one line. */
function history(body, author) {
  const content_hash = createHash("sha256").update(body).digest("hex");
  const version = content_hash.slice(0, 12);
  return `${JSON.stringify({ version, content_hash, status: "Approved", changed_at: START / 1000, changed_by: author, metadata: {}, author })}\n`;
}

/** The program with what it left on the runtime. `keys` are for programs that need a signature. */
export async function record(program, keys) {
  const isTimed = program.options?.realtime || program.options?.want_deadline;
  Date.now = isTimed ? realNow : () => START;
  const outside = await realpath(await mkdtemp(join(tmpdir(), ".tmp")));
  const [root, skills] = [join(outside, "root"), join(outside, "skills")];
  try {
    await Promise.all([mkdir(root), mkdir(skills)]);
    const placed = (value) => JSON.parse(JSON.stringify(value).replaceAll("@FSROOT@", root).replaceAll("@OUTSIDE@", outside));
    const { source: written, signed_source, options = {}, files = {}, stored_skills = {} } = placed(program);
    const source = (signed_source ?? written).replace(...(options.tamper_main ?? ["", ""]));
    options.isApproved = signed_source !== undefined && options.tamper_main === undefined;
    setSecuredMode(options.secured === true);
    setApprovalPublicKey(options.secured === true ? keys.publicKeyPem : null);
    for (const [name, content] of Object.entries(files)) {
      await mkdir(dirname(join(root, name)), { recursive: true });
      await writeFile(join(root, name), name.endsWith(".b64") ? Buffer.from(content, "base64") : content);
    }
    for (const [name, body] of Object.entries(stored_skills)) await writeFile(join(skills, `${name}.skill.md`), body);
    for (const [name, author] of Object.entries(options.store_authors ?? {})) {
      await writeFile(join(skills, `${name}.versions.jsonl`), history(stored_skills[name], author));
    }
    const doubles = await environment(options, skills);
    const found = await linted(source, options, doubles);
    if (options.parse_only) {
      parse(source);
      return { ...program, expect: { lint: found } };
    }
    const { result, expect } = await compiled(source, options, doubles);
    const run = result === undefined ? undefined : await ran(result, options, root, doubles);
    let text = JSON.stringify({ lint: found, compile: expect, ...(run === undefined ? {} : { run }) });
    text = text.replaceAll(root, "@FSROOT@").replaceAll(outside, "@OUTSIDE@");
    const ids = new Map();
    text = text.replace(/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/g, (id) => {
      if (!ids.has(id)) ids.set(id, `<uuid:${ids.size + 1}>`);
      return ids.get(id);
    });
    return { ...program, expect: JSON.parse(text) };
  } finally {
    await rm(outside, { recursive: true, force: true });
  }
}
