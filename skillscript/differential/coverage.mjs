// Lines of the skillscript runtime that a process has reached, from what NODE_V8_COVERAGE wrote.

import { readFile, readdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The files whose lines count. */
export const FILES = ["parser", "runtime", "filters", "composition", "compile", "lint"].map((name) => `${name}.js`);

const isCode = (line) => !/^\s*(\/\/.*|\/?\*.*|[})\];,]*)$/.test(line);

/** Ranges come with the outer ones first, so that inner ones replace their counts. */
function reachedLines(text, functions) {
  const counts = new Uint8Array(text.length);
  const ranges = functions.flatMap(({ ranges }) => ranges);
  ranges.sort((a, b) => a.startOffset - b.startOffset || b.endOffset - a.endOffset);
  for (const { startOffset, endOffset, count } of ranges) counts.fill(count > 0 ? 1 : 0, startOffset, endOffset);
  const [reached, all] = [new Set(), new Set()];
  let start = 0;
  for (const [index, line] of text.split("\n").entries()) {
    if (isCode(line)) {
      all.add(index + 1);
      const from = start + line.search(/\S/);
      if (counts.subarray(from, start + line.trimEnd().length).some((count) => count > 0)) reached.add(index + 1);
    }
    start += line.length + 1;
  }
  return { reached, all };
}

/** By file: `reached`, the numbers of the reached lines, and `all` lines with code. */
export async function coverage(folder) {
  const [report] = (await readdir(folder)).filter((name) => name.startsWith("coverage-"));
  const { result } = JSON.parse(await readFile(join(folder, report), "utf8"));
  const lines = {};
  for (const { url, functions } of result) {
    if (!/\/dist\/[a-z]+\.js$/.test(url) || !FILES.includes(basename(url))) continue;
    lines[basename(url)] = reachedLines(await readFile(fileURLToPath(url), "utf8"), functions);
  }
  return lines;
}
