// The three loads, the same for every system. A job is `{ load, n, due }`; `due` is a wall clock millisecond.

import { setTimeout as pause } from "node:timers/promises";

const WARM_JOBS = 300;
const WARM_ARMING_MS = 1_000;
const DRAIN_MS = 60_000;
const LEAD_MS = 3_000;
const AN_HOUR_MS = 3_600_000;

/** The nearest rank in a sorted list, to a tenth of a millisecond. */
export function percentile(sorted, share) {
  if (sorted.length === 0) return null;
  const rank = Math.max(1, Math.ceil(share * sorted.length));
  return Math.round(sorted[rank - 1] * 10) / 10;
}

/** Takes down every fire as it comes. The clock is the wall's, whole milliseconds, as the due times are. */
export class Board {
  #loads = new Map();

  fired = ({ load, n, due }) => {
    const now = Date.now();
    const sheet = this.#loads.get(load);
    if (!sheet) return;
    if (sheet.seen[n]++) {
      sheet.twice += 1;
      return;
    }
    if (now < due) sheet.early += 1;
    sheet.lateness.push(now - due);
    if (sheet.lateness.length === sheet.of) sheet.complete();
  };

  /** Expects so many jobs under this name. */
  expect(load, of) {
    const sheet = { of, seen: new Uint8Array(of), lateness: [], early: 0, twice: 0 };
    sheet.all = new Promise((done) => { sheet.complete = done; });
    this.#loads.set(load, sheet);
    return sheet;
  }
}

/** Resolves to whether it came about in time. */
async function within(ms, promise) {
  const gave_up = new AbortController();
  const late = pause(Math.max(0, ms), false, { signal: gave_up.signal }).catch(() => false);
  try {
    return await Promise.race([promise.then(() => true), late]);
  } finally {
    gave_up.abort();
  }
}

async function arm_ahead(system, jobs) {
  for (let from = 0; from < jobs.length; from += system.chunk) {
    await system.arm_many(jobs.slice(from, from + system.chunk));
  }
}

/** A few hundred jobs that nobody measures; returns what arming one of them cost, in milliseconds. */
async function warm_up(system, board) {
  const sheet = board.expect("warm", WARM_JOBS);
  const started = Date.now();
  const jobs = Array.from({ length: WARM_JOBS }, (_, n) => ({ load: "warm", n, due: started + 1_000 + n }));
  await arm_ahead(system, jobs);
  const cost = (Date.now() - started) / WARM_JOBS;
  if (!(await within(30_000, sheet.all))) throw new Error("the jobs armed to warm up did not fire within 30 s");
  return cost;
}

/** Arms everything ahead of the first due time, then waits for the fires. */
async function fires(system, board, count, due_after) {
  const cost = await warm_up(system, board);
  let lead = LEAD_MS + Math.ceil(2 * cost * count);
  for (let attempt = 1; ; attempt += 1) {
    const load = `measured ${attempt}`;
    const sheet = board.expect(load, count);
    const start = Date.now() + lead;
    const jobs = Array.from({ length: count }, (_, n) => ({ load, n, due: start + due_after(n) }));
    const arming = Date.now();
    await arm_ahead(system, jobs);
    const armed_ms = Date.now() - arming;

    const last_due = jobs[count - 1].due;
    const ended = await within(last_due + DRAIN_MS - Date.now(), sheet.all);
    // Jobs armed after they were due say nothing about lateness: once more, with more time ahead.
    if (arming + armed_ms > start - 500 && ended && attempt < 3) {
      lead = Math.max(2 * lead, 2 * armed_ms + LEAD_MS);
      continue;
    }
    const sorted = Float64Array.from(sheet.lateness).sort();
    const result = {
      ended,
      of: count,
      fired: sorted.length,
      early: sheet.early,
      twice: sheet.twice,
      p50_ms: percentile(sorted, 0.5),
      p99_ms: percentile(sorted, 0.99),
      max_ms: percentile(sorted, 1),
      armed_ahead_in_ms: armed_ms,
    };
    if (!ended) result.why = `${count - sorted.length} jobs had not fired ${DRAIN_MS / 1000} s after the last was due`;
    if (arming + armed_ms > start - 500) result.caveat = "arming ended after the first job was due";
    return result;
  }
}

/** So many fires per second, evenly, for so long. */
export const rate = (system, board, { rate, seconds }) =>
  fires(system, board, Math.round(rate * seconds), (n) => Math.round((n * 1000) / rate));

/** All of them due in one instant. */
export const burst = (system, board, { burst }) => fires(system, board, burst, () => 0);

/** Callers at once, each arming one job after another, each waiting for the durable answer. */
export async function arm(system, board, { arm_callers, arm_seconds }) {
  let n = 0;
  const arming = async (ms) => {
    const calls = [];
    const started = performance.now();
    const caller = async (_, which) => {
      while (performance.now() < started + ms) {
        const asked = performance.now();
        await system.arm({ load: "arm", n: n++, due: Date.now() + AN_HOUR_MS }, which);
        calls.push(performance.now() - asked);
      }
    };
    await Promise.all(Array.from({ length: arm_callers }, caller));
    return { calls, seconds: (performance.now() - started) / 1000 };
  };
  await arming(WARM_ARMING_MS);
  const { calls, seconds } = await arming(arm_seconds * 1000);
  const sorted = Float64Array.from(calls).sort();
  return {
    ended: true,
    callers: arm_callers,
    jobs: calls.length,
    seconds: Math.round(seconds * 100) / 100,
    per_second: Math.round(calls.length / seconds),
    call_p50_ms: percentile(sorted, 0.5),
    call_p99_ms: percentile(sorted, 0.99),
  };
}

/** How long a stage may take in all, start-up and arming included, before it is ended from outside. */
export function limit_ms(stage, { rate, seconds, burst, arm_seconds }) {
  // A slow system is given ten milliseconds to arm each job ahead.
  if (stage === "rate") return 60_000 + 10 * rate * seconds + 1000 * seconds + DRAIN_MS;
  if (stage === "burst") return 60_000 + 10 * burst + DRAIN_MS;
  return 60_000 + 1000 * arm_seconds;
}
