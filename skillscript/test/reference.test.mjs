// The reference's own tests: of its command line on `posthouse skillfile`, and of its parser, lint, compiler and filters
// on `posthouse skill test`. `reference/README.md` says how.
//
// Every case that fails is listed in reference/failing.json with its reason, and every listed case fails.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, readFile, readdir, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";

const here = (name) => fileURLToPath(new URL(`../reference/${name}`, import.meta.url));
/** What a test file of the part names. Other files test parts of the reference that Posthouse has in another form. */
const OURS = /"\.\.\/src\/(parser|lint|compile|filters)\.js"|dist\/cli\.js|"cli\.js"/;
const LEAST_PASSING = 0.9;

/** Runs vitest on files of the reference. Its exit code says only whether a case failed. */
async function results(runtime, files, folder) {
  const report = join(folder, "report.json");
  const vitest = join(runtime, "node_modules/vitest/vitest.mjs");
  const options = ["run", "--root", ".", "--config", here("vitest.config.mjs"), "--outputFile", report];
  const environment = { ...process.env, REAL_NODE: process.execPath, PATH: `${here("bin")}:${process.env.PATH}` };
  environment.POSTHOUSE_BIN ??= "posthouse";
  const child = spawn(process.execPath, [vitest, ...options, ...files], { cwd: runtime, env: environment });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (output += data));
  await new Promise((done) => child.on("close", done));
  const text = await readFile(report, "utf8").catch(() => assert.fail(output));
  return JSON.parse(text).testResults;
}

it("the reference's tests of parser, lint, compiler, filters and command line pass", async (test) => {
  const runtime = await realpath(fileURLToPath(new URL("../node_modules/skillscript-runtime", import.meta.url)));
  const names = (await readdir(join(runtime, "tests"))).filter((name) => name.endsWith(".test.ts"));
  const texts = await Promise.all(names.map((name) => readFile(join(runtime, "tests", name), "utf8")));
  const files = names.filter((_, index) => OURS.test(texts[index])).map((name) => `tests/${name}`);
  assert.ok(files.length > 0);

  const folder = await mkdtemp(join(tmpdir(), "reference-"));
  const found = await results(runtime, files, folder).finally(() => rm(folder, { recursive: true, force: true }));
  const broken = found.filter(({ status, assertionResults }) => status === "failed" && assertionResults.length === 0);
  assert.deepEqual(broken.map(({ name, message }) => `${basename(name)}: ${message}`), []);
  const cases = found.flatMap(({ name, assertionResults }) =>
    assertionResults
      .filter(({ status }) => status === "passed" || status === "failed")
      .map(({ fullName, status, meta }) => ({
        name: `${basename(name)}: ${fullName}`,
        passes: status === "passed",
        isReached: meta?.reachesPosthouse === true,
      })),
  );

  const listed = Object.entries(JSON.parse(await readFile(here("failing.json"), "utf8")));
  const reasons = new Map(listed.flatMap(([reason, names]) => names.map((name) => [name, reason])));
  const reached = cases.filter(({ isReached }) => isReached);
  const passing = (list) => list.filter(({ passes }) => passes).length;
  test.diagnostic(`${files.length} files: ${passing(cases)} of ${cases.length} cases pass`);
  test.diagnostic(`those that reach Posthouse: ${passing(reached)} of ${reached.length} pass`);
  for (const [reason, names] of listed) test.diagnostic(`fail: ${names.length}, ${reason}`);

  const failing = cases.filter(({ passes }) => !passes).map(({ name }) => name);
  assert.deepEqual(failing.filter((name) => !reasons.has(name)), [], "cases that fail and are not listed");
  assert.deepEqual([...reasons.keys()].filter((name) => !failing.includes(name)), [], "listed cases that pass or are gone");
  assert.ok(passing(reached) >= LEAST_PASSING * reached.length);
});
