// Plays programs on the skillscript runtime, in a process of its own, so that NODE_V8_COVERAGE sees only them.
//
//   node play.mjs vectors FOLDER                     the recorded programs of the folder
//   node play.mjs generated FOLDER SEED COUNT FILE   generated programs; writes their records and features to the file

import { readFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { program } from "./generator.mjs";
import { corpus } from "./mutants.mjs";
import { record } from "./record.mjs";

const [from, ...rest] = process.argv.slice(2);

async function keysOf(folder) {
  return JSON.parse(await readFile(join(folder, "contracts/approval.json"), "utf8")).keypair;
}

async function playVectors(folder) {
  const keypair = await keysOf(folder);
  for (const name of (await readdir(folder)).filter((name) => name.endsWith(".json")).sort()) {
    for (const vector of JSON.parse(await readFile(join(folder, name), "utf8"))) {
      await record(vector, keypair);
    }
  }
}

async function playGenerated(folder, seed, count, file) {
  const [vectors, keypair] = [corpus(folder), await keysOf(folder)];
  const played = [];
  for (let at = Number(seed); at < Number(seed) + Number(count); at += 1) {
    const { case: generated, features } = program(at, vectors);
    played.push({ case: await record(generated, keypair), features });
  }
  await writeFile(file, JSON.stringify(played));
}

await (from === "vectors" ? playVectors(...rest) : playGenerated(...rest));
process.exit();
