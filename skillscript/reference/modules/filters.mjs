// The filters of the reference, answered by Posthouse: a program reads the value from a file and filters it.

import { played } from "./posthouse.mjs";

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
