// The conversation on the page: lines known by their ids, in the order they were said.

import { render } from "./markdown.js";

/** Past this far from the end, new lines do not pull the reader along. */
const NEAR = 120;

export class Lines {
  #list;
  #room;
  #latest;
  #known = new Map();

  constructor(list, room, latest) {
    this.#list = list;
    this.#room = room;
    this.#latest = latest;
    latest.addEventListener("click", () => this.toEnd());
    room.addEventListener("scroll", () => this.#near() && (latest.hidden = true), { passive: true });
  }

  get count() {
    return this.#known.size;
  }

  clear() {
    this.#known.clear();
    this.#list.replaceChildren();
    this.#latest.hidden = true;
  }

  has(id) {
    return this.#known.has(id);
  }

  /** Shows a line, or what became of it. True when it was not there before. */
  put(line) {
    let item = this.#known.get(line.message_id);
    const fresh = !item;
    const follow = this.#near() || (fresh && line.author === "person");
    if (fresh) {
      item = this.#item(line);
      this.#known.set(line.message_id, item);
      this.#list.append(item);
    }
    if (!line.pending) item.classList.remove("pending", "failed");
    this.#write(item, line);
    this.#settle(follow);
    return fresh;
  }

  /** The agent's message as it reads now. One that lies too far back to be on the page stays there. */
  edit(id, text) {
    const item = this.#known.get(id);
    if (!item) return;
    const follow = this.#near();
    this.#write(item, { author: "agent", text, said: Number(item.dataset.said) });
    if (follow) this.toEnd();
  }

  /** A message that could not be handed in, with a way to try again. */
  fail(id, why, again) {
    const item = this.#known.get(id);
    if (!item) return;
    item.classList.add("failed");
    const button = document.createElement("button");
    button.type = "button";
    button.className = "link";
    button.textContent = "Try again";
    button.addEventListener("click", again);
    item.querySelector(".about").replaceChildren(`${why} `, button);
  }

  drop(id) {
    this.#known.get(id)?.remove();
    this.#known.delete(id);
  }

  toEnd() {
    this.#room.scrollTop = this.#room.scrollHeight;
    this.#latest.hidden = true;
  }

  #item(line) {
    const item = document.createElement("li");
    item.className = line.pending ? "line pending" : "line";
    item.dataset.testid = "line";
    item.dataset.author = line.author;
    item.dataset.messageId = line.message_id;
    const body = document.createElement("div");
    body.className = "body";
    body.dir = "auto";
    const about = document.createElement("div");
    about.className = "about";
    item.append(body, about);
    return item;
  }

  #write(item, line) {
    const [body, about] = item.children;
    item.dataset.said = line.said;
    // A long answer that shrank leaves an empty line behind.
    item.hidden = line.text === "";
    if (line.author === "agent") body.replaceChildren(render(line.text));
    else body.textContent = line.text;
    if (line.pending) about.textContent = "sending";
    else about.replaceChildren(stamp(line.said));
  }

  #near() {
    const room = this.#room;
    return room.scrollHeight - room.scrollTop - room.clientHeight < NEAR;
  }

  #settle(follow) {
    if (follow) this.toEnd();
    else this.#latest.hidden = false;
  }
}

function stamp(millis) {
  const when = new Date(millis);
  const made = document.createElement("time");
  made.dateTime = when.toISOString();
  made.title = when.toLocaleString();
  const today = when.toDateString() === new Date().toDateString();
  const clock = { hour: "2-digit", minute: "2-digit" };
  made.textContent = today ? when.toLocaleTimeString([], clock) : when.toLocaleString([], { day: "numeric", month: "short", ...clock });
  return made;
}
