// What the page shows besides texts: buttons, reactions, threads, drafts and replies, against a running server and an
// agent of this test.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { Agent } from "./agent.js";
import { Chat, launch, tidy } from "./browser.js";

let browser;
let agent;
let chat;
let room;

before(async () => {
  browser = await launch();
  agent = await Agent.connect(`asker-${process.pid}-${Date.now().toString(36)}`);
});
after(async () => {
  agent?.close();
  await browser?.close();
});
afterEach(tidy);

/** A new person's page with the agent, who has heard one message. */
async function opens(who) {
  chat = await Chat.open(browser, `${who}-${process.pid}-${Date.now().toString(36)}`);
  await chat.turnsTo(agent.instance);
  await chat.says("hello");
  const event = await agent.message();
  room = event.source.chat_id;
  return event;
}

test("a question has buttons, one press answers it, and a follow-up answers the press", async () => {
  await opens("presser");
  const options = [{ id: "once", label: "Allow once" }, { id: "deny", label: "Deny" }];
  const asked = await agent.asks({ op: "prompt", chat_id: room, prompt_kind: "approval", prompt_id: "p1.a", content: "Run it?", options });
  assert.ok(asked.success, JSON.stringify(asked));
  const buttons = chat.page.getByTestId("option");
  await buttons.first().waitFor();
  assert.deepEqual(await buttons.allInnerTexts(), ["Allow once", "Deny"]);
  await buttons.nth(1).click();
  const press = await agent.message();
  assert.equal(press.text, "/deny");
  assert.deepEqual([press.prompt_response.prompt_id, press.prompt_response.option_id], ["p1.a", "deny"]);
  await chat.page.waitForSelector('[data-testid="option"][aria-pressed="true"]');
  assert.ok(await buttons.first().isDisabled(), "it takes one press");
  // Stock agents have no name of their own for this platform.
  const session_key = `agent:main:relay:dm:${room}`;
  const follow = { op: "follow_up", session_key, kind: "web.reply_token", content: "As you wish." };
  assert.ok((await agent.asks(follow)).success);
  await chat.page.getByText("As you wish.").waitFor();
  assert.equal((await agent.asks(follow)).error, "no usable capability for this session");
  await chat.page.reload();
  await chat.page.waitForSelector('[data-testid="option"][aria-pressed="true"]');
  assert.deepEqual(chat.troubles, []);
});

test("reactions are shown and stay", async () => {
  const said = await opens("liked");
  await agent.asks({ op: "react", chat_id: room, message_id: said.message_id, emoji: "👀" });
  const shown = chat.lines("person").getByTestId("reactions");
  await shown.filter({ hasText: "👀" }).waitFor();
  await agent.asks({ op: "react", chat_id: room, message_id: said.message_id, emoji: "👀", remove: true });
  await agent.asks({ op: "react", chat_id: room, message_id: said.message_id, emoji: "✅" });
  await shown.filter({ hasText: /^✅$/ }).waitFor();
  await chat.page.reload();
  await shown.filter({ hasText: "✅" }).waitFor();
});

test("a draft is shown, and the answer takes its place", async () => {
  await opens("reader");
  await agent.asks({ op: "draft", chat_id: room, draft_id: 7, content: "so **far**", final: false });
  const draft = chat.page.getByTestId("draft");
  await draft.waitFor();
  assert.equal((await draft.locator(".body").innerText()).trim(), "so far");
  await agent.asks({ op: "send", chat_id: room, content: "so far and no further" });
  await chat.answered(1);
  assert.equal(await draft.count(), 0);
  assert.deepEqual(await chat.texts("agent"), ["so far and no further"]);
});

test("one writes in a thread and replies to a message", async () => {
  await opens("writer");
  const made = await agent.asks({ op: "thread_create", chat_id: room, thread_name: "plans" });
  const told = await agent.asks({ op: "send", chat_id: room, content: "blue or green?", metadata: { thread_id: made.thread_id } });
  const tag = chat.lines("agent").getByTestId("thread");
  await tag.filter({ hasText: "in plans" }).waitFor();
  await tag.click();
  await chat.lines("agent").hover();
  await chat.lines("agent").getByTestId("reply").click();
  assert.match(await chat.page.getByTestId("place").innerText(), /Replying to “blue or green\?” in plans/);
  await chat.says("blue");
  const reply = await agent.message();
  assert.deepEqual([reply.source.thread_id, reply.reply_to_message_id], [made.thread_id, told.message_id]);
  assert.deepEqual([reply.reply_to.text, reply.reply_to.is_own], ["blue or green?", true]);
  await chat.lines("person").last().getByTestId("quote").filter({ hasText: "blue or green?" }).waitFor();
  await agent.asks({ op: "thread_rename", chat_id: room, message_id: made.thread_id, thread_name: "done", only_if_current_name: "plans" });
  await tag.filter({ hasText: "in done" }).waitFor();
  const kept = await agent.asks({ op: "thread_rename", chat_id: room, message_id: made.thread_id, thread_name: "x", only_if_current_name: "plans" });
  assert.equal(kept.success, false, "it has another name now");
});
