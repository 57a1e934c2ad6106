/**
 * What the page's main thread did, from a performance trace.
 *
 *     tasks of the main thread    RunTask, with the time they ran (tdur) and took (dur), in µs
 *     frames                      from one BeginMainThreadFrame to the next
 *     drawing                     FireAnimationFrame, which is a part of a task
 *     dropped                     DroppedFrame, as the compositor counts them
 */
import { writeFileSync } from "node:fs";
import type { CDPSession } from "playwright-core";

interface TraceEvent {
  name: string;
  ph: string;
  pid: number;
  tid: number;
  ts: number;
  dur?: number;
  tdur?: number;
  args?: { name?: string };
}

export interface Work {
  frames: number;
  dropped: number;
  /** Milliseconds of the main thread in a frame, on its processor. */
  p50: number;
  p95: number;
  /** The most that a frame took. */
  most: number;
  /** Milliseconds of requestAnimationFrame's callbacks in a frame, which draw. */
  drawingP95: number;
  /** The longest task: on its processor, and by the clock. */
  longestCpu: number;
  longestWall: number;
}

const CATEGORIES = [
  "toplevel",
  "devtools.timeline",
  "disabled-by-default-devtools.timeline",
  "disabled-by-default-devtools.timeline.frame",
  "devtools.timeline.frame",
].join(",");

const PROFILE = ["disabled-by-default-v8.cpu_profiler", "v8.execute", "v8", "blink", "cc"].join(",");

/** Runs `act` under a trace; where TRACES names a folder, what was traced is kept there, for DevTools to open. */
export async function traced(session: CDPSession, name: string, act: () => Promise<void>): Promise<Work> {
  const kept = process.env.TRACES;
  const categories = kept === undefined ? CATEGORIES : `${CATEGORIES},${PROFILE}`;
  const events: TraceEvent[] = [];
  const collect = ({ value }: { value: object[] }) => void events.push(...(value as TraceEvent[]));
  session.on("Tracing.dataCollected", collect);
  await session.send("Tracing.start", { categories, transferMode: "ReportEvents" });
  await act();
  const done = new Promise<void>((resolve) => session.once("Tracing.tracingComplete", () => resolve()));
  await session.send("Tracing.end");
  await done;
  session.off("Tracing.dataCollected", collect);
  if (kept !== undefined) writeFileSync(`${kept}/${name}.json`, JSON.stringify({ traceEvents: events }));
  return summarize(events);
}

function summarize(events: TraceEvent[]): Work {
  const main = mainThread(events);
  const inMain = events.filter((event) => `${event.pid}:${event.tid}` === main);
  const tasks = inMain.filter(({ name, ph }) => ph === "X" && name === "RunTask");
  const starts = inMain.filter(({ name }) => name === "BeginMainThreadFrame").map(({ ts }) => ts).sort((a, b) => a - b);
  const byFrame = (parts: TraceEvent[]) => {
    const work = Array.from(starts, () => 0);
    for (const part of parts) {
      const frame = lastNotAfter(starts, part.ts + (part.dur ?? 0)); // a task is of the frame that begins in it
      if (frame >= 0) work[frame] = (work[frame] ?? 0) + (part.tdur ?? part.dur ?? 0);
    }
    const sorted = work.sort((a, b) => a - b);
    return (share: number) => (sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0) / 1000;
  };
  const at = byFrame(tasks);
  const drawing = byFrame(inMain.filter(({ name, ph }) => ph === "X" && name === "FireAnimationFrame"));
  const most = (of: (task: TraceEvent) => number) => tasks.reduce((longest, task) => Math.max(longest, of(task)), 0) / 1000;
  return {
    frames: starts.length,
    dropped: events.filter(({ name }) => name === "DroppedFrame").length,
    p50: at(0.5),
    p95: at(0.95),
    most: at(1),
    drawingP95: drawing(0.95),
    longestCpu: most((task) => task.tdur ?? 0),
    longestWall: most((task) => task.dur ?? 0),
  };
}

/** Of the renderer that made most frames: ours. */
function mainThread(events: TraceEvent[]): string {
  const frames = new Map<string, number>();
  for (const { name, pid, tid } of events) {
    if (name === "BeginMainThreadFrame") frames.set(`${pid}:${tid}`, (frames.get(`${pid}:${tid}`) ?? 0) + 1);
  }
  return [...frames].sort((a, b) => b[1] - a[1])[0]?.[0] ?? "";
}

function lastNotAfter(sorted: number[], value: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] ?? 0) <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
