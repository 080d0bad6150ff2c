// beanstalkd: delays of whole seconds, counted from the moment the server reads the job.

import { connect } from "node:net";
import { beanstalkd } from "../servers.js";

const RESERVERS = 16;
// Jobs put ahead wait in a short line: a delay grows stale while others are synced before it.
const PUTTERS = 4;
const TTR_SECONDS = 60;

export const server = beanstalkd;
// The driver is this file; the version is the server's.
export const version = undefined;

/** One connection: commands go out in order and their answers come back in the same order. */
class Line {
  #waiting = [];
  #left = Buffer.alloc(0);

  static async to(port) {
    const socket = connect(port, "127.0.0.1").setNoDelay(true);
    await new Promise((done, failed) => socket.once("connect", done).once("error", failed));
    return new Line(socket);
  }

  constructor(socket) {
    this.socket = socket;
    socket.on("data", (bytes) => this.#take(bytes));
    const over = () => {
      for (const { failed } of this.#waiting.splice(0)) failed(new Error("the connection is closed"));
    };
    socket.on("error", over).on("close", over);
  }

  /** Resolves to the words of the answer and, where it carries one, the body. */
  ask(command) {
    return new Promise((done, failed) => {
      if (this.socket.destroyed) return failed(new Error("the connection is closed"));
      this.#waiting.push({ done, failed });
      this.socket.write(command);
    });
  }

  #take(bytes) {
    this.#left = this.#left.length ? Buffer.concat([this.#left, bytes]) : bytes;
    for (;;) {
      const end = this.#left.indexOf("\r\n");
      if (end < 0) return;
      const words = this.#left.toString("latin1", 0, end).split(" ");
      let next = end + 2;
      let body = "";
      if (words[0] === "RESERVED") {
        const length = Number(words[2]);
        if (this.#left.length < next + length + 2) return;
        body = this.#left.toString("utf8", next, next + length);
        next += length + 2;
      }
      this.#left = this.#left.subarray(next);
      this.#waiting.shift()?.done({ words, body });
    }
  }

  async put(job) {
    const body = JSON.stringify(job);
    // Rounded up: rounding to the nearest would fire early.
    const delay = Math.max(0, Math.ceil((job.due - Date.now()) / 1000));
    const { words } = await this.ask(`put 0 ${delay} ${TTR_SECONDS} ${Buffer.byteLength(body)}\r\n${body}\r\n`);
    if (words[0] !== "INSERTED") throw new Error(`put was answered ${words.join(" ")}`);
  }

  /** Reserves, runs and deletes until the connection ends; the next reserve travels with the delete. */
  async work(fired) {
    let reserved = this.ask("reserve\r\n");
    for (;;) {
      const { words, body } = await reserved;
      // Any other answer (a time to run that is nearly over) holds no job.
      if (words[0] === "RESERVED") {
        fired(JSON.parse(body));
        this.ask(`delete ${words[1]}\r\n`).catch(() => {});
      }
      reserved = this.ask("reserve\r\n");
    }
  }
}

export async function open({ port, fired, callers }) {
  const lines = (count) => Promise.all(Array.from({ length: count }, () => Line.to(port)));
  const reservers = await lines(RESERVERS);
  const putters = await lines(Math.max(callers, PUTTERS));
  for (const line of reservers) line.work(fired).catch(() => {});

  return {
    settings: { "reserving connections": RESERVERS, "putting connections": putters.length, delay: "whole seconds, rounded up" },
    chunk: 100,
    arm: (job, caller) => putters[caller].put(job),
    arm_many: async (jobs) => {
      const left = jobs.values();
      await Promise.all(putters.slice(0, PUTTERS).map(async (line) => {
        for (const job of left) await line.put(job);
      }));
    },
  };
}
