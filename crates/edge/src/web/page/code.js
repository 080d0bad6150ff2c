// Code blocks with a copy button.

/** A code block with a copy button. */
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
      // Browsers have no clipboard on pages without https. The text is selected instead, to be copied by keyboard.
      getSelection().selectAllChildren(inner);
    }
  });
  block.append(element("pre", inner), copy);
  return block;
}

/** Adds a copy button to every code block inside an element. */
export function copyable(inside) {
  for (const block of inside.querySelectorAll("pre")) block.replaceWith(code(block.textContent.replace(/\n$/, "")));
}

function element(name, inside) {
  const made = document.createElement(name);
  if (inside !== undefined) made.append(inside);
  return made;
}
