// One load on one system, in a process of its own: worker, callback and callers are all in here.
// `node stage.js NAME STAGE PORT LOADS`; the result goes to the parent as one message.

import * as loads from "./loads.js";

const [name, stage, port, described] = process.argv.slice(2);
const wanted = JSON.parse(described);
const system = await import(`./systems/${name}.js`);
const board = new loads.Board();

// Without a parent nobody ends this process or its server.
process.on("disconnect", () => process.exit(1));

const report = { version: system.version };
try {
  const open = await system.open({ port: Number(port), fired: board.fired, callers: wanted.arm_callers });
  report.settings = open.settings;
  report.result = await loads[stage](open, board, wanted);
} catch (trouble) {
  report.result = { ended: false, why: String(trouble?.message ?? trouble) };
}
// The server is ended next and the folder removed: nothing is left worth closing in order.
process.send(report, () => process.exit(0));
