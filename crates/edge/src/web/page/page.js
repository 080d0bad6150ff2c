// The page of the built-in chat. Every address is relative to the folder it lies in, so the house may be
// mounted under any prefix.

import { Lines } from "./lines.js";
import { code } from "./markdown.js";

const at = (id) => document.getElementById(id);
const lines = new Lines(at("lines"), at("room"), at("latest"));
const LIMIT = 32000;
const kept = {
  get: (name) => {
    try { return JSON.parse(localStorage.getItem(`posthouse.${name}`)); } catch { return null; }
  },
  set: (name, value) => {
    try { localStorage.setItem(`posthouse.${name}`, JSON.stringify(value)); } catch { /* private windows keep nothing */ }
  },
};

let agents = [];
let wanted = kept.get("agent");
let entered = null;
let looks = 0;
let person = null;
let room = null;
let stream = null;
let streaming = false;
let last = 0;
let busyUntil = 0;
let typing = null;
let visit = 0;

// Calls.

class Refused extends Error {
  constructor(status, title) {
    super(title);
    this.status = status;
  }
}

async function call(path, body) {
  const asked = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(`chat/api/${path}`, { cache: "no-store", ...asked });
  if (answer.ok) return answer.json();
  const problem = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, problem.title ?? `the house answered ${answer.status}`);
}

// Who is here.

const chosen = () => agents.find((agent) => agent.instance_id === at("agent").value);

async function lookAround() {
  const mine = ++looks;
  const answer = await call("agents");
  // An older answer may come later, and would not know an agent made since.
  if (mine !== looks) return;
  agents = answer.agents;
  at("connect").hidden = at("how").hidden = !answer.may_connect;
  if (answer.person !== null) {
    person = answer.person;
    at("person").value = person;
    at("person").readOnly = true;
  }
  const names = new Map();
  for (const agent of agents) names.set(agent.name, (names.get(agent.name) ?? 0) + 1);
  const picker = at("agent");
  picker.replaceChildren(
    ...agents.map((agent) => {
      const twin = names.get(agent.name) > 1 && agent.tenant;
      return new Option(twin ? `${agent.name} (${agent.tenant})` : agent.name, agent.instance_id);
    }),
  );
  picker.disabled = agents.length === 0;
  const pick = agents.find((agent) => agent.instance_id === wanted) ?? agents.find((agent) => agent.connected);
  if (pick) picker.value = pick.instance_id;
  tell();
}

function tell() {
  const agent = chosen();
  const state = at("state");
  const [word, text] = !agent
    ? ["away", "no agent yet"]
    : !streaming
      ? ["lost", "reconnecting"]
      : agent.connected
        ? ["here", "online"]
        : ["away", agent.idle ? "asleep" : "not connected"];
  if (state.dataset.state !== word || state.textContent !== text) {
    state.dataset.state = word;
    state.textContent = text;
  }
  const away = agent && streaming && !agent.connected;
  say(away ? `${agent.name} is ${agent.idle ? "asleep" : "not connected"}. What you write is kept until it comes back.` : "");
  at("who").textContent = agent
    ? `The agent behind this page, ${agent.name}, dials in over the same socket as every other one.`
    : "No agent lives here yet.";
  at("welcome").hidden = lines.count > 0;
  at("composer").placeholder = agent ? `Write to ${agent.name}` : "Connect an agent first";
  at("composer").disabled = !agent;
  ready();
}

function say(text) {
  at("note").textContent = text;
  at("note").hidden = text === "";
}

// Rooms.

async function enter() {
  const mine = ++visit;
  leave();
  lines.clear();
  busyUntil = 0;
  still();
  const agent = chosen();
  entered = agent?.instance_id ?? null;
  if (!agent) return tell();
  try {
    const opened = await call("rooms", { agent: agent.instance_id, person });
    if (mine !== visit) return;
    room = opened.room;
    for (const line of opened.history) put(line);
    lines.toEnd();
    watch();
    for (const waiting of outbox()) {
      if (lines.has(`p${waiting.nonce}`)) settle(waiting.nonce);
      else hand(waiting);
    }
  } catch (trouble) {
    if (mine !== visit) return;
    streaming = false;
    if (!(trouble instanceof Refused)) setTimeout(() => mine === visit && enter(), 2000);
    else say(trouble.message);
  }
  tell();
}

