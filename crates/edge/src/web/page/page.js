// The page of the built-in web chat. Every URL is relative, so that the server can be mounted under any prefix.

import { Lines } from "./lines.js";
import { Chosen } from "./files.js";
import { code } from "./code.js";

const at = (id) => document.getElementById(id);
const fileUrl = (id) => `chat/api/rooms/${encodeURIComponent(room)}/files/${encodeURIComponent(id)}`;
const lines = new Lines(at("lines"), at("room"), at("latest"), fileUrl, { press, reply, enter: enterThread });
const attached = new Chosen(at("chosen"), () => ready());
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
let room = null;
let stream = null;
let streaming = false;
let last = 0;
let working = false;
let typing = null;
let visit = 0;
/** The message that the next one replies to, and the thread it is written in. */
let place = {};

// Calls.

class Refused extends Error {
  constructor(status, problem) {
    super(problem.title ?? `the server answered ${status}`);
    this.status = status;
    this.problem = problem;
  }
}

async function call(path, body) {
  const asked = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(`chat/api/${path}`, { cache: "no-store", ...asked });
  return answered(answer);
}

async function answered(answer) {
  if (answer.ok) return answer.json();
  const problem = await answer.json().catch(() => ({}));
  const refused = new Refused(answer.status, problem);
  if (problem.code === "not_invited") gate("You need an invitation link");
  throw refused;
}

// Signing in. The link's secret is after `#`, so that only this page sees it.

function gate(title, text = "") {
  leave();
  at("gate-title").textContent = title;
  at("gate-text").textContent = text;
  at("gate-help").hidden = false;
  at("gate-choice").hidden = true;
  inside(false);
}

function inside(yes) {
  at("gate").hidden = yes;
  for (const part of ["room", "foot", "fields", "state"]) at(part).hidden = !yes;
  if (!yes) at("connect").hidden = true;
}

/** Redeems the link, if there is one. False if the link did not work and this browser is not signed in. */
async function signIn() {
  const secret = /^#invite=([0-9a-f]{16,})$/.exec(location.hash)?.[1];
  if (!secret) return true;
  history.replaceState(null, "", location.pathname);
  try {
    await call("session", { secret });
    return true;
  } catch (trouble) {
    if (!(trouble instanceof Refused)) throw trouble;
    const { code, person, invited } = trouble.problem;
    if (code === "other_invitation") return choose(secret, person, invited);
    // A browser that is already signed in may ignore a link that was used before.
    if (await call("agents").then(() => true, () => false)) return true;
    gate("This link does not work", `${trouble.message}.`);
    return false;
  }
}

/** Asks before another invitation replaces the one of this browser. */
function choose(secret, person, invited) {
  gate(`Continue as ${invited}?`, `This browser is signed in as ${person}. The link you opened is for ${invited}.`);
  at("gate-help").hidden = true;
  at("gate-choice").hidden = false;
  at("gate-stay").textContent = `Stay as ${person}`;
  at("gate-change").textContent = `Continue as ${invited}`;
  return new Promise((chosen) => {
    at("gate-stay").onclick = () => chosen(true);
    at("gate-change").onclick = () =>
      call("session", { secret, replace: true }).then(
        () => chosen(true),
        (trouble) => (gate("This link does not work", `${trouble.message}.`), chosen(false)),
      );
  });
}

addEventListener("hashchange", () => location.hash.startsWith("#invite=") && location.reload());

// Agents.

const chosen = () => agents.find((agent) => agent.instance_id === at("agent").value);

async function lookAround() {
  const mine = ++looks;
  const answer = await call("agents");
  // An older response may come later and would miss an agent created since.
  if (mine !== looks) return;
  agents = answer.agents;
  arrival();
  at("connect").hidden = at("how").hidden = !answer.may_connect;
  at("person").textContent = answer.person;
  inside(true);
  const picker = at("agent");
  picker.replaceChildren(...agents.map((agent) => new Option(agent.name, agent.instance_id)));
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
    ? `${agent.name} is an agent. It connects to this server in the same way as every other agent.`
    : "There is no agent yet.";
  if (agent?.connected === at("typing").hidden) shows(at("typing-text").textContent);
  at("welcome").hidden = lines.count > 0;
  at("composer").placeholder = agent ? `Write to ${agent.name}` : "Connect an agent first";
  at("composer").disabled = at("attach").disabled = !agent;
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
  placed({});
  turn(false);
  const agent = chosen();
  entered = agent?.instance_id ?? null;
  if (!agent) return tell();
  try {
    const opened = await call("rooms", { agent: agent.instance_id });
    if (mine !== visit) return;
    room = opened.room;
    lines.threads(opened.threads);
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
  attached.clear();
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
    if (line.author === "agent") still();
  });
  heard("edit", (edit) => lines.edit(edit.message_id, edit.text, edit.html));
  heard("marks", (marks) => lines.mark(marks));
  heard("threads", (threads) => lines.threads(threads));
  heard("draft", (draft) => lines.draft(draft));
  heard("delivered", (message) => lines.delivered(message.message_id));
  heard("turn", (now) => turn(now.open));
  heard("typing", (sign) => (sign.on ? types(sign.text) : still()));
  source.addEventListener("error", () => {
    streaming = false;
    tell();
    // The browser reconnects by itself unless the server refused, as it may do while it is starting.
    if (source.readyState !== EventSource.CLOSED) return;
    look();
    setTimeout(() => mine === visit && here === room && watch(Math.min(pause * 2, 15000)), pause);
  });
}

