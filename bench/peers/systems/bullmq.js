// BullMQ: delayed jobs in a Redis sorted set; the worker blocks until the next one is due.

import { readFileSync } from "node:fs";
import { Queue, Worker } from "bullmq";
import { redis } from "../servers.js";

const QUEUE = "peers";
const CONCURRENCY = 50;

export const server = redis;
export const version = JSON.parse(readFileSync(new URL("../node_modules/bullmq/package.json", import.meta.url))).version;

export async function open({ port, fired }) {
  const connection = { host: "127.0.0.1", port, maxRetriesPerRequest: null };
  const settings = { concurrency: CONCURRENCY, removeOnComplete: true, attempts: 1, connections: "one for all callers, pipelined" };
  const queue = new Queue(QUEUE, { connection, defaultJobOptions: { removeOnComplete: true, attempts: 1 } });
  const worker = new Worker(QUEUE, async ({ data }) => fired(data), { connection, concurrency: CONCURRENCY });
  // A broken connection is the server's end, seen elsewhere; without handlers it would end this process.
  worker.on("error", () => {});
  queue.on("error", () => {});
  await Promise.all([queue.waitUntilReady(), worker.waitUntilReady()]);

  // The delay counts from the timestamp, so both are ours and the due time is exact.
  const options = (due) => {
    const timestamp = Date.now();
    return { timestamp, delay: Math.max(0, due - timestamp) };
  };
  return {
    settings,
    chunk: 500,
    arm: (job) => queue.add("fire", job, options(job.due)),
    arm_many: (jobs) => queue.addBulk(jobs.map((job) => ({ name: "fire", data: job, opts: options(job.due) }))),
  };
}
