// The servers: each started for one system, on loopback, in a folder that goes away with it.

import { execFileSync, spawn } from "node:child_process";
import { openSync } from "node:fs";
import { chown, mkdir, readFile } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";

const READY_MS = 30_000;
const END_MS = 10_000;

const first = (text) => text.trim().split("\n")[0];
const said = (program, ...args) => first(execFileSync(program, args, { encoding: "utf8", timeout: 10_000 }));

export async function free_port() {
  const listener = createServer();
  await new Promise((taken, failed) => listener.once("error", failed).listen(0, "127.0.0.1", taken));
  const { port } = listener.address();
  await new Promise((closed) => listener.close(closed));
  return port;
}

function answers(port) {
  return new Promise((taken, refused) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => { socket.destroy(); taken(); });
    socket.once("error", refused);
  });
}

/** A running server. If this process dies first, the kernel ends the server (`--pdeathsig`). */
async function start({ folder, program, args, port, probe = answers, end_by = "SIGTERM", identity = {} }) {
  const log_path = join(folder, "server.log");
  const log = openSync(log_path, "a");
  const child = spawn("setpriv", ["--pdeathsig", end_by.slice(3), program, ...args], {
    cwd: folder,
    stdio: ["ignore", log, log],
    ...identity,
  });
  const ended = new Promise((done) => {
    child.once("exit", done);
    child.once("error", done);
  });
  const is_over = () => child.pid === undefined || child.exitCode !== null || child.signalCode !== null;
  const end = async () => {
    if (is_over()) return;
    child.kill(end_by);
    const stubborn = setTimeout(() => child.kill("SIGKILL"), END_MS);
    await ended;
    clearTimeout(stubborn);
  };

  const until = Date.now() + READY_MS;
  for (;;) {
    try {
      await probe(port);
      return { port, end };
    } catch (trouble) {
      if (!is_over() && Date.now() < until) {
        await pause(50);
        continue;
      }
      await end();
      const tail = (await readFile(log_path, "utf8")).trim().split("\n").slice(-5).join(" | ");
      throw new Error(`${program} did not start: ${trouble.message}; ${tail}`);
    }
  }
}

/**
 * Every acknowledged write is on the disk; no snapshots besides. A blocked client's timeout, which is how BullMQ
 * waits for the next due job, is looked at `hz` times a second: 100 is the most its documentation advises.
 */
export async function redis(folder) {
  const port = await free_port();
  const settings = { appendonly: "yes", appendfsync: "always", save: "", hz: "100" };
  const args = ["--bind", "127.0.0.1", "--port", String(port), "--dir", folder];
  for (const [name, value] of Object.entries(settings)) args.push(`--${name}`, value);
  const version = said("redis-server", "--version").match(/v=(\S+)/)?.[1];
  return { ...(await start({ folder, program: "redis-server", args, port })), name: "Redis", version, settings };
}

/** The log is synced at every write, before the answer. */
export async function beanstalkd(folder) {
  const port = await free_port();
  const args = ["-l", "127.0.0.1", "-p", String(port), "-b", folder, "-f", "0"];
  const version = said("beanstalkd", "-v").replace(/^beanstalkd /, "");
  const settings = { "-b": "a log folder", "-f": "0 (sync at every write)" };
  return { ...(await start({ folder, program: "beanstalkd", args, port })), name: "beanstalkd", version, settings };
}

/** A fresh cluster with the settings initdb gives it. */
export async function postgres(folder) {
  const bin = (name) => (process.env.POSTGRES_BIN ? join(process.env.POSTGRES_BIN, name) : name);
  const version = said(bin("postgres"), "--version").match(/(\d\S*)/)?.[1];
  // PostgreSQL refuses to run as root; Debian's package brings an account for it.
  const identity = {};
  if (process.getuid() === 0) {
    identity.uid = Number(said("id", "-u", "postgres"));
    identity.gid = Number(said("id", "-g", "postgres"));
    await chown(folder, identity.uid, identity.gid);
  }
  const cluster = join(folder, "cluster");
  await mkdir(cluster, { mode: 0o700 });
  if (identity.uid !== undefined) await chown(cluster, identity.uid, identity.gid);
  execFileSync(bin("initdb"), ["-D", cluster, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"], {
    stdio: ["ignore", "ignore", "pipe"],
    cwd: folder,
    timeout: 120_000,
    ...identity,
  });

  const port = await free_port();
  const args = ["-D", cluster, "-p", String(port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="];
  const settings = {};
  const probe = async () => {
    const client = new pg.Client(address(port));
    client.on("error", () => {});
    try {
      await client.connect();
      for (const name of ["fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_connections"]) {
        settings[name] = (await client.query(`show ${name}`)).rows[0][name];
      }
    } finally {
      await client.end().catch(() => {});
    }
  };
  // SIGINT is the fast shutdown: it does not wait for clients.
  const server = await start({ folder, program: bin("postgres"), args, port, probe, end_by: "SIGINT", identity });
  return { ...server, name: "PostgreSQL", version, settings };
}

/** How a client reaches the cluster. */
export const address = (port) => ({ connectionString: `postgres://postgres@127.0.0.1:${port}/postgres` });
