// Refusals of the server as errors of the runtime, and renewal of the access token.

import assert from "node:assert/strict";
import { after, it } from "node:test";

import {
  QueryError,
  StorageConflictError,
  TimeoutError,
  UnsupportedFilterError,
  VersionNotFoundError,
} from "skillscript-runtime/errors";

import { connectPosthouse, DeliveryFailedError } from "../posthouse-skillscript.mjs";
import { Server } from "./server.mjs";

const SOURCE = "# Skill: tide\n\nt:\n    emit(text=\"tide\")\n";

const server = await Server.open();
after(() => server.close());
const options = await server.tenant();
const { skillStore, dataStore, agentConnector } = connectPosthouse(options);

it("refuses another author, and names that leave a folder", async () => {
  await skillStore.store("tide", SOURCE, { author: "perry" });
  await assert.rejects(skillStore.store("tide", SOURCE, { author: "heron" }), StorageConflictError);
  await assert.rejects(skillStore.store("../tide", SOURCE), StorageConflictError);
});

it("has an error for a version that is not kept", async () => {
  await assert.rejects(skillStore.load("tide", "0123456789ab"), (error) => {
    assert.ok(error instanceof VersionNotFoundError);
    assert.deepEqual([error.skill_name, error.version], ["tide", "0123456789ab"]);
    return true;
  });
});

it("refuses a pattern that is no regular expression", async () => {
  await assert.rejects(skillStore.query({ name_pattern: "(" }), QueryError);
});

it("names every filter that the store does not support", async () => {
  await assert.rejects(dataStore.query({ query: "tide", limit: 5, mode: "fts", vault: "v", pinned: true }), (error) => {
    assert.ok(error instanceof UnsupportedFilterError);
    assert.deepEqual(error.unsupportedKeys.toSorted(), ["pinned", "vault"]);
    return true;
  });
});

it("returns null for data that does not exist", async () => {
  assert.equal(await dataStore.get("no-such-entry"), null);
});

it("says why a message to an unknown agent was not delivered", async () => {
  const meta = { dispatch_id: "d-1", sent_at: Date.now(), origin: { skill_name: "tide", trigger_kind: "inline" } };
  await assert.rejects(agentConnector.deliver("nobody", { kind: "augment", content: "hello", meta }), (error) => {
    assert.ok(error instanceof DeliveryFailedError);
    assert.deepEqual([error.agent_id, error.cause_kind], ["nobody", "client_validation"]);
    return true;
  });
});

it("delivers to an agent, asks it, and gives up at the deadline", async () => {
  const agent = await server.agent(options.tenant, "heron");
  const meta = (more) => ({
    dispatch_id: crypto.randomUUID(),
    sent_at: Date.now(),
    origin: { skill_name: "tide", trigger_kind: "inline" },
    ...more,
  });
  const receipt = await agentConnector.deliver("heron", { kind: "augment", content: "the tide turns", meta: meta() });
  assert.equal(typeof receipt.delivered_at, "number");
  await agent.line(/the tide turns/);
  const asked = { kind: "augment", content: "2 + 3", meta: meta({ correlation_id: "sum-1" }) };
  const answer = await agentConnector.request_response("heron", asked, { timeout_ms: 30_000 });
  assert.deepEqual([answer.correlation_id, answer.agent_id], ["sum-1", "heron"]);
  assert.deepEqual(JSON.parse(answer.content), { sum: 5 });
  await server.admin("agent", "create", "sleeper", "--tenant", options.tenant);
  const unanswered = { kind: "augment", content: "2 + 3", meta: meta({ correlation_id: "sum-2" }) };
  await assert.rejects(agentConnector.request_response("sleeper", unanswered, { timeout_ms: 200 }), TimeoutError);
});

it("gets a new access token when the server refuses the old one", async () => {
  const used = [];
  const real = globalThis.fetch;
  globalThis.fetch = (url, request) => {
    used.push(String(url));
    // The second request comes with a token that nobody knows.
    const isSecond = used.length === 3;
    return real(url, isSecond ? { ...request, headers: { ...request.headers, authorization: "Bearer unknown" } } : request);
  };
  try {
    const { skillStore: fresh } = connectPosthouse(options);
    await fresh.load("tide");
    assert.equal((await fresh.load("tide")).source, SOURCE);
  } finally {
    globalThis.fetch = real;
  }
  const paths = used.map((url) => new URL(url).pathname);
  assert.deepEqual(paths, ["/oauth/token", "/v1/skills/tide", "/v1/skills/tide", "/oauth/token", "/v1/skills/tide"]);
});
