// pg-boss: a job of the future is found by polling, at most twice a second; full batches are followed at once.

import { readFileSync } from "node:fs";
import { PgBoss } from "pg-boss";
import { address, postgres } from "../servers.js";

const QUEUE = "fire";
const WORKER = { pollingIntervalSeconds: 0.5, batchSize: 500, burstWhenBatchFull: true };

export const server = postgres;
export const version = JSON.parse(readFileSync(new URL("../node_modules/pg-boss/package.json", import.meta.url))).version;

export async function open({ port, fired, callers }) {
  const boss = new PgBoss({ ...address(port), max: callers, schedule: false });
  boss.on("error", () => {});
  await boss.start();
  await boss.createQueue(QUEUE, { retryLimit: 0 });
  await boss.work(QUEUE, WORKER, async (jobs) => {
    for (const { data } of jobs) fired(data);
  });

  return {
    settings: { ...WORKER, connections: callers },
    chunk: 500,
    arm: (job) => boss.send(QUEUE, job, { startAfter: new Date(job.due) }),
    arm_many: (jobs) => boss.insert(QUEUE, jobs.map((job) => ({ data: job, startAfter: new Date(job.due) }))),
  };
}