function leave() {
  stream?.close();
  stream = null;
  streaming = false;
  room = null;
  last = 0;
}

function watch(pause = 1000) {
  const [mine, here] = [visit, room];
  stream?.close();
  const source = new EventSource(`chat/api/rooms/${encodeURIComponent(here)}/stream${last ? `?after=${last}` : ""}`);
  stream = source;
  const heard = (name, act) =>
    source.addEventListener(name, (event) => {
      if (event.lastEventId) last = Math.max(last, Number(event.lastEventId));
      act(JSON.parse(event.data));
    });
  source.addEventListener("open", () => {
    streaming = true;
    pause = 1000;
    look();
  });
  heard("line", (line) => {
    put(line);
    if (line.author === "agent") {
      still();
      busy();
    }
  });
  heard("edit", (edit) => {
    busy();
    lines.edit(edit.message_id, edit.text);
  });
  heard("typing", (sign) => (sign.on ? types(sign.text) : still()));
  source.addEventListener("error", () => {
    streaming = false;
    tell();
    // The browser comes back by itself unless the house refused, as one that is just starting may.
    if (source.readyState !== EventSource.CLOSED) return;
    setTimeout(() => mine === visit && here === room && watch(Math.min(pause * 2, 15000)), pause);
  });
}

function put(line) {
  if (lines.put(line)) at("welcome").hidden = true;
  // What only this browser knows yet says nothing about the house's time.
  if (line.pending) return;
  last = Math.max(last, line.edited ?? line.said);
  if (line.author === "person") settle(line.message_id.slice(1));
}

async function look() {
  try {
    await lookAround();
    // The agent one talked to may be gone, or another wanted.
    if ((chosen()?.instance_id ?? null) !== entered) enter();
  } catch {
    tell();
  }
}

function want(agent) {
  wanted = agent;
  kept.set("agent", agent);
}

// The agent at work.

function types(text) {
  clearTimeout(typing);
  typing = setTimeout(still, 8000);
  at("typing-text").textContent = text || `${chosen()?.name ?? "The agent"} is writing`;
  const follow = at("room").scrollHeight - at("room").scrollTop - at("room").clientHeight < 120;
  at("typing").hidden = false;
  if (follow) lines.toEnd();
  at("stop").hidden = false;
}

function still() {
  clearTimeout(typing);
  at("typing").hidden = true;
  if (Date.now() >= busyUntil) at("stop").hidden = true;
}

function busy() {
  busyUntil = Date.now() + 2500;
  at("stop").hidden = false;
  setTimeout(() => {
    if (Date.now() >= busyUntil && at("typing").hidden) at("stop").hidden = true;
  }, 2600);
}

at("stop").addEventListener("click", () => room && call("stop", { room }).catch((trouble) => say(trouble.message)));

// Saying something. A message stays in the browser until the house says it is durable, and is said again under
// the same name when the answer was lost: the house keeps it once.

const outbox = () => kept.get(`outbox.${room}`) ?? [];

function settle(nonce) {
  const waiting = outbox();
  if (waiting.some((one) => one.nonce === nonce)) kept.set(`outbox.${room}`, waiting.filter((one) => one.nonce !== nonce));
}

function speak(text) {
  const nonce = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const message = { nonce, text, said: Date.now() };
  kept.set(`outbox.${room}`, [...outbox(), message]);
  hand(message);
}

async function hand(message, pause = 1000) {
  const [mine, here, id] = [visit, room, `p${message.nonce}`];
  if (!lines.has(id)) put({ message_id: id, author: "person", text: message.text, said: message.said, pending: true });
  try {
    await call(`rooms/${encodeURIComponent(here)}/messages`, { text: message.text, nonce: message.nonce });
    if (mine === visit) {
      settle(message.nonce);
      lines.put({ message_id: id, author: "person", text: message.text, said: message.said });
    }
  } catch (trouble) {
    if (mine !== visit) return;
    const final = trouble instanceof Refused && trouble.status < 500;
    if (final) {
      settle(message.nonce);
      lines.fail(id, `Not sent: ${trouble.message}.`, () => {
        lines.drop(id);
        speak(message.text);
      });
    } else setTimeout(() => mine === visit && hand(message, Math.min(pause * 2, 15000)), pause);
  }
}

