// Notes which tests reach Posthouse.

import { existsSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterEach, beforeEach } from "vitest";

const file = join(tmpdir(), `posthouse-reached-${process.pid}-${process.env.VITEST_POOL_ID}`);

beforeEach(() => {
  rmSync(file, { force: true });
  process.env.POSTHOUSE_REACHED = file;
});

afterEach(({ task }) => {
  delete process.env.POSTHOUSE_REACHED;
  if (existsSync(file)) task.meta.reachesPosthouse = true;
  rmSync(file, { force: true });
});
