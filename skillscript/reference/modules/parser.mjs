// The parser of the reference, answered by Posthouse: the same function, and the same fields in its result.

import { inside, played } from "./posthouse.mjs";

/** What a skill has whose text does not set the field. */
const EMPTY = {
  name: null,
  description: null,
  tags: [],
  type: "procedural",
  status: null,
  approvalToken: null,
  timeout: null,
  deadline: null,
  vars: [],
  returns: [],
  requires: [],
  secretRequires: [],
  requiredCapabilities: [],
  entryTarget: null,
  entryTargetExplicit: false,
  triggers: [],
  outputs: [],
  outputTemplate: null,
  templateAmbiguousLines: [],
  eventType: null,
  templates: [],
  autonomous: null,
  parseErrors: [],
};

/**
 * Tests tell kinds of parse errors apart by words in their texts. Posthouse names the kind, and its own words follow.
 * Malformed and legacy operations are named by the first word in backquotes.
 */
const KINDS = {
  "unsupported-condition": () => "Unsupported condition",
  "single-equals": () => "`=` is not valid in a condition",
  "malformed-op": (named) => `Malformed ${named}`,
  "malformed-call": () => "Malformed function-call",
  "malformed-block": (named) => `Malformed ${named}`,
  "legacy-op": (named) => `Legacy ${named}`,
};

function parseError(message, kind) {
  const named = /`[^`]*`/.exec(message)?.[0];
  return KINDS[kind] === undefined ? message : `${KINDS[kind](named)}: ${message}`;
}

/** The texts of target lists, for functions that get such a list alone. */
export const sources = new WeakMap();

/** The result of the reference's parser, from the form of the vectors. */
export function parsedSkill(form, source) {
  const { targets = [], parseErrors = [], parseErrorKinds = [], ...fields } = form;
  // The vectors leave out what is false.
  if (/^#\s*autonomous\s*:\s*false\s*$/im.test(source) && fields.autonomous === undefined) fields.autonomous = false;
  const parsed = { ...structuredClone(EMPTY), ...fields };
  parsed.vars = parsed.vars.map(({ name, default: value, required }) => ({
    name,
    ...(value === undefined || value === null ? {} : { default: value }),
    required: required === true,
  }));
  parsed.parseErrors = parseErrors.map((message, index) => parseError(message, parseErrorKinds[index]));
  parsed.targets = new Map(targets.map((target) => [target.name, target]));
  sources.set(parsed.targets, source);
  return parsed;
}

export function parse(source) {
  return parsedSkill(played(source, { parse_only: true }).parse, source);
}

/** The value of `$set`, with quotes, escapes and indentation processed. */
export function processSetValue(raw) {
  return parse(`go:\n    $set X = ${raw}\ndefault: go\n`).targets.get("go").ops[0].setValue;
}

export function interpretDoubleQuotedEscapes(text) {
  return processSetValue(`"${text}"`);
}

export function dedentTripleQuoteBody(body) {
  return processSetValue(`"""${body}"""`);
}

export const tokenizeKeywordArgs = inside("tokenizeKeywordArgs");
export const extractSkillFromMarkdown = inside("extractSkillFromMarkdown");
