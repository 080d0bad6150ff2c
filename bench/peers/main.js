// Runs every load on every system, each on a server of its own, and prints one document.

import { fork } from "node:child_process";
import { chmod, mkdir, mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { limit_ms } from "./loads.js";
import { machine } from "./machine.js";
import { table } from "./table.js";

const SYSTEMS = ["bullmq", "graphile-worker", "pg-boss", "beanstalkd"];
const STAGES = ["rate", "burst", "arm"];
const GRANTED =
  "The callback is a function inside the worker process: no HTTP hop, no token, no second process. " +
  "Jobs of the first two loads are armed ahead in bulk and the process is warm.";

const say = (text) => process.stderr.write(`   ${text}\n`);

function read_arguments() {
  const number = (fallback) => ({ type: "string", default: String(fallback) });
  const { values } = parseArgs({
    options: {
      json: { type: "boolean", default: false },
      only: { type: "string", multiple: true, default: SYSTEMS },
      rate: number(500),
      seconds: number(20),
      burst: number(5000),
      "arm-callers": number(64),
      "arm-seconds": number(5),
    },
  });
  const whole = (name, most) => {
    const value = Number(values[name]);
    if (!Number.isInteger(value) || value < 1 || value > most) throw new Error(`--${name} is a whole number from 1 to ${most}`);
    return value;
  };
  for (const name of values.only) {
    if (!SYSTEMS.includes(name)) throw new Error(`--only is one of ${SYSTEMS.join(", ")}`);
  }
  const loads = {
    rate: whole("rate", 10_000),
    seconds: whole("seconds", 600),
    burst: whole("burst", 1_000_000),
    arm_callers: whole("arm-callers", 90),
    arm_seconds: whole("arm-seconds", 600),
  };
  return { json: values.json, only: SYSTEMS.filter((name) => values.only.includes(name)), loads };
}

/** The stage in its own process; one that does not end is ended, and says so. */
function measure(name, stage, port, loads, stop) {
  const limit = limit_ms(stage, loads);
  return new Promise((done) => {
    const script = fileURLToPath(new URL("./stage.js", import.meta.url));
    const child = fork(script, [name, stage, String(port), JSON.stringify(loads)], {
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    let report;
    let why = "the driver ended without a result";
    const end = (reason) => {
      why = reason;
      child.kill("SIGKILL");
    };
    const patience = setTimeout(() => end(`ended after ${Math.round(limit / 1000)} s without a result`), limit);
    const stopped = () => end("interrupted");
    stop.addEventListener("abort", stopped, { once: true });
    child.once("message", (message) => { report = message; });
    child.once("error", (trouble) => { why = trouble.message; });
    child.once("close", () => {
      clearTimeout(patience);
      stop.removeEventListener("abort", stopped);
      done(report ?? { result: { ended: false, why } });
    });
  });
}

async function run_stage(name, stage, scratch, loads, stop) {
  const folder = join(scratch, `${name}-${stage}`);
  await mkdir(folder);
  const { server } = await import(`./systems/${name}.js`);
  const running = await server(folder);
  try {
    const report = await measure(name, stage, running.port, loads, stop);
    return { running, report };
  } finally {
    await running.end();
    await rm(folder, { recursive: true, force: true });
  }
}

async function run_system(name, scratch, loads, stop) {
  const entry = { name };
  for (const stage of STAGES) {
    if (stop.aborted) break;
    say(`${name}: ${stage}`);
    const started = Date.now();
    try {
      const { running, report } = await run_stage(name, stage, scratch, loads, stop);
      entry.version ??= report.version ?? running.version;
      entry.server ??= running.name;
      entry.server_version ??= running.version;
      entry.settings ??= report.settings && { ...report.settings, server: running.settings };
      entry[stage] = report.result;
    } catch (trouble) {
      entry[stage] = { ended: false, why: trouble.message };
    }
    entry[stage].took_seconds = Math.round((Date.now() - started) / 100) / 10;
    const { ended, why, p50_ms, p99_ms, per_second } = entry[stage];
    const found = per_second === undefined ? `p50 ${p50_ms} ms, p99 ${p99_ms} ms` : `${per_second} per second`;
    say(`${name}: ${stage}: ${ended ? found : `did not end: ${why}`}`);
  }
  return entry;
}

let wanted;
try {
  wanted = read_arguments();
} catch (trouble) {
  process.stderr.write(`${trouble.message}\n`);
  process.exit(2);
}

const stopping = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => stopping.abort());

const started = Date.now();
const scratch = await mkdtemp(join(await realpath(tmpdir()), "posthouse-peers-"));
// PostgreSQL's account must be able to walk through.
await chmod(scratch, 0o755);
const document = { granted: GRANTED, loads: wanted.loads, machine: null, systems: [] };
try {
  document.machine = await machine(scratch);
  for (const name of wanted.only) {
    if (stopping.signal.aborted) break;
    document.systems.push(await run_system(name, scratch, wanted.loads, stopping.signal));
  }
} finally {
  await rm(scratch, { recursive: true, force: true });
}
document.took_seconds = Math.round((Date.now() - started) / 1000);
process.stdout.write(wanted.json ? `${JSON.stringify(document, null, 2)}\n` : table(document));
process.exitCode = stopping.signal.aborted ? 130 : 0;
