// The lint of the reference, answered by Posthouse.

import { known } from "./facts.mjs";
import { played } from "./posthouse.mjs";

/** Findings in the form of the reference. */
export function findings(found) {
  return found.map(({ remedy, ...finding }) => ({ ...finding, remediation: remedy }));
}

function result(found) {
  const list = findings(found);
  const count = (severity) => list.filter((finding) => finding.severity === severity).length;
  return { findings: list, errorCount: count("error"), warningCount: count("warning"), infoCount: count("info") };
}

export async function lint(source, options) {
  const { options: facts, stored } = await known(options);
  return result(played(source, { parse_only: true, ...facts }, { stored_skills: stored }).lint);
}
