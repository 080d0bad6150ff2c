// The real runtime on Posthouse: its stores and agents by the module, and tools at `/mcp` by its own HTTP connector.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, it } from "node:test";

import { bootstrap } from "skillscript-runtime";

import { connectPosthouse } from "../posthouse-skillscript.mjs";
import { Server } from "./server.mjs";

const server = await Server.open();
const options = await server.tenant();
const heron = await server.agent(options.tenant, "heron");
const posthouse = connectPosthouse(options);
const home = mkdtempSync(join(tmpdir(), "posthouse-runtime-"));
after(async () => {
  rmSync(home, { recursive: true });
  await server.close();
});

const connectors = join(home, "connectors.json");
const credential = Buffer.from(`${options.clientId}:${options.clientSecret}`).toString("base64");
writeFileSync(
  connectors,
  JSON.stringify({
    posthouse: {
      class: "HttpMcpConnector",
      config: {
        endpoint: `${server.url}/mcp`,
        headers: { Authorization: `Basic ${credential}` },
        identityHeader: "X-Agent-Id",
      },
      allowed_tools: ["data_read", "data_write", "skill_read", "skill_write"],
    },
  }),
);
const runtime = bootstrap({
  ...posthouse,
  skillsDir: home,
  traceDir: join(home, "traces"),
  connectorsConfigPath: connectors,
});
assert.deepEqual(runtime.connectorConfigErrors, []);

/** Stores an approved skill through the module and runs it by the tool of the runtime. */
async function execute(name, body) {
  await posthouse.skillStore.store(name, `# Skill: ${name}\n# Status: Approved\n# Autonomous: true\n${body}`);
  const request = { name: "execute_skill", arguments: { skill_name: name } };
  const { result, error } = await runtime.mcpServer.handle({ jsonrpc: "2.0", id: 1, method: "tools/call", params: request });
  assert.equal(error, undefined);
  return JSON.parse(result.content[0].text);
}

it("writes and reads data at /mcp from inside a skill", async () => {
  const run = await execute(
    "tides",
    `# Returns: W, R

run:
    $ posthouse.data_write content="High tide at noon" tags=["sea"] approved="tides are public" -> W
    $ posthouse.data_read mode="fts" query="tide noon" limit=5 domain_tags="sea" -> R

default: run
`,
  );
  assert.deepEqual(run.errors, []);
  const [found] = run.final_vars.R.items;
  assert.equal(found.id, run.final_vars.W.id);
  assert.equal((await posthouse.dataStore.get(found.id)).detail, "High tide at noon");
});

it("writes a skill at /mcp, which lands as a Draft whatever it says", async () => {
  const run = await execute(
    "writer",
    `# Returns: W

run:
    $ posthouse.skill_write name="child" source="# Skill: child\\n# Status: Approved\\nrun:\\n    emit(text=\\"hi\\")\\ndefault: run\\n" approved="a child" -> W

default: run
`,
  );
  assert.deepEqual(run.errors, []);
  assert.equal(run.final_vars.W.status, "Draft");
  assert.equal((await posthouse.skillStore.metadata("child")).status, "Draft");
});

it("raises a refused filter inside the skill", async () => {
  const run = await execute(
    "refused",
    `
run:
    $ posthouse.data_read mode="fts" query="tide" limit=5 vault="secret" -> R

default: run
`,
  );
  assert.equal(run.errors.length, 1);
  assert.match(run.errors[0].message, /vault/);
});

it("notifies a connected agent through the module", async () => {
  const run = await execute(
    "notifier",
    `
run:
    notify(agent="heron", message="the tide is in")

default: run
`,
  );
  assert.deepEqual(run.errors, []);
  await heron.line(/the tide is in/);
});

it("uses the stores of Posthouse for its own words", async () => {
  const run = await execute(
    "own-words",
    `# Returns: W, R

run:
    $ data_write content="Low tide at six" tags=["sea"] approved="tides are public" -> W
    $ data_read mode="fts" query="low tide" limit=5 -> R

default: run
`,
  );
  assert.deepEqual(run.errors, []);
  assert.equal(run.final_vars.R.items[0].id, run.final_vars.W.id);
});
