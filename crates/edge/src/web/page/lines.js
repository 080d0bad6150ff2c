// The list of messages on the page, by message id, in the order they were sent.

import { copyable } from "./code.js";
import { Marks } from "./marks.js";
import { shown } from "./files.js";

/** Largest distance from the end, in pixels, at which the page scrolls to new messages by itself. */
const NEAR = 120;

export class Lines {
  #list;
  #room;
  #latest;
  #marks;
  #draft = null;
  #known = new Map();
  #fileUrl;

  constructor(list, room, latest, fileUrl, acts) {
    this.#marks = new Marks(acts);
    this.#fileUrl = fileUrl;
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
    this.#draft = null;
    this.#list.replaceChildren();
    this.#latest.hidden = true;
  }

  has(id) {
    return this.#known.has(id);
  }

  /** Shows or updates a message. True if it is new. */
  put(line) {
    let item = this.#known.get(line.message_id);
    const fresh = !item;
    const follow = this.#near() || (fresh && line.author === "person");
    if (fresh) {
      item = this.#item(line);
      this.#known.set(line.message_id, item);
      // The agent's next message replaces its preview.
      if (line.author === "agent") this.endDraft();
      this.#list.insertBefore(item, this.#draft);
    }
    if (!line.pending) item.classList.remove("pending", "failed");
    this.#write(item, line);
    this.#mark(item, line);
    this.#settle(follow);
    return fresh;
  }

  /** Shows changed marks of a message. */
  mark(line) {
    const item = this.#known.get(line.message_id);
    if (item) this.#mark(item, line);
  }

  /** Records the names of threads. */
  threads(threads) {
    this.#marks.named(this.#list, threads);
  }

  /** Shows a preview of the agent's next message below all others. */
  draft({ text, html }) {
    const follow = this.#near();
    if (!this.#draft) {
      this.#draft = this.#item({ author: "agent", message_id: "" });
      this.#draft.dataset.testid = "draft";
      this.#draft.classList.add("draft");
      this.#draft.querySelector(".marks").hidden = true;
      this.#list.append(this.#draft);
    }
    this.#fill(this.#draft, text, html);
    this.#settle(follow);
  }

  endDraft() {
    this.#draft?.remove();
    this.#draft = null;
  }

  /** Shows an edit of an agent's message. An edit of a message that is not on the page is ignored. */
  edit(id, text, html) {
    const item = this.#known.get(id);
    if (!item) return;
    const follow = this.#near();
    this.#write(item, { author: "agent", text, html, said: Number(item.dataset.said) });
    if (follow) this.toEnd();
  }

  /** Marks a message as acknowledged by the agent. */
  delivered(id) {
    const item = this.#known.get(id);
    if (!item) return;
    item.dataset.delivered = "true";
    this.#about(item);
  }

  /** Marks a message that could not be sent, with a button to try again. */
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
    const [quote, marks] = this.#marks.area(item);
    item.append(quote, body, marks, about);
    return item;
  }

  #mark(item, line) {
    const replied = line.reply_to && this.#known.get(line.reply_to);
    this.#marks.show(item, line, replied?.querySelector(".body").textContent);
  }

  #fill(item, text, html) {
    const body = item.querySelector(".body");
    // An answer that became shorter leaves empty messages, which are hidden.
    item.hidden = text === "" && !item.querySelector(".files");
    // The server rendered this HTML and escaped the agent's text. Without HTML, the text is shown unrendered.
    body.classList.toggle("plain", !html);
    if (html) {
      body.innerHTML = html;
      copyable(body);
    } else body.textContent = text;
    body.hidden = text === "";
  }

  #attach(item, files) {
    if (!files?.length || item.querySelector(".files")) return;
    const shownFiles = document.createElement("div");
    shownFiles.className = "files";
    shownFiles.append(...shown(files, this.#fileUrl));
    item.querySelector(".body").after(shownFiles);
  }

  #write(item, line) {
    item.dataset.said = line.said;
    this.#attach(item, line.files);
    this.#fill(item, line.text, line.html);
    // A delivered message stays delivered, even if an older event comes later.
    if (typeof line.delivered === "boolean" && item.dataset.delivered !== "true") item.dataset.delivered = String(line.delivered);
    this.#about(item);
  }

  #about(item) {
    const about = item.querySelector(".about");
    if (item.classList.contains("pending")) return (about.textContent = "sending");
    const state = { true: " · delivered", false: " · sent" }[item.dataset.delivered] ?? "";
    about.replaceChildren(stamp(Number(item.dataset.said)), state);
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
