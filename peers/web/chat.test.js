// The page in a real browser, against a running server whose first agent streams its answers by editing.
// POSTHOUSE_URL names the server, POSTHOUSE_DIR its folder, POSTHOUSE_BIN its binary; POSTHOUSE_STREAM_PROMPT a text
// whose answer grows and ends with POSTHOUSE_STREAM_END; the defaults are those of the sample agent that `posthouse up`
// brings along.

import assert from "node:assert/strict";
import http from "node:http";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { Chat, ask, server, invite, launch, posthouse, tidy } from "./browser.js";

const PROMPT = process.env.POSTHOUSE_STREAM_PROMPT ?? "Tell me something";
const END = process.env.POSTHOUSE_STREAM_END ?? "whenever you like.";

let browser;
let someone;
let others = 0;

before(async () => {
  assert.ok(server, "POSTHOUSE_URL names a running server");
  browser = await launch();
});
after(() => browser?.close());
afterEach(tidy);
beforeEach(() => {
  // Rooms are kept: every run and every test needs people nobody has met.
  someone = `person-${process.pid}-${Date.now().toString(36)}-${(others += 1)}`;
});

test("one types, sees the answer grow, reloads, and it is still there", async () => {
  const chat = await Chat.open(browser, someone);
  // It watches before it speaks: a slow machine may see the whole answer before a later look begins.
  const growing = chat.watchesGrow(1, END);
  await chat.says(PROMPT);
  const lengths = await growing;
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

test("two persons do not read each other's conversation, even of one name", async () => {
  const ann = await Chat.open(browser, someone);
  await ann.says("only for ann");
  await ann.answered(1);
  const twin = new Chat(await (await browser.context(`${someone} elsewhere`)).newPage());
  await twin.page.goto(await invite(someone));
  await twin.here();
  assert.equal(await twin.page.getByTestId("person").innerText(), someone);
  await twin.says("only for her twin");
  await twin.answered(1);
  assert.deepEqual(await twin.texts("person"), ["only for her twin"]);
  assert.deepEqual(await ann.texts("person"), ["only for ann"]);
  await twin.page.close();
});

test("a link works once, and an uninvited visitor sees a page that says what to do", async () => {
  const link = await invite(someone);
  const first = await (await browser.context(someone)).newPage();
  await first.goto(link);
  await first.waitForSelector('[data-testid="state"][data-state="here"]');
  assert.ok(!first.url().includes("invite"), "the secret is gone from the address");
  const stranger = await (await browser.context(`${someone} stranger`)).newPage();
  await stranger.goto(`${server}/chat`);
  await stranger.getByTestId("gate").waitFor();
  assert.match(await stranger.getByTestId("gate").innerText(), /need an invitation link[^]*posthouse invite create/);
  await stranger.goto(link);
  await stranger.getByText("This link does not work").waitFor();
  await Promise.all([first.close(), stranger.close()]);
});

test("a link for somebody else asks before it takes the place of who is signed in", async () => {
  const chat = await Chat.open(browser, someone);
  const other = `${someone}-other`;
  const link = await invite(other);
  await chat.page.goto(link);
  await chat.page.getByTestId("gate-stay").click();
  await chat.here();
  assert.equal(await chat.page.getByTestId("person").innerText(), someone);
  await chat.page.goto(link);
  await chat.page.getByTestId("gate-change").click();
  await chat.here();
  assert.equal(await chat.page.getByTestId("person").innerText(), other);
});

test("withdrawing an invitation closes the page at once", async () => {
  const chat = await Chat.open(browser, someone);
  await posthouse("invite", "remove", someone);
  await chat.page.getByTestId("gate").waitFor();
  assert.equal(await chat.page.getByTestId("composer").isVisible(), false);
});

test("a second page of the same person sees the conversation live", async () => {
  const first = await Chat.open(browser, someone);
  const second = await Chat.open(browser, someone);
  const growing = second.watchesGrow(1, END);
  await first.says(PROMPT);
  const lengths = await growing;
  assert.ok(lengths.length >= 2, `seen growing there too: ${lengths}`);
  assert.deepEqual(await second.texts("person"), [PROMPT]);
});

test("every script, emoji and direction comes through unchanged", async () => {
  const text = "Zoë 🦉👩‍🚀 日本語 مرحبا हिन्दी e\u0301 𝔘\nsecond line <b>&amp;</b> `x` *y*";
  const chat = await Chat.open(browser, someone);
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
  const chat = await Chat.open(browser, someone);
  const composer = chat.page.getByTestId("composer");
  await composer.pressSequentially("one");
  await composer.press("Shift+Enter");
  await composer.pressSequentially("two");
  assert.equal(await composer.inputValue(), "one\ntwo");
  assert.equal(await chat.lines("person").count(), 0);
});

test("the link that up prints works in one click", async () => {
  const page = await (await browser.context("whoever started it")).newPage();
  await page.goto(process.env.POSTHOUSE_LINK);
  await page.waitForSelector('[data-testid="state"][data-state="here"]');
  assert.equal(await page.getByTestId("connect-agent").isVisible(), true);
  await page.close();
});

test("an empty room explains itself in three lines", async () => {
  const chat = await Chat.open(browser, someone);
  const welcome = chat.page.getByTestId("welcome");
  await welcome.waitFor();
  assert.equal(await welcome.locator("p").count(), 3);
  assert.match(await welcome.innerText(), /Hermes/);
});

test("a button makes an agent and shows its commands once", async () => {
  const chat = await Chat.open(browser, someone);
  const name = `heron-${process.pid}-${Date.now().toString(36)}`;
  await chat.page.getByTestId("connect-agent").click();
  await chat.page.getByTestId("connect-name").fill(name);
  await chat.page.getByTestId("connect-make").click();
  const result = chat.page.getByTestId("connect-result");
  await result.waitFor();
  const shown = await result.innerText();
  assert.match(shown, /python3 -m venv hermes[^]*hermes\/bin\/hermes gateway run/);
  for (const name of ["URL", "ID", "SECRET", "PLATFORMS", "BOT_IDS"]) assert.match(shown, new RegExp(`GATEWAY_RELAY_${name}=`));
  assert.match(shown, /HERMES_GATEWAY_BUSY_INPUT_MODE=[^]*RELAY_HOME_CHANNEL=/);
  const secret = /GATEWAY_RELAY_SECRET='([^']+)'/.exec(shown)?.[1];
  assert.ok(secret?.length >= 32, "a real value");
  assert.match(await chat.page.getByTestId("connect-arrival").innerText(), /Waiting/);
  // It asks before the secret is thrown away, by the button and by the Escape key.
  await chat.page.getByTestId("connect-done").click();
  await chat.page.getByTestId("connect-ask").waitFor();
  await chat.page.keyboard.press("Escape");
  assert.ok((await chat.page.content()).includes(secret), "still there");
  await chat.page.getByTestId("connect-throw").click();
  assert.ok(!(await chat.page.content()).includes(secret), "gone from the page");
  const kept = await chat.page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }));
  assert.ok(!kept.includes(secret), "and not kept by the browser");
  // One is talking to the new agent now, and what one says is kept for it.
  await chat.page.waitForSelector('[data-testid="state"][data-state="away"]');
  assert.equal(await chat.page.getByTestId("agent-picker").locator("option:checked").innerText(), name);
  await chat.says("are you there?");
  await chat.page.waitForSelector('[data-testid="line"][data-author="person"]:not(.pending)');
});

