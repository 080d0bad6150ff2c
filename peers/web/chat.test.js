// The page in a real browser, against a running house whose first agent streams its answers by editing.
// POSTHOUSE_URL names the house; POSTHOUSE_STREAM_PROMPT a text whose answer grows and ends with
// POSTHOUSE_STREAM_END; the defaults are those of the sample agent that `posthouse up` brings along.

import assert from "node:assert/strict";
import http from "node:http";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { Chat, ask, house, launch, tidy } from "./browser.js";

const PROMPT = process.env.POSTHOUSE_STREAM_PROMPT ?? "Tell me something";
const END = process.env.POSTHOUSE_STREAM_END ?? "whenever you like.";

let browser;
let someone;
let others = 0;

before(async () => {
  assert.ok(house, "POSTHOUSE_URL names a running house");
  browser = await launch();
});
after(() => browser?.close());
afterEach(tidy);
beforeEach(() => {
  // Rooms are kept: every run and every test needs people nobody has met.
  someone = `person-${process.pid}-${Date.now().toString(36)}-${(others += 1)}`;
});

test("one types, sees the answer grow, reloads, and it is still there", async () => {
  const chat = await Chat.open(browser.context, someone);
  await chat.says(PROMPT);
  const lengths = await chat.watchesGrow(1, END);
  assert.ok(lengths.length >= 3, `the answer grew in steps: ${lengths}`);
  assert.deepEqual(lengths, lengths.toSorted((a, b) => a - b), "it only grew");
  const before = await chat.texts("agent");
  await chat.page.reload();
  await chat.here();
  await chat.answered(1);
  assert.deepEqual(await chat.texts("agent"), before);
  assert.deepEqual(await chat.texts("person"), [PROMPT]);
  assert.deepEqual(chat.troubles, []);
});

test("two persons do not read each other's conversation", async () => {
  const [ann, bob] = [`${someone}-ann`, `${someone}-bob`];
  const chat = await Chat.open(browser.context, ann);
  await chat.says("only for ann");
  await chat.answered(1);
  await chat.becomes(bob);
  await chat.page.waitForFunction(() => document.querySelectorAll('[data-testid="line"]').length === 0);
  await chat.says("only for bob");
  await chat.answered(1);
  assert.deepEqual(await chat.texts("person"), ["only for bob"]);
  await chat.becomes(ann);
  await chat.answered(1);
  assert.deepEqual(await chat.texts("person"), ["only for ann"]);
});

test("a second page of the same person sees the conversation live", async () => {
  const first = await Chat.open(browser.context, someone);
  const second = await Chat.open(browser.context, someone);
  await first.says(PROMPT);
  const lengths = await second.watchesGrow(1, END);
  assert.ok(lengths.length >= 2, `seen growing there too: ${lengths}`);
  assert.deepEqual(await second.texts("person"), [PROMPT]);
});

test("every script, emoji and direction comes through unchanged", async () => {
  const text = "Zoë 🦉👩‍🚀 日本語 مرحبا हिन्दी e\u0301 𝔘\nsecond line <b>&amp;</b> `x` *y*";
  const chat = await Chat.open(browser.context, someone);
  await chat.page.getByTestId("composer").fill(text);
  await chat.page.waitForSelector('[data-testid="send"]:not([disabled])');
  await chat.page.getByTestId("send").click();
  await chat.answered(1);
  await chat.page.reload();
  await chat.here();
  await chat.answered(1);
  const said = await chat.lines("person").locator(".body").evaluateAll((bodies) => bodies.map((body) => body.textContent));
  assert.deepEqual(said, [text]);
});

test("Shift and Enter starts a new line instead of sending", async () => {
  const chat = await Chat.open(browser.context, someone);
  const composer = chat.page.getByTestId("composer");
  await composer.pressSequentially("one");
  await composer.press("Shift+Enter");
  await composer.pressSequentially("two");
  assert.equal(await composer.inputValue(), "one\ntwo");
  assert.equal(await chat.lines("person").count(), 0);
});

test("an empty room explains itself in three lines", async () => {
  const chat = await Chat.open(browser.context, someone);
  const welcome = chat.page.getByTestId("welcome");
  await welcome.waitFor();
  assert.equal(await welcome.locator("p").count(), 3);
  assert.match(await welcome.innerText(), /Hermes/);
});

