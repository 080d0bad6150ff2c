// What was written through the module is there after the server was killed.

import assert from "node:assert/strict";
import { after, it } from "node:test";

import { SkillNotFoundError } from "skillscript-runtime/errors";

import { connectPosthouse } from "../posthouse-skillscript.mjs";
import { Server } from "./server.mjs";

const COUNT = 100;
const skill = (number) => `# Skill: tide-${number}\n# Status: Draft\n\nt:\n    emit(text="tide ${number}")\n\ndefault: t\n`;

const server = await Server.open();
after(() => server.close());
const options = await server.tenant();
const { skillStore, dataStore } = connectPosthouse(options);
const numbers = Array.from({ length: COUNT }, (_, number) => number);

it("keeps 100 skills and 100 entries of data through a kill of the server", async () => {
  for (const number of numbers) await skillStore.store(`tide-${number}`, skill(number), { author: "perry" });
  const written = [];
  for (const number of numbers) {
    written.push(await dataStore.write({ content: `Tide ${number}\nmark${number} at noon`, tags: ["sea"] }));
  }
  const before = await skillStore.version();

  await server.killAndStart();

  for (const number of numbers) {
    const loaded = await skillStore.load(`tide-${number}`);
    assert.equal(loaded.source, skill(number));
    assert.equal(loaded.metadata.author, "perry");
    const entry = await dataStore.get(written[number].id);
    assert.equal(entry.summary, `Tide ${number}`);
    assert.equal(entry.detail, `Tide ${number}\nmark${number} at noon`);
    const [found] = await dataStore.query({ query: `mark${number}`, limit: 5, mode: "fts", domain_tags: "sea" });
    assert.equal(found.id, written[number].id);
  }
  assert.equal((await skillStore.query()).length, COUNT);
  assert.deepEqual(
    (await skillStore.query({ name_pattern: "^tide-1", offset: 1, limit: 3 })).map(({ name }) => name),
    ["tide-10", "tide-11", "tide-12"],
  );
  assert.equal(await skillStore.version(), before);
});

it("reads older versions, and nothing after a deletion", async () => {
  const first = await skillStore.store("harbour", "# Skill: harbour\n\nt:\n    emit(text=\"one\")\n");
  await skillStore.store("harbour", "# Skill: harbour\n\nt:\n    emit(text=\"two\")\n");
  assert.match((await skillStore.load("harbour", first.version)).source, /one/);
  assert.equal((await skillStore.versions("harbour")).length, 2);
  await skillStore.delete("harbour");
  await assert.rejects(skillStore.load("harbour"), SkillNotFoundError);
  await assert.rejects(skillStore.metadata("harbour"), SkillNotFoundError);
});
