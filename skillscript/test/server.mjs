// A Posthouse server and an agent as child processes, with the operator's commands that the tests need.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

const BIN = process.env.POSTHOUSE_BIN;
/** An agent of the SDK that prints every message and adds numbers when it is asked. */
const ANSWERING_AGENT = join(dirname(BIN), "examples", "answering");

const run = promisify(execFile);

async function freePort() {
  const listener = createServer().listen(0, "127.0.0.1");
  await once(listener, "listening");
  const { port } = listener.address();
  listener.close();
  await once(listener, "close");
  return port;
}

/** A process whose lines of output can be waited for. */
class Child {
  #lines = [];
  #changed = Promise.withResolvers();
  #exited;

  constructor(command, args, env) {
    this.process = spawn(command, args, { env, stdio: ["ignore", "pipe", "pipe"] });
    this.#exited = once(this.process, "exit");
    for (const stream of [this.process.stdout, this.process.stderr]) {
      createInterface({ input: stream }).on("line", (line) => {
        this.#lines.push(line);
        this.#change();
      });
    }
    this.#exited.then(() => this.#change());
  }

  #change() {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  /** The first line that matches, now or later. */
  async line(pattern) {
    for (;;) {
      const found = this.#lines.find((line) => pattern.test(line));
      if (found !== undefined) return found;
      if (this.process.exitCode !== null) throw new Error(`it ended:\n${this.#lines.join("\n")}`);
      await this.#changed.promise;
    }
  }

  async end(signal) {
    this.process.kill(signal);
    await this.#exited;
  }
}

export class Server {
  #folder = mkdtempSync(join(tmpdir(), "posthouse-skillscript-"));
  #children = [];
  #tenants = 0;
  #server;

  static async open() {
    const server = new Server();
    server.url = `http://127.0.0.1:${await freePort()}`;
    await server.command("init", join(server.#folder, "server"));
    await server.start();
    return server;
  }

  async start() {
    this.#server = new Child(BIN, ["serve", "--config", join(this.#folder, "server", "posthouse.toml")], this.#env());
    await this.#server.line(/http:\/\//);
  }

  /** Kills the server without a warning and starts it again. */
  async killAndStart() {
    await this.#server.end("SIGKILL");
    await this.start();
  }

  #env() {
    return { ...process.env, POSTHOUSE_SERVER__LISTEN: new URL(this.url).host };
  }

  async command(...args) {
    const { stdout } = await run(BIN, args, { env: this.#env(), maxBuffer: 64 << 20 });
    return stdout;
  }

  async admin(...args) {
    return JSON.parse(await this.command("--dir", join(this.#folder, "server"), ...args, "--json"));
  }

  /** A new tenant with a credential for its programs, as options for `connectPosthouse`. */
  async tenant() {
    const tenant = `tenant-${++this.#tenants}`;
    await this.admin("tenant", "create", tenant);
    const { client_id: clientId, client_secret: clientSecret } = await this.admin("client", "create", "--tenant", tenant);
    return { tenant, url: this.url, clientId, clientSecret };
  }

  /** An agent of the tenant, once it is connected. Its output has every message that it got. */
  async agent(tenant, name) {
    const { env } = await this.admin("agent", "create", name, "--tenant", tenant);
    const child = new Child(ANSWERING_AGENT, [], { ...process.env, ...env });
    this.#children.push(child);
    await child.line(/listening/);
    for (;;) {
      const { connected } = await this.admin("agent", "show", name);
      if (connected) return child;
    }
  }

  async close() {
    for (const child of this.#children) await child.end("SIGTERM");
    await this.#server.end("SIGTERM");
    rmSync(this.#folder, { recursive: true });
  }
}