test("a button makes an agent and shows its commands once", async () => {
  const chat = await Chat.open(browser.context, someone);
  const name = `heron-${process.pid}-${Date.now().toString(36)}`;
  await chat.page.getByTestId("connect-agent").click();
  await chat.page.getByTestId("connect-name").fill(name);
  await chat.page.getByTestId("connect-make").click();
  const result = chat.page.getByTestId("connect-result");
  await result.waitFor();
  const shown = await result.innerText();
  assert.match(shown, /hermes gateway run/);
  const secret = /GATEWAY_RELAY_SECRET='([^']+)'/.exec(shown)?.[1];
  assert.ok(secret?.length >= 32, "a real value");
  await chat.page.getByTestId("connect-done").click();
  assert.ok(!(await chat.page.content()).includes(secret), "gone from the page");
  const kept = await chat.page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }));
  assert.ok(!kept.includes(secret), "and not kept by the browser");
  // One is talking to the new agent now, and what one says is kept for it.
  await chat.page.waitForSelector('[data-testid="state"][data-state="away"]');
  assert.equal(await chat.page.getByTestId("agent-picker").locator("option:checked").innerText(), name);
  await chat.says("are you there?");
  await chat.page.waitForSelector('[data-testid="line"][data-author="person"]:not(.pending)');
});

test("the page asks nothing of anybody but the house", async () => {
  const chat = await Chat.open(browser.context, someone);
  await chat.says("hello");
  await chat.answered(1);
  const origin = new URL(house).origin;
  const foreign = chat.requests.filter((url) => new URL(url).origin !== origin && !url.startsWith("data:"));
  assert.deepEqual(foreign, []);
  assert.deepEqual(chat.troubles, []);
});

test("what an agent writes never becomes markup", async () => {
  const chat = await Chat.open(browser.context, someone);
  const made = await chat.page.evaluate(async () => {
    const { render } = await import(new URL("chat/markdown.js", document.baseURI));
    const box = document.createElement("div");
    box.append(
      render(
        "<img src=x onerror=alert(1)> **bold** *it* `a<b` [l](https://e.example/x) [j](javascript:alert(1)) a_b_c\n" +
          "```html\n<script>alert(1)</script>\n```\n- one\n- two\n```\nopen <i>",
      ),
    );
    return {
      names: [...box.querySelectorAll("*")].map((one) => one.localName).sort(),
      links: [...box.querySelectorAll("a")].map((one) => [one.href, one.rel]),
      text: box.textContent,
    };
  });
  assert.deepEqual([...new Set(made.names)], ["a", "button", "code", "div", "em", "li", "p", "pre", "strong", "ul"]);
  assert.deepEqual(made.links, [["https://e.example/x", "noopener noreferrer nofollow"]]);
  assert.ok(made.text.includes("<img src=x onerror=alert(1)>") && made.text.includes("[j](javascript:alert(1))"));
  assert.ok(made.text.includes("a_b_c") && made.text.includes("open <i>"));
});

test("a foreign origin or host is refused and learns nothing", async () => {
  const foreign = { "content-type": "application/json", origin: "http://evil.example" };
  const refused = await ask("/chat/api/agents", { method: "POST", headers: foreign, body: '{"name":"mallory"}' });
  assert.equal(refused.status, 404);
  assert.equal((await refused.json()).code, "not_found");
  assert.equal((await ask("/chat/api/agents", { headers: { origin: "http://evil.example" } })).status, 404);
  assert.equal((await ask("/chat", { headers: { "x-forwarded-for": "203.0.113.9" } })).status, 404);
  assert.equal(await calledBy("evil.example"), 404);
  assert.equal(await calledBy(new URL(house).host), 200);
});

test("another site's page can neither read nor write here", async () => {
  const site = http.createServer((_, answer) => answer.setHeader("content-type", "text/html").end("<h1>elsewhere</h1>"));
  await new Promise((ready) => site.listen(0, "127.0.0.1", ready));
  try {
    const page = await browser.context.newPage();
    await page.goto(`http://127.0.0.1:${site.address().port}/`);
    const outcome = await page.evaluate(async (there) => {
      const tried = async (path, asked) => {
        try {
          return (await fetch(there + path, asked)).status;
        } catch {
          return "blocked";
        }
      };
      const posted = { method: "POST", mode: "no-cors", body: '{"name":"mallory"}' };
      return [await tried("/chat/api/agents"), await tried("/chat/api/agents", posted)];
    }, house);
    assert.equal(outcome[0], "blocked");
    const { agents } = await (await ask("/chat/api/agents")).json();
    assert.ok(!agents.some((agent) => agent.name === "mallory"));
    await page.close();
  } finally {
    site.close();
  }
});

/** The status of the page when called by this name; `fetch` would not let us choose it. */
function calledBy(host) {
  const { hostname, port, pathname } = new URL(`${house}/chat`);
  return new Promise((done, fail) => {
    http.get({ hostname, port, path: pathname, headers: { host } }, (answer) => {
      answer.resume();
      done(answer.statusCode);
    }).on("error", fail);
  });
}
