// Generated skills run on the skillscript runtime and on Posthouse, and must leave the same: the findings of lint, the
// rendered text, the variables, the transcript, the errors, the calls of tools and agents, the trace and the files.
// In the runtime they reach every line that the recorded programs reach.
//
// DIFFERENTIAL_PROGRAMS is the number of programs, DIFFERENTIAL_SEED the first seed. A failure names the seed, or the
// number of the changed copy and its original.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";

import { coverage, FILES } from "../differential/coverage.mjs";
import { FEATURES } from "../differential/generator.mjs";

const programs = Number(process.env.DIFFERENTIAL_PROGRAMS ?? 2000);
const firstSeed = Number(process.env.DIFFERENTIAL_SEED ?? 1);
const MOST_EXPLAINED = 25;
/** Fewer programs, or other ones, need not reach every line. */
const isWhole = programs >= 2000 && firstSeed === 1;
const file = (path) => fileURLToPath(new URL(path, import.meta.url));
const vectors = join(process.env.POSTHOUSE_VECTORS ?? file("../../vectors"), "skills");

/** Whether a known difference between the runtimes explains every difference of a case. */
function explanation(explained, recorded, differences) {
  return explained.find(({ source, expected, differences: paths }) =>
    (source === undefined || new RegExp(source).test(recorded.source)) &&
    (expected === undefined || JSON.stringify(recorded.expect).includes(expected)) &&
    differences.every((difference) => new RegExp(paths).test(difference)));
}

function run(command, words, env = {}) {
  const child = spawn(command, words, { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  const output = { stdout: "", stderr: "" };
  for (const name of Object.keys(output)) child[name].on("data", (data) => (output[name] += data));
  return new Promise((done) => child.on("close", (code) => done({ code, ...output })));
}

/** Plays programs on the runtime, and returns the lines that they reach. */
async function play(folder, ...words) {
  await mkdir(folder);
  const ended = await run(process.execPath, [file("../differential/play.mjs"), ...words], { NODE_V8_COVERAGE: folder });
  assert.equal(ended.code, 0, ended.stderr);
  return coverage(folder);
}

async function playHere(folder, cases) {
  const { keypair } = JSON.parse(await readFile(join(vectors, "contracts/approval.json"), "utf8"));
  await writeFile(join(folder, "approval.key"), keypair.privateKeyPem, { mode: 0o600 });
  await writeFile(join(folder, "approval.pub"), keypair.publicKeyPem);
  const [input, printed] = [join(folder, "cases.json"), ["--json", "--keys", folder]];
  await writeFile(input, JSON.stringify(cases));
  const { stdout, stderr } = await run(process.env.POSTHOUSE_BIN ?? "posthouse", ["skill", "test", input, ...printed]);
  assert.ok(stdout, stderr);
  return JSON.parse(stdout).cases;
}

it(`${programs} generated programs leave the same on both runtimes`, async (test) => {
  const folder = await mkdtemp(join(tmpdir(), "differential-"));
  try {
    const explained = JSON.parse(await readFile(file("../differential/explained.json"), "utf8"));
    assert.ok(explained.length <= MOST_EXPLAINED);
    const records = join(folder, "records.json");
    const [wanted, reached] = [
      await play(join(folder, "vectors"), "vectors", vectors),
      await play(join(folder, "generated"), "generated", vectors, String(firstSeed), String(programs), records),
    ];
    const recorded = JSON.parse(await readFile(records, "utf8"));
    const cases = recorded.map(({ case: recordedCase }) => recordedCase);

    const counts = Object.fromEntries(Object.keys(FEATURES).map((name) => [name, 0]));
    recorded.forEach(({ features }) => features.forEach((feature) => (counts[feature] += 1)));
    const ran = cases.filter(({ expect }) => expect.run !== undefined).length;
    const together = recorded.filter(({ features }) => features.length === Object.keys(FEATURES).length).length;
    test.diagnostic(JSON.stringify({ ...counts, "all of them": together, ran, "did not run": programs - ran }));

    const uses = new Map(explained.map((entry) => [entry, 0]));
    const failures = [];
    (await playHere(folder, cases)).forEach(({ id, ok, differences }, index) => {
      const entry = ok ? undefined : explanation(explained, cases[index], differences);
      if (entry !== undefined) uses.set(entry, uses.get(entry) + 1);
      else if (!ok) failures.push(`${id}:\n${cases[index].source}\n${differences.join("\n")}`);
    });
    uses.forEach((count, { section }) => test.diagnostic(`explained by section ${section}: ${count}`));

    const missing = [];
    for (const name of FILES) {
      const [all, before, now] = [wanted[name].all.size, wanted[name].reached, reached[name].reached];
      test.diagnostic(`lines of ${name}: ${all}; reached by the vectors ${before.size}, by these programs ${now.size}`);
      missing.push(...[...before].filter((line) => !now.has(line)).map((line) => `${name}:${line}`));
    }

    assert.equal(failures.length, 0, `${failures.length} programs differ:\n${failures.slice(0, 5).join("\n\n")}`);
    for (const name of Object.keys(FEATURES)) assert.ok(counts[name] >= programs / 20, `${name}: ${counts[name]}`);
    assert.ok(ran >= programs / 2, `${ran} ran`);
    if (!isWhole) return;
    assert.ok(together >= programs / 50, `all of them: ${together}`);
    assert.deepEqual(missing, [], "lines that the vectors reach and these programs do not");
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
