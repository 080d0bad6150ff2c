// Parses, checks and runs the programs of `bench skills` with the skillscript runtime, and prints milliseconds of CPU.
// Arguments: the folder of the built runtime, and a JSON file with {programs: [{name, source, rounds}]}.

import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";

const [runtime, plan] = process.argv.slice(2);
const { execute, lint, parse, Registry, toposort } = await import(pathToFileURL(`${runtime}/dist/index.js`).href);

const cpu = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};
const median = (times) => times.sort((a, b) => a - b)[Math.floor(times.length / 2)];

async function once(source) {
  await lint(source, {});
  const parsed = parse(source);
  const variables = Object.fromEntries(parsed.vars.map(({ name, default: value }) => [name, value]));
  const order = toposort(parsed.targets, parsed.entryTarget);
  const result = await execute(parsed, variables, order, { registry: new Registry() });
  if (result.errors.length > 0) throw new Error(JSON.stringify(result.errors[0]));
  return result.transcript?.length ?? result.emissions?.length ?? 0;
}

const measured = {};
for (const { name, source, rounds } of JSON.parse(await readFile(plan, "utf8")).programs) {
  const times = [];
  // The first third warms up the compiler of the runtime.
  for (let round = 0; round < Math.ceil(rounds * 1.5); round += 1) {
    const begin = cpu();
    await once(source);
    if (round >= rounds / 2) times.push(cpu() - begin);
  }
  measured[name] = median(times);
}
console.log(JSON.stringify(measured));
