// The conformance suites of the runtime, over the module and over the tools of the server.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

import {
  AgentConnectorConformance,
  DataStoreConformance,
  McpConnectorConformance,
  RuntimeCapabilitiesConformance,
  SkillStoreConformance,
} from "skillscript-runtime/testing";
import { HttpMcpConnector } from "skillscript-runtime/connectors";

import {
  connectPosthouse,
  PosthouseAgentConnector,
  PosthouseDataStore,
  PosthouseSkillStore,
} from "../posthouse-skillscript.mjs";
import { Server } from "./server.mjs";

const server = await Server.open();
after(() => server.close());

function basic({ clientId, clientSecret }) {
  return { authorization: `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString("base64")}` };
}

/** Every test of a suite. `expected` is the number of tests that the suite has. */
function suite(name, expected, tests) {
  describe(name, () => {
    it(`has ${expected} tests`, () => assert.equal(tests.length, expected));
    for (const { category, name: sentence, run } of tests) it(`[${category}] ${sentence}`, run);
  });
}

describe("a skill store with a tenant of its own for every test", () => {
  let options;
  const tests = SkillStoreConformance.buildTests({
    build: () => connectPosthouse(options).skillStore,
    ctor: PosthouseSkillStore,
  });
  it("has 20 tests", () => assert.equal(tests.length, 20));
  for (const { category, name, run } of tests) {
    it(`[${category}] ${name}`, async () => {
      options = await server.tenant();
      await run();
    });
  }
});

describe("over one tenant", async () => {
  const options = await server.tenant();
  await server.agent(options.tenant, "heron");
  const { dataStore, agentConnector } = connectPosthouse(options);

  suite("the data store", 8, DataStoreConformance.buildTests({ build: () => dataStore, ctor: PosthouseDataStore }));

  suite(
    "the agent connector, with a connected agent",
    14,
    AgentConnectorConformance.buildTests({
      build: () => agentConnector,
      ctor: PosthouseAgentConnector,
      testAgentId: "heron",
    }),
  );

  const mcp = { endpoint: `${server.url}/mcp`, headers: basic(options), identityHeader: "X-Agent-Id" };
  suite(
    "tools at /mcp, by the runtime's own HTTP connector",
    7,
    McpConnectorConformance.buildTests({ build: () => new HttpMcpConnector(mcp), ctor: HttpMcpConnector }),
  );

  const rpc = async (request) => {
    const headers = { "content-type": "application/json", ...basic(options) };
    return (await fetch(`${server.url}/rpc`, { method: "POST", headers, body: JSON.stringify(request) })).json();
  };
  suite(
    "runtime_capabilities at /rpc",
    7,
    RuntimeCapabilitiesConformance.buildTests({ buildRuntime: () => ({ mcpServer: { handle: rpc } }) }),
  );
});
