// Files on the page, in both directions, against a running server and an agent of this test.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { after, afterEach, before, test } from "node:test";
import { Agent } from "./agent.js";
import { Chat, launch, tidy } from "./browser.js";

// Every byte value, so that nothing on the way can take it for text.
const BYTES = Buffer.concat([Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)), randomBytes(100_000)]);

let browser;
let agent;

before(async () => {
  browser = await launch();
  agent = await Agent.connect(`filer-${process.pid}-${Date.now().toString(36)}`);
});
after(async () => {
  agent?.close();
  await browser?.close();
});
afterEach(tidy);

/** A new person's page with the agent. */
async function opens(who) {
  const chat = await Chat.open(browser, `${who}-${process.pid}-${Date.now().toString(36)}`);
  await chat.turnsTo(agent.instance);
  return chat;
}

/** Chooses files by the button, as a person does. */
async function chooses(chat, ...files) {
  const [dialog] = await Promise.all([chat.page.waitForEvent("filechooser"), chat.page.getByTestId("attach").click()]);
  await dialog.setFiles(files.map(([name, mimeType, buffer]) => ({ name, mimeType, buffer })));
  await chat.page.getByTestId("chosen-file").nth(files.length - 1).waitFor();
}

/** Clicks a file on the page and returns what the browser downloads. */
async function downloads(link) {
  const page = link.page();
  // The link opens a page of its own, which ends when the browser sees that it is a download.
  const [download] = await Promise.all([
    new Promise((done, fail) => {
      const limit = setTimeout(fail, 60_000, new Error("the browser downloads nothing"));
      const downloaded = (download) => {
        clearTimeout(limit);
        done(download);
      };
      page.once("download", downloaded);
      page.context().once("page", (opened) => opened.once("download", downloaded));
    }),
    link.click(),
  ]);
  return [download.suggestedFilename(), await readFile(await download.path())];
}

test("a chosen file is sent with the message, and the agent gets the same bytes", async () => {
  const chat = await opens("sender");
  await chooses(chat, ["notes for monday.bin", "application/octet-stream", BYTES]);
  await chat.says("please read this");
  const event = await agent.message();
  assert.equal(event.text, "please read this");
  assert.deepEqual(event.media.map(({ filename, size }) => [filename, size]), [["notes for monday.bin", BYTES.length]]);
  assert.deepEqual(event.media_urls, [event.media[0].url]);
  assert.ok((await agent.downloads(event.media_urls[0])).equals(BYTES));
  assert.equal(await chat.page.getByTestId("chosen-file").count(), 0, "the next message is without it");
  const link = chat.lines("person").getByTestId("file").locator("a");
  await link.filter({ hasText: "notes for monday.bin" }).waitFor();
  await chat.page.reload();
  await link.waitFor();
  const [, bytes] = await downloads(link);
  assert.ok(bytes.equals(BYTES), "it is still there for the person");
  assert.deepEqual(chat.troubles, []);
});

test("several files go without a text, and one that was removed stays behind", async () => {
  const chat = await opens("chooser");
  const names = ["one.txt", "two.txt", "three.txt"];
  await chooses(chat, ...names.map((name) => [name, "text/plain", Buffer.from(name)]));
  await chat.page.getByTestId("chosen-file").filter({ hasText: "two.txt" }).getByRole("button").click();
  await chat.page.getByTestId("send").click();
  const event = await agent.message();
  assert.deepEqual(event.media.map((media) => media.filename), ["one.txt", "three.txt"]);
  const bodies = await Promise.all(event.media_urls.map((url) => agent.downloads(url)));
  assert.deepEqual(bodies.map(String), ["one.txt", "three.txt"]);
});

test("a file of the agent is a link that downloads the same bytes", async () => {
  const chat = await opens("getter");
  await chat.says("make a report");
  const { source } = await agent.message();
  const source_url = await agent.uploads("report.bin", "application/octet-stream", BYTES);
  const action = { op: "send_media", chat_id: source.chat_id, media_kind: "document", source_url, content: "here it is", filename: "report.bin" };
  const sent = await agent.asks(action);
  assert.ok(sent.success, JSON.stringify(sent));
  const link = chat.lines("agent").getByTestId("file").locator("a");
  await link.filter({ hasText: "report.bin" }).waitFor();
  assert.deepEqual((await chat.texts("agent")).map((text) => text.trim()), ["here it is"]);
  const [name, bytes] = await downloads(link);
  assert.equal(name, "report.bin");
  assert.ok(bytes.equals(BYTES));
  assert.deepEqual(chat.troubles, []);
});
