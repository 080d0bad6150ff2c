// Plays a program on the skillscript runtime, and fills in `expect` as the recordings have it.

import { mkdir, mkdtemp, readFile, readdir, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { compile, execute } from "skillscript-runtime";

import { environment, PROGRAMS } from "./environment.mjs";

/** The time at which every program runs. */
const START = 1767225600000;
const AMBIENT = /^(NOW|USER|SESSION_CONTEXT|TRIGGER_TYPE|TRIGGER_PAYLOAD|EVENT\..*)$/;

Date.now = () => START;

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
      registry,
      skillStore,
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
    effectsAuthorized: true,
    fsAllowlist: [root],
    shellAllowlist: PROGRAMS,
    enableUnsafeShell: options.unsafe === true,
    maxRecursionDepth: options.max_recursion,
    trace: { mode: "on" },
    traceStore,
    secretProvider,
  };
  for (const name of Object.keys(context)) if (context[name] === undefined) delete context[name];
  let result;
  try {
    result = await execute(parsed, resolvedVariables, targetOrder, context);
  } catch (error) {
    return { threw: { class: className(error), message: error.message } };
  }
  const variables = Object.entries(result.finalVars).filter(([name]) => !AMBIENT.test(name));
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
    ...(options.dump_files ? { files: await filesBelow(root) } : {}),
  };
}

/** The program with what it left on the runtime. */
export async function record(program) {
  const outside = await realpath(await mkdtemp(join(tmpdir(), ".tmp")));
  const [root, skills] = [join(outside, "root"), join(outside, "skills")];
  try {
    await Promise.all([mkdir(root), mkdir(skills)]);
    const placed = (value) => JSON.parse(JSON.stringify(value).replaceAll("@FSROOT@", root).replaceAll("@OUTSIDE@", outside));
    const { source, options = {}, files = {}, stored_skills = {} } = placed(program);
    for (const [name, content] of Object.entries(files)) {
      await mkdir(dirname(join(root, name)), { recursive: true });
      await writeFile(join(root, name), content);
    }
    for (const [name, body] of Object.entries(stored_skills)) await writeFile(join(skills, `${name}.skill.md`), body);
    const doubles = await environment(options, skills);
    const { result, expect } = await compiled(source, options, doubles);
    const run = result === undefined ? undefined : await ran(result, options, root, doubles);
    let text = JSON.stringify({ compile: expect, ...(run === undefined ? {} : { run }) });
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
