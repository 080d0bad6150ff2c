// Calls of `posthouse skill test`, which plays a case in the format of vectors/skills and prints what it found.

import { spawnSync } from "node:child_process";

/** What Posthouse finds in one case: `parse`, `lint`, `compile` and `run`. */
export function played(source, options, surroundings = {}) {
  const cases = [{ id: "case", source, options, ...surroundings }];
  const ended = spawnSync(process.env.POSTHOUSE_BIN ?? "posthouse", ["skill", "test", "-", "--json", "--found"], {
    input: JSON.stringify(cases),
    encoding: "utf8",
    maxBuffer: 1 << 30,
  });
  const result = ended.stdout === "" ? undefined : JSON.parse(ended.stdout).cases[0];
  if (result?.found === undefined) throw new Error(ended.stderr || result?.differences.join("\n"));
  return result.found;
}
