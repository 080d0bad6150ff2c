// The filters of the reference, answered by Posthouse: a program reads the value from a file and filters it.

import { spawnSync } from "node:child_process";

import { inside, played } from "./posthouse.mjs";

export const parseFilterChain = inside("parseFilterChain");

export function applyFilter(value, filter, argument) {
  const call = argument === undefined ? filter : `${filter}:"${argument}"`;
  const source = [
    "# Skill: filtered",
    "go:",
    '    file_read(path="@FSROOT@/value") -> V',
    // The only text that is neither quoted nor read as a list.
    `    ? \${V|${call}}`,
    "default: go",
    "",
  ].join("\n");
  const { run } = played(source, { skip_lint: true }, { files: { value } });
  if (run.errors.length > 0) throw new Error(run.errors[0].message);
  return run.transcript[0].slice("Reason: ".length);
}

/** The filters of the language reference that Posthouse prints. */
function listedFilters() {
  const { stdout } = spawnSync(process.env.POSTHOUSE_BIN ?? "posthouse", ["skill", "reference"], { encoding: "utf8" });
  const section = /^## References and filters$([\s\S]*?)^## /m.exec(stdout)[1];
  return [...section.matchAll(/^- `([a-z]+)/gm)].map(([, name]) => name);
}

export const KNOWN_FILTERS = listedFilters();