const composer = at("composer");

function ready() {
  const text = composer.value;
  const length = text.length > LIMIT ? [...text].length : text.length;
  at("send").disabled = !room || !text.trim() || length > LIMIT;
  composer.style.height = "auto";
  composer.style.height = `${composer.scrollHeight}px`;
}

composer.addEventListener("input", ready);
composer.addEventListener("keydown", (event) => {
  // While a word is being composed (Japanese, Chinese), Enter belongs to the input method.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  at("compose").requestSubmit();
});
at("compose").addEventListener("submit", (event) => {
  event.preventDefault();
  if (at("send").disabled) return;
  const text = composer.value;
  composer.value = "";
  ready();
  speak(text);
});

// Persons.

function people(name) {
  const known = [name, ...(kept.get("people") ?? []).filter((other) => other !== name)].slice(0, 12);
  kept.set("people", known);
  at("people").replaceChildren(...known.map((one) => Object.assign(document.createElement("option"), { value: one })));
}

at("person").addEventListener("change", () => {
  const name = at("person").value.trim() || person;
  at("person").value = name;
  if (name === person || at("person").readOnly) return;
  person = name;
  kept.set("person", name);
  people(name);
  enter();
});
at("person").addEventListener("keydown", (event) => event.key === "Enter" && at("person").blur());
at("agent").addEventListener("change", () => {
  want(at("agent").value);
  enter();
});

// Connecting an agent. What is shown is in the page alone, and gone when the sheet closes.

const sheet = at("connecting");

function open() {
  at("connect-form").reset();
  at("connect-form").hidden = false;
  at("connect-result").hidden = true;
  at("connect-trouble").hidden = true;
  sheet.showModal();
}

at("connect").addEventListener("click", open);
at("connect-too").addEventListener("click", open);
const forget = () => at("connect-steps").replaceChildren();
// Forgotten at the click itself: the sheet tells of its closing only a moment later.
for (const button of sheet.querySelectorAll("[data-close]"))
  button.addEventListener("click", () => (forget(), sheet.close()));
sheet.addEventListener("close", forget);
at("connect-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const make = at("connect-form").querySelector("[type=submit]");
  make.disabled = true;
  try {
    const made = await call("agents", { name: at("connect-name").value.trim() });
    at("connect-heading").textContent = `${made.name} is ready to dial in`;
    at("connect-steps").replaceChildren(
      ...made.steps.map((step) => {
        const item = document.createElement("li");
        item.append(`${step.about}:`, code(step.command));
        return item;
      }),
    );
    at("connect-form").hidden = true;
    at("connect-result").hidden = false;
    want(made.instance_id);
    look();
  } catch (trouble) {
    at("connect-trouble").textContent = trouble.message;
    at("connect-trouble").hidden = false;
  } finally {
    make.disabled = false;
  }
});

// Opening.

if (location.search.includes("invite=")) history.replaceState(null, "", location.pathname);
person = kept.get("person") ?? "guest";
at("person").value = person;
people(person);
for (;;) {
  try {
    await lookAround();
    break;
  } catch (trouble) {
    say(trouble instanceof Refused ? trouble.message : "The house does not answer. Trying again.");
    await new Promise((wake) => setTimeout(wake, 2000));
  }
}
await enter();
composer.focus();
setInterval(() => !document.hidden && look(), 5000);

// Browsers open six connections to one house at a time, and a stream holds one of them for as long as it lasts:
// a tab that nobody looks at gives its own back.
let resting = null;
document.addEventListener("visibilitychange", () => {
  clearTimeout(resting);
  if (document.hidden) resting = setTimeout(() => stream?.close(), 10000);
  else if (room && stream?.readyState === EventSource.CLOSED) watch();
  else look();
});
