// Changed copies of the recorded programs. Each has all that its original does, and one or two changes.
//
// The first copy of a program only gets additional operations, so that everything the original reaches is reached. Later
// copies also lose, repeat, swap and change lines.

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** Operations that stand in every target, and that lint accepts without knowing the rest of the skill. */
const ADDITIONS = [
  ['emit(text="added")'],
  ["$set M0 = [a, b]", "$append M0 c", 'emit(text="${M0|length} of ${M0|json}")'],
  ['$ tools.echo a="x" b=2 -> M1', 'emit(text="${M1.a}-${M1.b}")'],
  ["$ json_parse [1, 2] -> M2", "foreach M3 in ${M2}:", '    emit(text="${M3}")'],
  ['shell(argv=["printf", "%s", "two words"]) -> M4', 'if ${M4} == "two words":', '    emit(text="equal")'],
  ['file_write(path="@FSROOT@/added/m.txt", content="kept", approved="yes")'],
  ['file_read(path="@FSROOT@/missing.txt") -> M5 (fallback: "none")'],
  ['notify(agent="desk", message="added")'],
  ['execute_skill(skill_name="greeter", WHO="Ada") -> M6 (fallback: "nobody")'],
];

/** Words that replace each other. */
const WORDS = [
  ["==", "!=", "<", ">=", "in", "not in"],
  ["and", "or"],
  ["emit", "notify", "shell", "inline"],
  ["trim", "length", "json", "url", "shell"],
  ["tools", "fixed", "typed", "ghost"],
  ["text", "agent", "template", "none"],
  ["Approved", "Draft"],
  ["true", "false"],
  ['"', "'"],
  ["${", "$("],
  ["}", ")"],
  [" -> ", " ->"],
];

/** Recorded programs that the reference and Posthouse play alike. */
export function corpus(folder) {
  const names = readdirSync(folder).filter((name) => name.endsWith(".json")).sort();
  const vectors = names.flatMap((name) => JSON.parse(readFileSync(join(folder, name), "utf8")));
  // Where a recording shows a defect of the reference, every copy would show the same one.
  return vectors.filter(({ quirk, ours }) => quirk?.advice !== "fix" && ours === undefined);
}

/** Whether a change could alter what the case is about: its signature, or how long it takes. */
function isFixed({ signed_source, options = {} }) {
  return signed_source !== undefined || options.secured || options.realtime || options.want_deadline;
}

function add(lines, writer) {
  const places = lines.flatMap((line, index) => (/^ {4}[$a-z]/.test(line) && !/^ {4}(elif|else|needs)\b/.test(line) ? [index] : []));
  if (places.length === 0) return;
  const place = writer.one(places);
  lines.splice(place, 0, ...writer.one(ADDITIONS).map((line) => `    ${line}`));
}

const CHANGES = [
  add,
  (lines, writer) => lines.splice(writer.at(lines), 1),
  (lines, writer) => {
    const at = writer.at(lines);
    lines.splice(at, 0, lines[at]);
  },
  (lines, writer) => {
    const at = writer.at(lines);
    lines.splice(at, 2, ...lines.slice(at, at + 2).reverse());
  },
  (lines, writer) => {
    const at = writer.at(lines);
    lines[at] = writer.chance(0.5) ? `    ${lines[at]}` : lines[at].replace(/^ {1,4}/, "");
  },
  (lines, writer) => {
    const group = writer.one(WORDS);
    const from = writer.one(group);
    const places = lines.flatMap((line, index) => (line.includes(from) ? [index] : []));
    if (places.length === 0) return add(lines, writer);
    const at = writer.one(places);
    lines[at] = lines[at].replace(from, () => writer.one(group));
  },
];

/** The copy with this number. */
export function mutant(vectors, number, writer, stored) {
  const vector = vectors[number % vectors.length];
  const round = Math.floor(number / vectors.length);
  const { id, source, options = {}, files = {}, stored_skills = {}, signed_source } = vector;
  const copy = { source, options: { ...options }, files, stored_skills: { ...stored, ...stored_skills } };
  if (signed_source !== undefined) copy.signed_source = signed_source;
  if (!isFixed(vector)) {
    const lines = source.split("\n");
    if (round === 0) add(lines, writer);
    else for (let change = 0; change <= Math.floor(writer.next() * 2); change += 1) writer.one(CHANGES)(lines, writer);
    copy.source = lines.join("\n");
  }
  return { ...copy, id: `copy-${number}-of-${id}` };
}
