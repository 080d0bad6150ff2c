// A generator of skills for comparing two runtimes. The same seed gives the same programs.
//
// The programs mostly pass lint, so that most of them run. They never wait, because the clocks of the two environments
// differ, and never loop over `$(LIST)` while they append to it, because that does not end in the reference.

import { mutant } from "./mutants.mjs";

/** Numbers from a seed (mulberry32). */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

const WORDS = ["alpha", "two words", "", " x ", "é😀", "0", "12", "3.50", "-1", "true", "null", "a,b", "it's", "100%", "<b>", "1767225600", "2026-01-02", "line1\\nline2", "q\\\"q"];
const LISTS = ["[]", "[a, b, c]", "[1, 2]", "[x]", "['p q', r]"];
const JSONS = ['{"k":"v","n":2,"l":[1,"b"],"o":{"d":true}}', "[1,2,3]", '["b","a"]', '[{"id":"x","n":1},{"id":"y"}]', "17", '"text"', "null", '{"2":"b","1":"a"}'];
const FILTERS = ["trim", "length", "url", "shell", "json", 'fallback:"none"', 'contains:"a"', 'head:"1"', 'tail:"1"', 'lines:"1-2"', 'pluck:"id"', "isodate"];
const SAFE_FILTERS = FILTERS.slice(0, 10);
const TOOL_CALLS = ["items", "envelope", "empty_text", "blank_text", "empty_list", "nothing", "number", "yes", "image", "soft_fail", "send_note", 'fail why="gone"', 'update_row row=3 approved="yes"', "update_row row=3", "no_such_tool"];
const FIELDS = ["k", "n", "l", "o.d", "items", "id", "total", "nested.deep.leaf", "0", "length", "missing", "transcript", "outputs.text", "K"];

/** Skills that the programs run, put in, read and overwrite. */
const STORED = {
  greeter: "# Skill: greeter\n# Status: Approved\n# Vars: WHO=nobody\n# Returns: K\ngo:\n    $set K = hello ${WHO}\n    emit(text=\"${K}\")\ndefault: go\n",
  failing: "# Skill: failing\n# Status: Approved\ngo:\n    $ tools.fail why=\"inside\" -> R\ndefault: go\n",
  draft: "# Skill: draft\n# Status: Draft\ngo:\n    emit(text=\"draft\")\ndefault: go\n",
  needy: "# Skill: needy\n# Status: Approved\n# Vars: MUST\ngo:\n    emit(text=\"${MUST}\")\ndefault: go\n",
  rules: "# Skill: rules\n# Status: Approved\n# Type: data\ngo:\n    emit(text=\"be kind\")\n    emit(text=\"to ${V0|fallback:\"all\"}\")\ndefault: go\n",
};

class Writer {
  constructor(next) {
    this.next = next;
    this.lists = ["L0"];
    this.texts = ["V0", "V1", "A", "B"];
    this.values = ["V0", "V1", "A", "B", "L0"];
    this.count = 2;
  }

  chance(part) {
    return this.next() < part;
  }

  one(list) {
    return list[this.at(list)];
  }

  /** A place in a list. */
  at(list) {
    return Math.floor(this.next() * list.length);
  }

  /** A name for a new variable, or one that is in use. */
  target() {
    if (this.chance(0.5)) return this.one(this.texts);
    return `V${this.count++}`;
  }

  bound() {
    const name = `R${this.count++}`;
    this.values.push(name);
    return name;
  }

  reference() {
    const name = this.chance(0.03) ? "NOWHERE" : this.one(this.values);
    const path = name.startsWith("R") && this.chance(0.5) ? `.${this.one(FIELDS)}` : "";
    let filters = "";
    if (this.chance(0.45)) filters += `|${this.one(this.chance(0.85) ? SAFE_FILTERS : FILTERS)}`;
    if (this.chance(0.12)) filters += `|${this.one(SAFE_FILTERS)}`;
    if (path !== "" && this.chance(0.6)) filters += '|fallback:"-"';
    return this.chance(0.15) ? `$(${name}${path}${filters})` : `\${${name}${path}${filters}}`;
  }

  text() {
    let text = "";
    for (let part = 0; part <= Math.floor(this.next() * 3); part += 1) {
      text += this.chance(0.5) ? this.reference().replaceAll('"', '\\"') : this.one(WORDS);
      if (this.chance(0.5)) text += " ";
    }
    return text;
  }

