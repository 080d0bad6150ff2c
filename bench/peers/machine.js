// What the figures were measured on.

import { closeSync, fdatasyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { rm } from "node:fs/promises";
import { availableParallelism, cpus, loadavg, release, totalmem } from "node:os";
import { join } from "node:path";

const SYNCS = 200;

/** Appends of 4 KiB, each followed by fdatasync, in the folder where the servers will write. */
async function sync_cost(folder) {
  const path = join(folder, "sync-probe");
  const file = openSync(path, "a");
  const page = Buffer.alloc(4096, 7);
  const times = [];
  for (let n = 0; n < SYNCS; n += 1) {
    const started = performance.now();
    writeSync(file, page);
    fdatasyncSync(file);
    times.push(performance.now() - started);
  }
  closeSync(file);
  await rm(path);
  times.sort((a, b) => a - b);
  const exact = (share) => Math.round(times[Math.ceil(share * times.length) - 1] * 1000) / 1000;
  return { p50_ms: exact(0.5), p99_ms: exact(0.99) };
}

/** The mount that holds the folder: the longest mount point that is a prefix of it. */
function filesystem(folder) {
  const mounts = readFileSync("/proc/mounts", "utf8").trim().split("\n").map((line) => line.split(" "));
  const holds = ([, point]) => folder === point || folder.startsWith(point.endsWith("/") ? point : `${point}/`);
  return mounts.filter(holds).sort((a, b) => b[1].length - a[1].length)[0]?.[2] ?? "unknown";
}

export async function machine(folder) {
  return {
    cpu: cpus()[0]?.model ?? "unknown",
    cores: availableParallelism(),
    memory_gib: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    node: process.versions.node,
    filesystem: filesystem(folder),
    fdatasync: await sync_cost(folder),
    load_average: Math.round(loadavg()[0] * 100) / 100,
  };
}
