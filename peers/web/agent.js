// An agent on the relay's socket, as small as it can be: it says hello for the web chat and asks what a test tells it.

import { createHmac, randomBytes } from "node:crypto";
import http from "node:http";
import { posthouse, server } from "./browser.js";

/** The credential for the upgrade, as a stock gateway makes it. */
function token(gateway, secret) {
  const head = `${gateway}:${Math.floor(Date.now() / 1000) + 300}`;
  const signature = createHmac("sha256", secret).update(head).digest("hex");
  return Buffer.from(`${head}:${signature}`).toString("base64url");
}

/** One frame of a client. Its text must be masked. */
function frame(opcode, body) {
  const mask = randomBytes(4);
  const head =
    body.length < 126
      ? Buffer.from([0x80 | opcode, 0x80 | body.length])
      : Buffer.from([0x80 | opcode, 0x80 | 126, body.length >> 8, body.length & 255]);
  return Buffer.concat([head, mask, body.map((byte, at) => byte ^ mask[at % 4])]);
}

export class Agent {
  #socket;
  #rest = Buffer.alloc(0);
  #heard = [];
  #waiting = [];
  #requests = 0;
  #bearer;

  /** Creates an agent and connects it. */
  static async connect(name) {
    const made = await posthouse("agent", "create", name, "--tenant", "home");
    const agent = new Agent();
    agent.instance = made.instance_id;
    await agent.#dial(made);
    agent.#say({ type: "hello", platform: "web", botId: agent.instance, client: "page-test", window: 8 });
    await agent.hears((heard) => heard.type === "descriptor");
    return agent;
  }

  async #dial(made) {
    this.#bearer = { authorization: `Bearer ${token(made.gateway_id, made.secret)}` };
    const headers = {
      connection: "Upgrade", upgrade: "websocket", "sec-websocket-version": "13",
      "sec-websocket-key": randomBytes(16).toString("base64"),
      ...this.#bearer,
    };
    this.#socket = await new Promise((done, fail) => {
      const asked = http.request(`${server}/relay`, { headers });
      asked.on("upgrade", (_, socket, first) => {
        this.#read(first);
        done(socket);
      });
      asked.on("response", (answer) => fail(new Error(`the upgrade was answered ${answer.statusCode}`)));
      asked.on("error", fail);
      asked.end();
    });
    this.#socket.on("data", (bytes) => this.#read(bytes));
    this.#socket.on("error", () => {});
  }

  #say(message) {
    this.#socket.write(frame(1, Buffer.from(`${JSON.stringify(message)}\n`)));
  }

  #read(bytes) {
    this.#rest = Buffer.concat([this.#rest, bytes]);
    for (;;) {
      const rest = this.#rest;
      if (rest.length < 2) return;
      const opcode = rest[0] & 15;
      let [length, from] = [rest[1] & 127, 2];
      if (length === 126) [length, from] = [rest.length < 4 ? Infinity : rest.readUInt16BE(2), 4];
      else if (length === 127) [length, from] = [rest.length < 10 ? Infinity : Number(rest.readBigUInt64BE(2)), 10];
      if (rest.length < from + length) return;
      const body = rest.subarray(from, from + length);
      this.#rest = rest.subarray(from + length);
      if (opcode === 9) this.#socket.write(frame(10, body));
      if (opcode === 1) for (const line of body.toString().split("\n").filter(Boolean)) this.#hear(JSON.parse(line));
    }
  }

  #hear(heard) {
    if (heard.type === "inbound") this.#say({ type: "inbound_ack", bufferId: heard.bufferId });
    this.#heard.push(heard);
    this.#waiting = this.#waiting.filter((look) => !look());
  }

  /** Waits for a frame that fits, and takes it. */
  hears(fits) {
    return new Promise((done, fail) => {
      const end = setTimeout(() => fail(new Error(`nothing fits among ${JSON.stringify(this.#heard)}`)), 45000);
      const look = () => {
        const at = this.#heard.findIndex(fits);
        if (at < 0) return false;
        clearTimeout(end);
        done(this.#heard.splice(at, 1)[0]);
        return true;
      };
      if (!look()) this.#waiting.push(look);
    });
  }

  /** The next message of a person. */
  async message() {
    return (await this.hears((heard) => heard.type === "inbound")).event;
  }

  /** Asks for an action and returns its result. */
  async asks(action) {
    const requestId = `r${(this.#requests += 1)}`;
    this.#say({ type: "outbound", requestId, action, platform: "web", botId: this.instance });
    return (await this.hears((heard) => heard.type === "outbound_result" && heard.requestId === requestId)).result;
  }

  /** Uploads a file and returns its URL, as an agent sends it on. */
  async uploads(name, type, bytes) {
    const headers = { ...this.#bearer, "content-type": type, "x-media-filename": name };
    const answer = await fetch(`${server}/relay/media`, { method: "POST", headers, body: bytes });
    if (!answer.ok) throw new Error(`the upload was answered ${answer.status}`);
    return `${server}/relay/media/${(await answer.json()).id}`;
  }

  /** The file behind the URL of an attachment. */
  async downloads(url) {
    const answer = await fetch(url, { headers: this.#bearer });
    if (!answer.ok) throw new Error(`the download was answered ${answer.status}`);
    return Buffer.from(await answer.arrayBuffer());
  }

  close() {
    this.#socket?.destroy();
  }
}
