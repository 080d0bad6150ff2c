// Calls of `posthouse skill test`, which plays a case in the format of vectors/skills and prints what it found.

import { spawnSync } from "node:child_process";
import { appendFileSync } from "node:fs";

/** Records that the running test has reached Posthouse. */
export function reached() {
  if (process.env.POSTHOUSE_REACHED !== undefined) appendFileSync(process.env.POSTHOUSE_REACHED, "x");
}

/** A function of the reference's inside that no skill can ask for. */
export function inside(name) {
  return () => {
    reached();
    throw new Error(`inside: ${name}`);
  };
}

/** What Posthouse finds in one case: `parse`, `lint`, `compile` and `run`. */
export function played(source, options, surroundings = {}) {
  reached();
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