function put(line) {
  if (lines.put(line)) at("welcome").hidden = true;
  // The time of a pending message is the browser's, not the server's.
  if (line.pending) return;
  last = Math.max(last, line.edited ?? line.said);
  if (line.author === "person") settle(line.message_id.slice(1));
}

async function look() {
  try {
    await lookAround();
    // The current agent may have been removed, or another one was chosen.
    if ((chosen()?.instance_id ?? null) !== entered) enter();
  } catch {
    tell();
  }
}

function want(agent) {
  wanted = agent;
  kept.set("agent", agent);
}

// Open turns. The server reports when a turn is open; the Stop button is shown only during a turn.

function turn(open) {
  working = open;
  at("stop").disabled = false;
  if (!open) {
    clearTimeout(typing);
    lines.endDraft();
  }
  shows(`${chosen()?.name ?? "The agent"} is working`);
}

function types(text) {
  clearTimeout(typing);
  typing = setTimeout(still, 8000);
  shows(text || `${chosen()?.name ?? "The agent"} is writing`);
}

function still() {
  clearTimeout(typing);
  shows(`${chosen()?.name ?? "The agent"} is working`);
}

function shows(text) {
  const on = working && chosen()?.connected === true;
  const follow = at("room").scrollHeight - at("room").scrollTop - at("room").clientHeight < 120;
  at("typing-text").textContent = text;
  at("typing").hidden = at("stop").hidden = !on;
  if (on && follow) lines.toEnd();
}

at("stop").addEventListener("click", async () => {
  if (!room) return;
  at("stop").disabled = true;
  shows("Stop requested");
  await call("stop", { room }).catch((trouble) => say(trouble.message));
  // A stop can get lost, so it can be requested again.
  at("stop").disabled = false;
});

// Sending messages. A message stays in the browser until the server has stored it. If the response is lost, the message
// is sent again with the same nonce, and the server stores it once.

const outbox = () => kept.get(`outbox.${room}`) ?? [];

function settle(nonce) {
  const waiting = outbox();
  if (waiting.some((one) => one.nonce === nonce)) kept.set(`outbox.${room}`, waiting.filter((one) => one.nonce !== nonce));
}

/** Uploads a file into the room. Null if it was left meanwhile. */
async function upload(file) {
  const mine = visit;
  const headers = { "content-type": file.type || "application/octet-stream", "x-media-filename": encodeURIComponent(file.name) };
  const asked = { method: "POST", cache: "no-store", headers, body: file };
  const stored = await answered(await fetch(`chat/api/rooms/${encodeURIComponent(room)}/files`, asked));
  return mine === visit ? stored : null;
}

async function attach(files) {
  if (!room || files.length === 0) return;
  at("attach").disabled = true;
  const trouble = await attached.add(files, upload).catch((trouble) => trouble.message);
  at("attach").disabled = false;
  if (trouble) say(trouble);
}

at("attach").addEventListener("click", () => at("file").click());
at("file").addEventListener("change", () => {
  attach([...at("file").files]);
  at("file").value = "";
});

function speak(text, files = []) {
  const nonce = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const message = { nonce, text, files, said: Date.now(), reply_to: place.reply_to, thread: place.thread };
  placed({});
  kept.set(`outbox.${room}`, [...outbox(), message]);
  hand(message);
}

async function hand(message, pause = 1000) {
  const [mine, here, id] = [visit, room, `p${message.nonce}`];
  const { text, nonce, files, reply_to, thread } = message;
  if (!lines.has(id)) put({ message_id: id, author: "person", text, files, said: message.said, reply_to, thread, pending: true });
  try {
    const sent = { text, nonce, reply_to, thread, files: (files ?? []).map((file) => file.media_id) };
    await call(`rooms/${encodeURIComponent(here)}/messages`, sent);
    if (mine === visit) {
      settle(message.nonce);
      lines.put({ message_id: id, author: "person", text: message.text, files: message.files, said: message.said, delivered: false });
    }
  } catch (trouble) {
    if (mine !== visit) return;
    const final = trouble instanceof Refused && trouble.status < 500;
    if (final) {
      settle(message.nonce);
      lines.fail(id, `Not sent: ${trouble.message}.`, () => {
        lines.drop(id);
        speak(message.text, message.files);
      });
    } else setTimeout(() => mine === visit && hand(message, Math.min(pause * 2, 15000)), pause);
  }
}

