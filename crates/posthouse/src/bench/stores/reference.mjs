// Measures the stores of the skillscript runtime. Arguments: the folder of the runtime, a folder to write to, and the
// file with the skills, texts and searches. Prints one JSON object.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [runtime, folder, planFile] = process.argv.slice(2);
const module = (path) => import(pathToFileURL(join(runtime, "dist", path)).href);
const { McpServer } = await module("mcp-server.js");
const { FilesystemSkillStore } = await module("connectors/skill-store.js");
const { SqliteSkillStore } = await module("connectors/sqlite-skill-store.js");
const { SqliteDataStore } = await module("connectors/data-store.js");
const plan = JSON.parse(readFileSync(planFile, "utf8"));

const millis = async (work) => {
  const start = process.hrtime.bigint();
  await work();
  return Number(process.hrtime.bigint() - start) / 1e6;
};
const percentile = (values, percent) => {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)];
};

async function skills(store) {
  const server = new McpServer({ skillStore: store });
  const list = async (version) => {
    const call = { name: "skill_list", arguments: version === undefined ? {} : { if_none_match: version } };
    const answer = await server.handle({ jsonrpc: "2.0", id: 1, method: "tools/call", params: call });
    if (answer.error) throw new Error(answer.error.message);
    return answer.result.content[0].text;
  };
  for (const [name, source] of plan.skills) await store.store(name, source);
  let { catalog_version: version } = JSON.parse(await list());
  const unchanged = [];
  for (let call = 0; call < 20; call += 1) unchanged.push(await millis(() => list(version)));
  const [wrote, changed] = [[], []];
  for (const [name, source] of plan.rewrites) {
    wrote.push(await millis(() => store.store(name, source)));
    let text;
    changed.push(await millis(async () => (text = await list(version))));
    version = JSON.parse(text).catalog_version;
  }
  return {
    unchanged_ms: percentile(unchanged, 50),
    changed_ms: percentile(changed, 50),
    write_ms: percentile(wrote, 50),
  };
}

async function data(store) {
  const took = await millis(async () => {
    for (const content of plan.texts) await store.write({ content });
  });
  const searches = [];
  for (const query of plan.searches) {
    searches.push(await millis(() => store.query({ query, limit: 10, mode: "fts" })));
  }
  return { writes_per_second: (plan.texts.length * 1000) / took, search_p99_ms: percentile(searches, 99) };
}

const result = {
  filesystem: await skills(new FilesystemSkillStore(join(folder, "skills"))),
  sqlite: await skills(new SqliteSkillStore({ dbPath: join(folder, "skills.db") })),
  data: await data(new SqliteDataStore({ dbPath: join(folder, "data.db") })),
};
console.log(JSON.stringify(result));
process.exit(0);
