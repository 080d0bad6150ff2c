// A real browser for the page: Debian's Chromium, driven by playwright-core, which downloads nothing.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

// Without these a browser asks the world for updates and lists; the page's own requests are what we count.
const QUIET = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Where the server stands, without a trailing slash. */
export const server = (process.env.POSTHOUSE_URL ?? "").replace(/\/+$/, "");

/** A browser of its own, closed by `close`. Every person has a context in it, with cookies of their own. */
export async function launch() {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    headless: true,
    args: QUIET,
  });
  const people = new Map();
  const context = async (person) => {
    if (!people.has(person)) people.set(person, await browser.newContext({ viewport: { width: 1000, height: 760 } }));
    return people.get(person);
  };
  return { context, close: () => browser.close() };
}

/** The command line of the server under test. */
export async function posthouse(...words) {
  const { POSTHOUSE_BIN, POSTHOUSE_DIR, PATH } = process.env;
  const { stdout } = await promisify(execFile)(POSTHOUSE_BIN, ["--dir", POSTHOUSE_DIR, ...words, "--json"], { env: { PATH } });
  return JSON.parse(stdout);
}

/** A link to the page that works once. */
export async function invite(person, ...options) {
  return (await posthouse("invite", "create", person, "--tenant", "home", ...options)).url;
}

/** The agent to talk to: the one named by POSTHOUSE_AGENT, else the sample. */
async function streaming() {
  const { items } = await posthouse("agent", "list");
  const name = process.env.POSTHOUSE_AGENT ?? "sample";
  const found = items.find((agent) => agent.name === name);
  if (!found) throw new Error("no agent to talk to");
  return found.instance_id;
}

const open = [];

/** Closes what a test opened: each page holds one of the six connections that a browser grants a server. */
export async function tidy() {
  for (const page of open.splice(0)) await page.close();
}

/** The chat, opened as this person and ready to be written in. */
export class Chat {
  constructor(page) {
    this.page = page;
    this.requests = [];
    this.troubles = [];
    page.on("request", (request) => this.requests.push(request.url()));
    page.on("pageerror", (error) => this.troubles.push(String(error)));
    page.on("console", (line) => line.type() === "error" && this.troubles.push(line.text()));
  }

  /** Opens the page as an owner of the tenant. The first page of a person comes in by their link. */
  static async open(browser, person) {
    const context = await browser.context(person);
    const chat = new Chat(await context.newPage());
    open.push(chat.page);
    const known = (await context.cookies()).length > 0;
    await chat.page.goto(known ? `${server}/chat` : await invite(person, "--owner"));
    await chat.turnsTo(await streaming());
    return chat;
  }

  async turnsTo(agent) {
    const picker = this.page.getByTestId("agent-picker");
    await picker.locator(`option[value="${agent}"]`).waitFor({ state: "attached" });
    if ((await picker.inputValue()) !== agent) await picker.selectOption(agent);
    await this.here();
  }

  async here() {
    await this.page.waitForSelector('[data-testid="state"][data-state="here"]');
  }

  async says(text) {
    const composer = this.page.getByTestId("composer");
    await composer.fill(text);
    // It cannot be sent before the room is entered.
    await this.page.waitForSelector('[data-testid="send"]:not([disabled])');
    await composer.press("Enter");
  }

  lines(author) {
    return this.page.locator(`[data-testid="line"][data-author="${author}"]`);
  }

  texts(author) {
    return this.lines(author).locator(".body").allInnerTexts();
  }

  /** Waits for the agent's `count`th message and for it to stand still; returns each length seen on the way. */
  async watchesGrow(count, text) {
    return this.page.evaluate(
      ([index, whole]) =>
        new Promise((done, fail) => {
          const lengths = [];
          const end = setTimeout(() => fail(new Error(`the answer never ended with ${whole}; saw ${lengths}`)), 45000);
          const look = () => {
            const body = document.querySelectorAll('[data-testid="line"][data-author="agent"] .body')[index];
            const now = body?.textContent ?? "";
            if (now && lengths.at(-1) !== now.length) lengths.push(now.length);
            if (!now.trimEnd().endsWith(whole)) return;
            clearTimeout(end);
            eyes.disconnect();
            done(lengths);
          };
          const eyes = new MutationObserver(look);
          eyes.observe(document.getElementById("lines"), { childList: true, subtree: true, characterData: true });
          look();
        }),
      [count - 1, text],
    );
  }

  /** Waits until a turn is shown as open; returns what the page says about it at that moment. */
  async watchesTurn() {
    return this.page.evaluate(
      () =>
        new Promise((done, fail) => {
          const end = setTimeout(() => fail(new Error("no turn was ever open")), 45000);
          const look = () => {
            if (document.getElementById("stop").hidden) return;
            clearTimeout(end);
            eyes.disconnect();
            done(document.getElementById("typing").textContent);
          };
          const eyes = new MutationObserver(look);
          eyes.observe(document.body, { attributes: true, childList: true, subtree: true });
          look();
        }),
    );
  }

  async answered(count) {
    await this.page.waitForFunction(
      (many) => document.querySelectorAll('[data-testid="line"][data-author="agent"]').length >= many,
      count,
      { timeout: 45000 },
    );
  }
}

/** Asks the server directly, with headers a page could not set. */
export function ask(path, { method = "GET", headers = {}, body } = {}) {
  return fetch(`${server}${path}`, { method, headers, body, redirect: "manual" });
}