// Buttons of questions, replies and threads.

/** Presses a button. True if the question has its answer now. */
async function press(message_id, option_id) {
  try {
    await call(`rooms/${encodeURIComponent(room)}/presses`, { message_id, option_id });
    return true;
  } catch (trouble) {
    say(`Not sent: ${trouble.message}.`);
    return trouble instanceof Refused && trouble.problem.code === "answered";
  }
}

function reply(reply_to, text) {
  placed({ ...place, reply_to, about: text.slice(0, 80) });
}

function enterThread(thread, name) {
  placed({ ...place, thread, in: name });
}

function placed(now) {
  place = now;
  const told = [now.about !== undefined && `Replying to “${now.about}”`, now.in && `in ${now.in}`].filter(Boolean);
  at("place-text").textContent = told.join(" ");
  at("place").hidden = told.length === 0;
  if (told.length > 0) at("composer").focus();
}

at("place-end").addEventListener("click", () => placed({}));

const composer = at("composer");

function ready() {
  const text = composer.value;
  const length = text.length > LIMIT ? [...text].length : text.length;
  at("send").disabled = !room || (!text.trim() && attached.count === 0) || length > LIMIT;
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
  speak(text, attached.take());
  ready();
});

at("agent").addEventListener("change", () => {
  want(at("agent").value);
  enter();
});

// Connecting an agent. The secret is only in the page, and is removed when the sheet closes.

const sheet = at("connecting");
/** The agent whose secret is shown in the sheet. */
let made = null;

function open() {
  at("connect-form").reset();
  at("connect-form").hidden = false;
  at("connect-result").hidden = true;
  at("connect-trouble").hidden = true;
  sheet.showModal();
}

/** Shows whether the new agent has connected. */
function arrival() {
  if (!made) return;
  const here = agents.some((agent) => agent.instance_id === made.instance_id && agent.connected);
  at("connect-arrival").textContent = here ? `${made.name} is connected. You can close this.` : `Waiting for ${made.name} to connect …`;
  at("connect-arrival").dataset.arrived = String(here);
  if (here) asks(false);
}

function asks(yes) {
  at("connect-ask").hidden = !yes;
  at("connect-end").hidden = yes;
}

function finish() {
  // Cleared here, because the sheet's close event comes only a moment later.
  made = null;
  at("connect-steps").replaceChildren();
  asks(false);
  sheet.close();
}

/** Closes the sheet. Asks first if the secret was not used yet. */
function leaveSheet() {
  if (made && at("connect-arrival").dataset.arrived !== "true") asks(true);
  else finish();
}

at("connect").addEventListener("click", open);
at("connect-too").addEventListener("click", open);
at("connect-cancel").addEventListener("click", finish);
at("connect-done").addEventListener("click", leaveSheet);
at("connect-keep").addEventListener("click", () => asks(false));
at("connect-throw").addEventListener("click", finish);
sheet.addEventListener("cancel", (event) => {
  event.preventDefault();
  leaveSheet();
});
addEventListener("beforeunload", (event) => made && at("connect-arrival").dataset.arrived !== "true" && event.preventDefault());
at("connect-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const make = at("connect-form").querySelector("[type=submit]");
  make.disabled = true;
  try {
    made = await call("agents", { name: at("connect-name").value.trim() });
    at("connect-heading").textContent = `${made.name} is created. Start it:`;
    at("connect-steps").replaceChildren(
      ...made.steps.map((step) => {
        const item = document.createElement("li");
        item.append(`${step.about}:`, code(step.command));
        return item;
      }),
    );
    at("connect-form").hidden = true;
    at("connect-result").hidden = false;
    asks(false);
    arrival();
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

async function start() {
  for (;;) {
    try {
      if (!(await signIn())) return;
      await lookAround();
      break;
    } catch (trouble) {
      if (trouble instanceof Refused && trouble.status === 401) return;
      gate("The server does not answer", "Trying again.");
      at("gate-help").hidden = true;
      await new Promise((wake) => setTimeout(wake, 2000));
    }
  }
  await enter();
  composer.focus();
}

await start();
setInterval(() => !document.hidden && at("gate").hidden && look(), 5000);

// Browsers open at most six connections to one server, and a stream holds one of them. A hidden tab closes its stream,
// so that other tabs can use the connection.
let resting = null;
document.addEventListener("visibilitychange", () => {
  clearTimeout(resting);
  if (document.hidden) resting = setTimeout(() => stream?.close(), 10000);
  else if (room && stream?.readyState === EventSource.CLOSED) watch();
  else look();
});
