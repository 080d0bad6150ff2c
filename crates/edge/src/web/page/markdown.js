// A small part of markdown as DOM nodes. Text only ever becomes text nodes, so nothing an agent writes can
// become markup; a fence that is still open while the answer grows already reads as code.

const FENCE = /^\s*```\s*([\w+#.-]*)/;
const BULLET = /^\s*[-*+]\s+(.*)$/;
const NUMBER = /^\s*(\d{1,9})[.)]\s+(.*)$/;
const HEADING = /^\s{0,3}#{1,6}\s+(.*?)\s*#*\s*$/;
const QUOTE = /^\s{0,3}>\s?(.*)$/;

/** Nodes for `text`. */
export function render(text) {
  const out = document.createDocumentFragment();
  const rows = text.replace(/\r\n?/g, "\n").split("\n");
  let paragraph = [];
  const flush = () => {
    if (paragraph.some((row) => row.trim())) out.append(element("p", inline(paragraph.join("\n").replace(/^\n+|\n+$/g, ""))));
    paragraph = [];
  };
  for (let at = 0; at < rows.length; ) {
    const row = rows[at];
    if (FENCE.test(row)) {
      flush();
      const end = rows.findIndex((other, index) => index > at && /^\s*```\s*$/.test(other));
      out.append(code(rows.slice(at + 1, end < 0 ? rows.length : end).join("\n")));
      at = end < 0 ? rows.length : end + 1;
    } else if (HEADING.test(row)) {
      flush();
      out.append(element("h3", inline(HEADING.exec(row)[1])));
      at += 1;
    } else if (BULLET.test(row) || NUMBER.test(row)) {
      flush();
      at = list(rows, at, out);
    } else if (QUOTE.test(row)) {
      flush();
      const quoted = [];
      for (; at < rows.length && QUOTE.test(rows[at]); at += 1) quoted.push(QUOTE.exec(rows[at])[1]);
      out.append(element("blockquote", inline(quoted.join("\n"))));
    } else {
      if (row.trim()) paragraph.push(row);
      else flush();
      at += 1;
    }
  }
  flush();
  return out;
}

/** A block of code with a button that copies it. */
export function code(text) {
  const block = element("div");
  block.className = "code";
  const copy = element("button", "Copy");
  copy.type = "button";
  copy.className = "copy";
  const inner = element("code", text);
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
    } catch {
      // No clipboard outside secure pages: leave it selected, ready for the keyboard.
      getSelection().selectAllChildren(inner);
    }
  });
  block.append(element("pre", inner), copy);
  return block;
}

function list(rows, at, out) {
  const numbered = NUMBER.test(rows[at]);
  const pattern = numbered ? NUMBER : BULLET;
  const items = element(numbered ? "ol" : "ul");
  if (numbered) items.start = Number(NUMBER.exec(rows[at])[1]);
  while (at < rows.length && pattern.test(rows[at]) && !FENCE.test(rows[at])) {
    const item = [pattern.exec(rows[at]).at(-1)];
    at += 1;
    while (at < rows.length && /^\s{2,}\S/.test(rows[at]) && !pattern.test(rows[at]) && !FENCE.test(rows[at])) item.push(rows[at++].trim());
    items.append(element("li", inline(item.join("\n"))));
  }
  out.append(items);
  return at;
}

// Code first: nothing inside it means anything. Underscores inside a word are part of the word.
const INLINE = new RegExp(
  [
    "(?<ticks>`+)(?<code>[^`](?:[\\s\\S]*?[^`])?)\\k<ticks>(?!`)",
    "\\[(?<label>[^\\]\\n]{1,500})\\]\\((?<target>https?://[^\\s()<>]+(?:\\([^\\s()<>]*\\)[^\\s()<>]*)*)\\)",
    "(?<bare>https?://[^\\s<>\"'`]+)",
    "\\*\\*(?<strong>(?=\\S)[^\\n]+?(?<=\\S))\\*\\*(?!\\*)",
    "(?<![\\p{L}\\p{N}_])__(?<strongToo>(?=\\S)[^\\n]+?(?<=\\S))__(?![\\p{L}\\p{N}_])",
    "\\*(?<em>(?=[^\\s*])[^*\\n]+?(?<=\\S))\\*",
    "(?<![\\p{L}\\p{N}_])_(?<emToo>(?=[^\\s_])[^_\\n]+?(?<=\\S))_(?![\\p{L}\\p{N}_])",
  ].join("|"),
  "gu",
);

function inline(text, depth = 0) {
  const out = document.createDocumentFragment();
  let done = 0;
  for (const found of depth < 4 ? text.matchAll(INLINE) : []) {
    const part = found.groups;
    let [whole, node] = [found[0], null];
    if (part.code !== undefined) node = element("code", part.code);
    else if (part.target !== undefined) node = link(part.target, inline(part.label, depth + 1));
    else if (part.bare !== undefined) {
      whole = trimmed(part.bare);
      node = link(whole, whole);
    } else if (part.strong ?? part.strongToo) node = element("strong", inline(part.strong ?? part.strongToo, depth + 1));
    else node = element("em", inline(part.em ?? part.emToo, depth + 1));
    out.append(text.slice(done, found.index), node ?? whole);
    done = found.index + whole.length;
  }
  out.append(text.slice(done));
  return out;
}

/** A bare address without the punctuation of the sentence around it. */
function trimmed(address) {
  const bare = address.replace(/[.,;:!?*_]+$/, "");
  return bare.endsWith(")") && !bare.includes("(") ? bare.slice(0, -1) : bare;
}

/** Only http and https, and the other side learns nothing of us. Anything else stays text. */
function link(target, inside) {
  let url = null;
  try {
    url = new URL(target);
  } catch {
    return null;
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") return null;
  const anchor = element("a", inside);
  anchor.href = url.href;
  anchor.target = "_blank";
  anchor.rel = "noopener noreferrer nofollow";
  return anchor;
}

function element(name, inside) {
  const made = document.createElement(name);
  if (inside !== undefined) made.append(inside);
  return made;
}