  /**
   * Text for arguments. It rarely holds an escaped quote, because the reference reads those differently, and a program
   * with such a known difference shows no other.
   */
  plainText() {
    const text = this.text();
    return text.includes('"') && !this.chance(0.05) ? text.replaceAll(/\\?"/g, "").replaceAll(/\|(fallback|contains|head|tail|lines|pluck):[^|})]*/g, "") : text;
  }

  condition(depth = 0) {
    if (depth < 2 && this.chance(0.3)) {
      return `${this.condition(depth + 1)} ${this.one(["and", "or"])} ${this.condition(depth + 1)}`;
    }
    if (depth < 2 && this.chance(0.15)) return `not ${this.condition(depth + 1)}`;
    if (depth === 0 && this.chance(0.1)) return `(${this.condition(1)})`;
    const filter = this.chance(0.25) ? `|${this.one(["trim", "length", 'fallback:"none"'])}` : "";
    const left = `\${${this.one(this.values)}${filter}}`;
    const literal = () => `"${this.one(["a", "12", "0", "", "alpha", "3", "none"])}"`;
    return this.one([
      () => left,
      () => `${left} ${this.one(["==", "!="])} ${this.chance(0.7) ? literal() : `\${${this.one(this.values)}}`}`,
      () => `${left} ${this.one(["<", ">", "<=", ">="])} ${literal()}`,
      () => `${left} ${this.one(["in", "not in"])} \${${this.one(this.lists)}}`,
    ])();
  }

  trailer(chance = 0.7) {
    if (!this.chance(chance)) return "";
    const fallback = this.chance(0.4) ? ` (fallback: ${this.one(['"fb"', "[]", "[a, b]", "0", "plain"])})` : "";
    return ` -> ${this.bound()}${fallback}`;
  }

  argument() {
    const value = this.one([
      () => `"${this.plainText()}"`,
      () => this.reference(),
      () => this.one(["5", "-2", "1.5", "true", "null", "word", "'single q'"]),
      () => `["x", "${this.one(["y", "${V0}"])}"]`,
      () => `{"k": "${this.one(["v", "${V1}"])}", "n": 2}`,
    ])();
    return `${this.one(["a", "b", "value", "q"])}=${value}`;
  }

  shell() {
    return [this.one([
      () => `shell(command="echo ${this.plainText()}")`,
      () => `shell(command="printf 'a b'")`,
      () => `shell(argv=["printf", "%s-%s", "${this.one(["x", "${V0}"])}", "two words"])`,
      () => `shell(command="${this.one(["false", "curl x", "cat @FSROOT@/in.txt", "cat @FSROOT@/none"])}")`,
      () => `shell(command="echo \${V0|shell} | wc -c", unsafe=true)`,
    ])() + this.trailer()];
  }

  file() {
    return [this.one([
      () => `file_read(path="@FSROOT@/${this.one(["in.txt", "none.txt", "../x", "sub/data.json"])}")${this.trailer()}`,
      () => `file_write(path="@FSROOT@/out/${this.one(["a.txt", "b-${A}.txt"])}", content="${this.plainText()}"${this.chance(0.8) ? ', approved="yes"' : ""})`,
    ])()];
  }

  secret() {
    return [this.one([
      () => `$ tools.echo a="Bearer {{secret.KEY}}" b=1${this.trailer()}`,
      () => `shell(argv=["printf", "{{secret.KEY}}"])${this.trailer()}`,
      () => `shell(command="echo {{secret.GONE}}")${this.trailer()}`,
    ])()];
  }

  agent() {
    const message = this.chance(0.8) ? `, message="${this.plainText()}"` : "";
    const connectors = this.chance(0.2) ? `, connectors=["${this.one(["beta", "primary", "ghost"])}"]` : "";
    return [`notify(agent="${this.one(["desk", "lamp", "scout", "nobody", "desk@pane"])}"${message}${connectors})${this.trailer(0.6)}`];
  }

  composition() {
    return [this.one([
      () => `execute_skill(name="greeter", WHO="${this.one(["Ada", "${V0}", "${L0}"])}")${this.trailer(0.9)}`,
      () => `$ execute_skill skill_name="${this.one(["greeter", "failing", "needy", "draft", "missing"])}" WHO="x"${this.trailer(0.9)}`,
      () => `$ execute_skill skill_name="greeter" inputs={"WHO": "\${A}"}${this.trailer(0.9)}`,
      () => `inline(skill="rules")${this.chance(0.4) ? ` -> ${this.bound()}` : ""}`,
    ])()];
  }

  /** One operation of each kind that leaves the skill: a command, a file, a secret, an agent, another skill. */
  effects() {
    return [...this.shell(), ...this.file(), ...this.secret(), ...this.agent(), ...this.composition()];
  }

  /** The lines of one operation, without indentation. */
  operation(depth) {
    const block = (lines) => lines.map((line) => `    ${line}`);
    const kinds = [
      [6, () => {
        const value = this.one([() => this.text(), () => `"${this.text()}"`, () => this.one(LISTS), () => this.reference()])();
        const name = this.target();
        if (!this.texts.includes(name)) this.texts.push(name), this.values.push(name);
        return [`$set ${name} = ${value || "x"}`];
      }],
      [4, () => [`$append ${this.one(["L0", "V1"])} ${this.chance(0.5) ? this.reference() : `"${this.text()}"`}`]],
      [6, () => [`emit(text="${this.text()}")`]],
      [1, () => [`? ${this.text() || "why"}`]],
      [5, () => {
        const connector = this.one(["tools.", "tools.", "tools.", "tools.", "fixed.", "typed.", "", this.chance(0.2) ? "ghost." : "tools."]);
        const tool = connector === "tools." && this.chance(0.6) ? this.one(TOOL_CALLS) : `${this.one(["echo", "text", "echo"])} ${this.argument()} ${this.argument()}`;
        return [`$ ${connector}${tool}${this.trailer()}`];
      }],
      [2, () => [`$ json_parse ${this.chance(0.7) ? this.one(JSONS) : this.reference()}${this.trailer(0.9)}`]],
      [1, () => [`$ llm prompt="${this.plainText()}" maxTokens=9${this.trailer()}`]],
      [2, () => this.shell()],
      [2, () => this.file()],
      [1.5, () => this.secret()],
      [2, () => this.agent()],
      [2, () => this.composition()],
    ];
    if (depth < 2) {
      kinds.push(
        [2, () => [`if ${this.condition()}:`, ...block(this.block(depth + 1)), ...(this.chance(0.3) ? [`elif ${this.condition()}:`, ...block(this.block(depth + 1))] : []), ...(this.chance(0.4) ? ["else:", ...block(this.block(depth + 1))] : [])]],
        [2, () => {
          const list = this.one(["${L0}", "[p, q]", "${R0}", "${A}", "$(B)", "${V1}"]);
          this.values.push("I");
          const body = block(this.block(depth + 1));
          this.values = this.values.filter((name) => name !== "I");
          return [`foreach I in ${list}:`, ...body];
        }],
      );
    }
    const sum = kinds.reduce((total, [weight]) => total + weight, 0);
    let at = this.next() * sum;
    const [, write] = kinds.find(([weight]) => (at -= weight) < 0) ?? kinds[0];
    return write();
  }

  block(depth) {
    const lines = [];
    for (let op = 0; op < 1 + Math.floor(this.next() * (depth === 0 ? 5 : 2)); op += 1) lines.push(...this.operation(depth));
    return lines;
  }

  skill() {
    const targets = 1 + Math.floor(this.next() * 3);
    const body = [];
    for (let target = 0; target < targets; target += 1) {
      const needs = target === 0 ? "" : ` t${target - 1}`;
      body.push(`t${target}:${needs}`);
      if (target === 0) {
        body.push("    $set V0 = start", "    $set V1 = \"\"", "    $set L0 = [a, b]", "    $ json_parse [1,2] -> R0");
        this.values.push("R0");
      } else if (this.chance(0.8)) {
        // Lint wants lists to be set in the target that appends to them.
        body.push("    $set V1 = \"\"", "    $set L0 = [c]");
      }
      const effects = target === targets - 1 && this.chance(0.15) ? this.effects() : [];
      body.push(...[...effects, ...this.block(0)].map((line) => `    ${line}`));
      if (this.chance(0.35)) body.push("else:", ...this.block(1).map((line) => `    ${line}`));
    }
    body.push(`default: t${targets - 1}`);
    const header = ["# Skill: generated", "# Status: Approved", "# Vars: A=one, B=[x, y]", "# Requires: secret.KEY secret.GONE"];
    if (this.chance(0.3)) header.push("# Autonomous: true");
    if (this.chance(0.2)) header.push(`# Output: ${this.one(["text", "agent: desk", "template: lamp", "none", "text, agent: scout@x"])}`);
    if (this.chance(0.1)) body.push("", "Result for ${A}: ${V0}");
    return [...header, ...body, ""].join("\n");
  }
}

/** What a program does, by its text. */
export const FEATURES = {
  shell: /\bshell\(/,
  files: /\bfile_(read|write)\(/,
  secrets: /\{\{ *secret\./,
  agents: /\bnotify\(|# Output:.*\b(agent|template):/,
  composition: /\b(execute_skill|inline)\b/,
};

/** One program in the format of vectors/skills: a new one, or every second time a changed copy of a recorded one. */
export function program(seed, vectors) {
  const writer = new Writer(random(seed));
  const made = seed % 2 === 0 ? mutant(vectors, seed / 2 - 1, writer, STORED) : generated(seed, writer);
  const features = Object.keys(FEATURES).filter((name) => FEATURES[name].test(made.source));
  return { case: made, features };
}

function generated(seed, writer) {
  const source = writer.skill();
  const options = { dump_files: true, secrets: { KEY: "s3cret" }, unsafe: true };
  if (writer.chance(0.3)) options.inputs = { A: writer.one(["given", "", "[1, 2]", 7, ["j", "k"]]) };
  if (writer.chance(0.1)) options.mechanical = true;
  if (writer.chance(0.1)) options.format = "prose";
  if (writer.chance(0.2)) options.agent_id = "owner-1";
  const files = { "in.txt": "first\nsecond\n", "sub/data.json": '{"k": [1, 2]}' };
  return { id: `seed-${seed}`, source, options, files, stored_skills: STORED };
}
