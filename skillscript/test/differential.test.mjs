// Generated skills run on the skillscript runtime and on Posthouse, and must leave the same: the rendered text, the
// variables, the transcript, the errors, the calls of tools and agents, the trace and the files.
//
// DIFFERENTIAL_PROGRAMS is the number of programs, DIFFERENTIAL_SEED the first seed. A failure names the seed.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";

import { program } from "../differential/generator.mjs";
import { record } from "../differential/record.mjs";

const FEATURES = ["shell", "files", "secrets", "agents", "composition"];
const programs = Number(process.env.DIFFERENTIAL_PROGRAMS ?? 2000);
const firstSeed = Number(process.env.DIFFERENTIAL_SEED ?? 1);
const MOST_EXPLAINED = 25;

/** Whether a known difference between the runtimes explains every difference of a case. */
function explanation(explained, recorded, differences) {
  return explained.find(({ source, expected, differences: paths }) =>
    (source === undefined || new RegExp(source).test(recorded.source)) &&
    (expected === undefined || JSON.stringify(recorded.expect).includes(expected)) &&
    differences.every((difference) => new RegExp(paths).test(difference)));
}

it(`${programs} generated programs leave the same on both runtimes`, async (test) => {
  const folder = await mkdtemp(join(tmpdir(), "differential-"));
  try {
    const explained = JSON.parse(await readFile(new URL("../differential/explained.json", import.meta.url), "utf8"));
    assert.ok(explained.length <= MOST_EXPLAINED);
    const counts = Object.fromEntries([...FEATURES, "ran", "refused"].map((name) => [name, 0]));
    const cases = [];
    for (let seed = firstSeed; seed < firstSeed + programs; seed += 1) {
      const { case: generated, features } = program(seed);
      const recorded = await record(generated);
      features.forEach((feature) => (counts[feature] += 1));
      counts[recorded.expect.run === undefined ? "refused" : "ran"] += 1;
      cases.push(recorded);
    }
    const file = join(folder, "cases.json");
    await writeFile(file, JSON.stringify(cases));
    const played = spawnSync(process.env.POSTHOUSE_BIN ?? "posthouse", ["skill", "test", file, "--json"], {
      encoding: "utf8",
      maxBuffer: 1 << 30,
    });
    assert.ok(played.stdout, played.stderr);
    const uses = new Map(explained.map((entry) => [entry, 0]));
    const failures = [];
    JSON.parse(played.stdout).cases.forEach(({ id, ok, differences }, index) => {
      const entry = ok ? undefined : explanation(explained, cases[index], differences);
      if (entry !== undefined) uses.set(entry, uses.get(entry) + 1);
      else if (!ok) failures.push(`${id}:\n${cases[index].source}\n${differences.join("\n")}`);
    });
    test.diagnostic(JSON.stringify(counts));
    uses.forEach((count, { section }) => test.diagnostic(`explained by section ${section}: ${count}`));
    assert.equal(failures.length, 0, `${failures.length} programs differ:\n${failures.slice(0, 5).join("\n\n")}`);
    for (const feature of FEATURES) assert.ok(counts[feature] >= programs / 20, `${feature}: ${counts[feature]}`);
    assert.ok(counts.ran >= programs / 2, `${counts.ran} ran`);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
