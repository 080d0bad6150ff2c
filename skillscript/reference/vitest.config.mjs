// The reference's own tests, with its parser, lint, compiler and filters replaced by Posthouse.
//
// Only imports of test files are redirected. What the reference imports itself stays: a test may hand over a registry or
// a store of the reference, and may run what Posthouse has parsed on the reference.

import { resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const REDIRECTED = /^\.\.\/src\/(parser|lint|compile|filters)\.js$/;

export default {
  plugins: [
    {
      name: "posthouse",
      enforce: "pre",
      async resolveId(imported, importer = "") {
        const module = /\/tests\/[^/]*\.test\.ts$/.test(importer) ? REDIRECTED.exec(imported) : null;
        if (module !== null) return here(`./modules/${module[1]}.mjs`);
        if (imported === "reference/errors") return resolve("src/errors.ts");
        // For files of this folder, which has no packages.
        if (imported === "vitest" && importer === here("./setup.mjs")) return this.resolve(imported, resolve("tests/setup.ts"));
        return null;
      },
    },
  ],
  test: {
    environment: "node",
    testTimeout: 120_000,
    setupFiles: ["./tests/setup.ts", here("./setup.mjs")],
    reporters: ["json"],
  },
};
