// The reference's own tests, with its parser, lint, compiler and filters replaced by Posthouse.
//
// Only imports of test files are redirected. What the reference imports itself stays: a test may hand over a registry or
// a store of the reference.

import { fileURLToPath } from "node:url";

const modules = new URL("./modules/", import.meta.url);
const REDIRECTED = /^\.\.\/src\/(parser|lint|compile|filters)\.js$/;

export default {
  plugins: [
    {
      name: "posthouse",
      enforce: "pre",
      resolveId(imported, importer = "") {
        const module = /\/tests\/[^/]*\.test\.ts$/.test(importer) ? REDIRECTED.exec(imported) : null;
        return module === null ? null : fileURLToPath(new URL(`${module[1]}.mjs`, modules));
      },
    },
  ],
  test: {
    environment: "node",
    testTimeout: 120_000,
    setupFiles: ["./tests/setup.ts"],
    reporters: ["json"],
  },
};
