// graphile-worker: a job of the future is found by polling; batching as its performance page advises.

import { readFileSync } from "node:fs";
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";
import { address, postgres } from "../servers.js";

const TASK = "fire";
// The default poll is two seconds, and no least one is documented: ten milliseconds is a hundred queries a
// second for as long as the worker lives, due jobs or none.
const WORKER = {
  concurrentJobs: 24,
  maxPoolSize: 26,
  pollInterval: 10,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};
// With the worker's own this stays below the hundred that PostgreSQL allows.
const ARMING_CONNECTIONS = 64;

export const server = postgres;
export const version = JSON.parse(readFileSync(new URL("../node_modules/graphile-worker/package.json", import.meta.url))).version;

export async function open({ port, fired, callers }) {
  const { connectionString } = address(port);
  const logger = new Logger(() => () => {});
  const pool = new pg.Pool({ connectionString, max: Math.min(callers, ARMING_CONNECTIONS) });
  // A connection that breaks is the server's end, seen elsewhere; without handlers it would end this process.
  pool.on("error", () => {});
  pool.on("connect", (client) => client.on("error", () => {}));
  const utils = await makeWorkerUtils({ pgPool: pool, logger });
  await utils.migrate();
  const runner = await run({
    preset: { worker: { connectionString, ...WORKER } },
    logger,
    noHandleSignals: true,
    taskList: { [TASK]: async (job) => fired(job) },
  });
  runner.promise.catch(() => {});

  return {
    settings: { ...WORKER, "connections for arming": pool.options.max },
    chunk: 500,
    arm: (job) => utils.addJob(TASK, job, { runAt: new Date(job.due), maxAttempts: 1 }),
    arm_many: (jobs) =>
      utils.addJobs(jobs.map((job) => ({ identifier: TASK, payload: job, runAt: new Date(job.due), maxAttempts: 1 }))),
  };
}
