// The standard environment of vectors/skills/README.md on the skillscript runtime: tools, model, agents, stores.

import { dirname, join } from "node:path";

import {
  CallbackMcpConnector,
  DataStoreMcpConnector,
  FilesystemSkillStore,
  LocalModelMcpConnector,
  Registry,
  SkillStoreMcpConnector,
  SqliteDataStore,
} from "skillscript-runtime";

export const PROGRAMS = ["echo", "printf", "cat", "false", "true", "sleep", "sh", "bash", "env", "wc"];

const text = (value) => ({ content: [{ type: "text", text: value }] });
const TOOLS = {
  echo: (args) => args,
  echo_text: (args) => text(JSON.stringify(args)),
  text: ({ value }) => text(value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value)),
  items: () => [{ id: "a", n: 1, tag: "red" }, { id: "b", n: 2 }, { id: "c", n: 30, tag: null }],
  envelope: () => ({
    items: [{ id: "x1", title: "First" }, { id: "x2", title: "Second" }],
    total: 2,
    nested: { deep: { leaf: "green" } },
  }),
  empty_text: () => "",
  blank_text: () => "  \n ",
  empty_list: () => [],
  nothing: () => null,
  number: () => 42,
  yes: () => true,
  image: () => ({ content: [{ type: "image", data: "AA==" }] }),
  soft_fail: () => ({ isError: true, content: [{ type: "text", text: "tool said no" }] }),
  update_row: ({ row }) => ({ updated: true, ...(row === undefined ? {} : { row }) }),
  send_note: () => ({ sent: true }),
};

async function call(tool, args) {
  if (tool === "slow") return new Promise((done) => setTimeout(done, Number(args.ms), "slow done"));
  if (tool === "fail") throw new Error(`mock failure: ${args.why ?? ""}`);
  if (TOOLS[tool] === undefined) throw new Error(`mock: no tool ${tool}`);
  return TOOLS[tool](args);
}

/** Declares its tools, so that lint knows them. */
class FixedConnector extends CallbackMcpConnector {
  static staticTools() {
    return ["echo", "text"];
  }
}

/** Declares the arguments of `echo`. */
class TypedConnector extends CallbackMcpConnector {
  async describeTools() {
    const properties = { a: { type: "string" }, b: { type: "number" } };
    return [{ name: "echo", inputSchema: { type: "object", properties, required: ["a"], additionalProperties: false } }];
  }
}

class RecordingModel {
  static staticCapabilities() {
    const features = { supports_max_tokens: true };
    return { connector_type: "local_model", implementation: "RecordingModel", contract_version: "1.0.0", features };
  }
  async run(prompt, { maxTokens, model }) {
    return `LLM<${prompt}>${maxTokens === undefined ? "" : `|max=${maxTokens}`}${model === undefined ? "" : `|model=${model}`}`;
  }
  async manifest() {
    return { capabilities_version: "1", manifest: { models_available: ["tiny"] } };
  }
}

/** Agents that record what they get. */
class RecordingAgents {
  static staticCapabilities() {
    const features = { deliver: true, wake: true, list_agents: true, agent_status: false, health_check: true };
    return { connector_type: "agent_connector", implementation: "RecordingAgents", contract_version: "1.0.0", features };
  }
  constructor(name, agents, flags, calls) {
    Object.assign(this, { name, agents, flags, calls });
  }
  async list_agents() {
    if (this.flags.list_fails) throw new Error("no list");
    return this.agents.map((agent_id) => ({ agent_id }));
  }
  async deliver(agent_id, payload) {
    this.calls.push({ connector: this.name, method: "deliver", agent_id, payload });
    if (this.flags.deliver_fails) throw new Error("substrate down");
    const receipt = { delivered_at: 1767225600005, delivery_id: `${this.name}-d${this.calls.length}` };
    if (this.flags.skip) receipt.delivery_skipped = true;
    if (this.flags.warn) receipt.warnings = ["slow lane"];
    return receipt;
  }
  async wake(agent_id, opts) {
    this.calls.push({ connector: this.name, method: "wake", agent_id, opts: opts ?? {} });
    if (this.flags.wake_fails) throw new Error("cannot ring");
    const session = agent_id.split("@")[1];
    return { woken_at: 1767225600006, woken: true, ...(session === undefined ? {} : { session_id: session }) };
  }
  async health_check() {
    return true;
  }
  async request_response() {
    throw new Error("the recordings have no questions to agents");
  }
}

const AGENTS = [["primary", ["desk", "lamp"], {}], ["beta", ["desk", "scout"], {}]];

/** The reference's data store, if the case has one, with the entries of the case. */
async function registerData(registry, { data }, folder) {
  if (data === undefined) return;
  const store = new SqliteDataStore({ dbPath: join(folder, "data.db") });
  registry.registerDataStore("primary", store);
  for (const name of ["data_read", "data_write"]) registry.registerMcpConnector(name, new DataStoreMcpConnector(store));
  for (const entry of Array.isArray(data) ? data : []) await store.write(entry);
}

/** A registry with everything, and the calls that its doubles get. */
export async function environment(options, skillsFolder) {
  const [toolCalls, agentCalls] = [[], []];
  const registry = new Registry();
  const skillStore = new FilesystemSkillStore(skillsFolder);
  registry.registerSkillStore("primary", skillStore);
  const connector = (Connector, name) =>
    new Connector(async (tool, args, context) => {
      const owner = context?.agentId ?? context?.agent_id;
      toolCalls.push({ connector: name, tool, args: structuredClone(args), ...(owner === undefined ? {} : { agent_id: owner }) });
      return call(tool, args);
    });
  const agents = options.agents === "none" ? [] : (options.agents ?? AGENTS);
  for (const [name, ids, flags] of agents) {
    await registry.registerAgentConnector(name, new RecordingAgents(name, ids, flags ?? {}, agentCalls));
  }
  const environment = { registry, skillStore, toolCalls, agentCalls };
  if (options.connectors === "none") return environment;
  registry.registerMcpConnector("tools", connector(CallbackMcpConnector, "tools"), options.allowed_tools);
  registry.registerMcpConnector("typed", connector(TypedConnector, "typed"));
  registry.registerMcpConnector("fixed", connector(FixedConnector, "fixed"));
  for (const name of ["echo", "items", "text", "fail"]) {
    registry.registerMcpConnector(name, connector(CallbackMcpConnector, name));
  }
  const model = new RecordingModel();
  registry.registerLocalModel("default", model);
  registry.registerMcpConnector("llm", new LocalModelMcpConnector(model, registry));
  const bridge = new SkillStoreMcpConnector(skillStore);
  registry.registerMcpConnector("skill_read", bridge);
  registry.registerMcpConnector("skill_write", bridge);
  await registerData(registry, options, dirname(skillsFolder));
  return environment;
}
