// What a message has besides its text: the buttons of a question, reactions, its thread, and the message it replies to.

/** Longest quoted text above a reply, in characters. */
const QUOTE = 120;

export class Marks {
  #acts;
  #threads = new Map();

  /** `acts` are called when somebody presses a button, replies to a message or opens a thread. */
  constructor(acts) {
    this.#acts = acts;
  }

  /** The empty area of a message. */
  area(item) {
    const quote = document.createElement("div");
    quote.className = "quote";
    quote.dataset.testid = "quote";
    quote.hidden = true;
    const area = document.createElement("div");
    area.className = "marks";
    const part = (name) => {
      const made = document.createElement("div");
      made.className = name;
      made.dataset.testid = name;
      made.hidden = true;
      area.append(made);
    };
    part("buttons");
    part("reactions");
    const thread = this.#button("thread", () => this.#acts.enter(item.dataset.thread, this.name(item.dataset.thread)));
    thread.hidden = true;
    const reply = this.#button("reply", () => this.#acts.reply(item.dataset.messageId, item.querySelector(".body").textContent));
    reply.textContent = "Reply";
    area.append(thread, reply);
    return [quote, area];
  }

  /** Shows the marks that `line` has. A mark that it does not name stays as it is. */
  show(item, line, quoted) {
    if (line.prompt) this.#buttons(item, line.prompt);
    if (line.reactions) {
      const shown = item.querySelector(".reactions");
      shown.textContent = line.reactions.join(" ");
      shown.hidden = line.reactions.length === 0;
    }
    if (line.thread) {
      item.dataset.thread = line.thread;
      this.#tag(item.querySelector(".thread"), line.thread);
    }
    if (line.reply_to && quoted !== undefined) {
      const quote = item.querySelector(".quote");
      quote.textContent = quoted.length > QUOTE ? `${quoted.slice(0, QUOTE)} …` : quoted;
      quote.hidden = false;
    }
  }

  name(thread) {
    return this.#threads.get(thread) ?? "a thread";
  }

  /** Records the names of threads, and shows them on the messages of `list`. */
  named(list, threads) {
    for (const { thread_id, name } of threads) this.#threads.set(thread_id, name);
    for (const item of list.querySelectorAll("[data-thread]")) this.#tag(item.querySelector(".thread"), item.dataset.thread);
  }

  #tag(button, thread) {
    button.textContent = `in ${this.name(thread)}`;
    button.hidden = false;
  }

  #buttons(item, { options, pressed }) {
    const row = item.querySelector(".buttons");
    row.hidden = false;
    row.dataset.pressed = pressed ?? "";
    row.replaceChildren(
      ...options.map(({ id, label }) => {
        const button = this.#button("option", async () => {
          for (const one of row.children) one.disabled = true;
          if (!(await this.#acts.press(item.dataset.messageId, id))) for (const one of row.children) one.disabled = false;
        });
        button.textContent = label;
        button.dataset.option = id;
        button.disabled = Boolean(pressed);
        button.setAttribute("aria-pressed", String(pressed === id));
        return button;
      }),
    );
  }

  #button(name, act) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = name === "option" ? "quiet option" : `link ${name}`;
    button.dataset.testid = name;
    button.addEventListener("click", act);
    return button;
  }
}
