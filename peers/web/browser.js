// A real browser for the page: Debian's Chromium, driven by playwright-core, which downloads nothing.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
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

/** Where the house stands, without a trailing slash. */
export const house = (process.env.POSTHOUSE_URL ?? "").replace(/\/+$/, "");

/** A browser of its own, closed by `close`. */
export async function launch() {
  const folder = await mkdtemp(join(tmpdir(), "posthouse-browser-"));
  const context = await chromium.launchPersistentContext(folder, {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    headless: true,
    args: QUIET,
    viewport: { width: 1000, height: 760 },
  });
  const close = async () => {
    await context.close();
    await rm(folder, { recursive: true, force: true });
  };
  return { context, close };
}

/** The agent to talk to: the one named by POSTHOUSE_AGENT, else the first that is connected. */
async function streaming() {
  const { agents } = await (await ask("/chat/api/agents")).json();
  const name = process.env.POSTHOUSE_AGENT;
  const found = agents.find((agent) => (name ? agent.name === name : agent.connected));
  if (!found) throw new Error("no agent to talk to");
  return found.instance_id;
}

const open = [];

/** Closes what a test opened: each page holds one of the six connections that a browser grants a house. */
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

  static async open(context, person) {
    const chat = new Chat(await context.newPage());
    open.push(chat.page);
    await chat.page.goto(`${house}/chat`);
    await chat.turnsTo(await streaming());
    await chat.becomes(person);
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

  async becomes(person) {
    const field = this.page.getByTestId("person");
    if ((await field.inputValue()) !== person) {
      await field.fill(person);
      await field.press("Enter");
    }
    await this.here();
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

  async answered(count) {
    await this.page.waitForFunction(
      (many) => document.querySelectorAll('[data-testid="line"][data-author="agent"]').length >= many,
      count,
      { timeout: 45000 },
    );
  }
}

/** Asks the house directly, with headers a page could not set. */
export function ask(path, { method = "GET", headers = {}, body } = {}) {
  return fetch(`${house}${path}`, { method, headers, body, redirect: "manual" });
}