test("the page asks nothing of anybody but the server", async () => {
  const chat = await Chat.open(browser, someone);
  await chat.says("hello");
  await chat.answered(1);
  const origin = new URL(server).origin;
  const foreign = chat.requests.filter((url) => new URL(url).origin !== origin && !url.startsWith("data:"));
  assert.deepEqual(foreign, []);
  assert.deepEqual(chat.troubles, []);
});

test("what an agent writes is rendered, and never becomes markup", async () => {
  const chat = await Chat.open(browser, someone);
  // The sample agent says what it was told.
  await chat.says("<img src=x onerror=alert(1)> **bold** `a<b` [l](https://e.example/x) [j](javascript:alert(1)) a_b_c");
  await chat.watchesGrow(1, END);
  const made = await chat.lines("agent").locator(".body").first().evaluate((box) => ({
    names: [...new Set([...box.querySelectorAll("*")].map((one) => one.localName))].sort(),
    links: [...box.querySelectorAll("a")].map((one) => [one.href, one.rel]),
    text: box.textContent,
  }));
  assert.deepEqual(made.names, ["a", "code", "p", "strong"]);
  assert.deepEqual(made.links, [["https://e.example/x", "noopener noreferrer nofollow"]]);
  assert.ok(made.text.includes("<img src=x onerror=alert(1)>") && made.text.includes("[j](javascript:alert(1))"));
  assert.ok(made.text.includes("a_b_c"));
  assert.deepEqual(chat.troubles, []);
});

test("one message with a hostile heading hangs no tab", async () => {
  const chat = await Chat.open(browser, someone);
  // The sample agent says it again, word by word; tabs do not end a word.
  await chat.says(`tell\n# ${"\t".repeat(20000)}x`);
  await chat.watchesGrow(1, END);
  assert.equal(await chat.page.evaluate(() => 1 + 1), 2);
});

test("the page shows delivered, working, and Stop while a turn is open and only then", async () => {
  const chat = await Chat.open(browser, someone);
  const stop = chat.page.getByTestId("stop");
  assert.equal(await stop.isVisible(), false);
  const turn = chat.watchesTurn();
  await chat.says(PROMPT);
  assert.match(await turn, /is (working|writing)/);
  await chat.page.waitForSelector('[data-testid="line"][data-author="person"][data-delivered="true"]');
  await chat.watchesGrow(1, END);
  await stop.waitFor({ state: "hidden" });
  assert.match(await chat.lines("person").locator(".about").innerText(), /delivered/);
  await chat.page.reload();
  await chat.here();
  await chat.page.waitForSelector('[data-testid="line"][data-author="person"][data-delivered="true"]');
  assert.equal(await stop.isVisible(), false);
});

test("a foreign origin is refused and learns nothing", async () => {
  const foreign = { "content-type": "application/json", origin: "http://evil.example" };
  const refused = await ask("/chat/api/agents", { method: "POST", headers: foreign, body: '{"name":"mallory"}' });
  assert.equal(refused.status, 404);
  assert.equal((await refused.json()).code, "not_found");
  assert.equal((await ask("/chat/api/agents", { headers: { origin: "http://evil.example" } })).status, 404);
  assert.equal((await ask("/chat/api/agents")).status, 401);
});

test("another site's page can neither read nor write here", async () => {
  const site = http.createServer((_, answer) => answer.setHeader("content-type", "text/html").end("<h1>elsewhere</h1>"));
  await new Promise((ready) => site.listen(0, "127.0.0.1", ready));
  try {
    const chat = await Chat.open(browser, someone);
    const page = await (await browser.context(someone)).newPage();
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
    }, server);
    assert.equal(outcome[0], "blocked");
    const { items } = await posthouse("agent", "list");
    assert.ok(!items.some((agent) => agent.name === "mallory"));
    assert.deepEqual(chat.troubles, []);
    await page.close();
  } finally {
    site.close();
  }
});
