// The document as a Markdown table.

const pair = (stage, unit) => {
  if (!stage) return "not measured";
  const figures = stage.p50_ms == null ? "" : `${stage.p50_ms} / ${stage.p99_ms}${unit}`;
  const early = stage.early ? `, ${stage.early} early` : "";
  const unfinished = stage.ended ? "" : ` (did not end: ${stage.why})`;
  return `${figures}${early}${unfinished}`;
};

const per_second = (stage) => {
  if (!stage) return "not measured";
  return stage.ended ? String(stage.per_second) : `did not end: ${stage.why}`;
};

export function table({ machine, loads, systems, granted, took_seconds }) {
  const { rate, seconds, burst, arm_callers } = loads;
  const lines = [
    `| system | ${rate}/s for ${seconds} s: p50 / p99 late, ms | ${burst} in one instant: p50 / p99, ms | armed per second, ${arm_callers} callers |`,
    "|---|---|---|---|",
  ];
  for (const system of systems) {
    const name = `${system.name} ${system.version ?? ""}, ${system.server ?? "server not started"} ${system.server_version ?? ""}`;
    lines.push(`| ${name.trim()} | ${pair(system.rate, "")} | ${pair(system.burst, "")} | ${per_second(system.arm)} |`);
  }
  lines.push("", `${machine.cpu}, ${machine.cores} cores, ${machine.filesystem}, fdatasync p50 ${machine.fdatasync.p50_ms} ms; ${took_seconds} s.`, granted);
  return `${lines.join("\n")}\n`;
}
