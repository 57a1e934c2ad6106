/**
 * A Chromium without a test driver: DevTools' protocol over two pipes, and only the domains that are asked for.
 *
 * Playwright turns the network domain on, which keeps the bodies of all answers in the page's own
 * process: megabytes a minute that no user's page has. Memory is measured without it.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";

const END = "\0"; // of a message
const STOP_MS = 10_000;

interface Answer {
  id?: number;
  result?: Record<string, unknown>;
  error?: { message: string };
}

export class PlainBrowser {
  #last = 0;
  #waiting = new Map<number, (answer: Answer) => void>();
  #rest = "";
  #session: string | undefined;

  private constructor(
    readonly process: ChildProcess,
    readonly profile: string,
  ) {
    (process.stdio[4] as Readable).setEncoding("utf8").on("data", (piece: string) => this.#receive(piece));
  }

  /** Starts a browser with one page. */
  static async open(executable: string, flags: string[], url: string, size: { width: number; height: number }): Promise<PlainBrowser> {
    const profile = mkdtempSync(join(tmpdir(), "viewer-"));
    const own = ["--headless=new", "--remote-debugging-pipe", `--user-data-dir=${profile}`, `--window-size=${size.width},${size.height}`];
    const browser = new PlainBrowser(spawn(executable, [...flags, ...own, "about:blank"], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] }), profile);
    const { targetId } = await browser.send("Target.createTarget", { url: "about:blank", newWindow: true, ...size });
    const { sessionId } = await browser.send("Target.attachToTarget", { targetId, flatten: true });
    browser.#session = String(sessionId);
    await browser.send("Page.navigate", { url }); // answers when there is a document
    return browser;
  }

  send(method: string, params: Record<string, unknown> = {}): Promise<Record<string, unknown>> {
    const id = (this.#last += 1);
    const session = this.#session === undefined ? {} : { sessionId: this.#session };
    (this.process.stdio[3] as Writable).write(JSON.stringify({ id, method, params, ...session }) + END);
    return new Promise((resolve, reject) =>
      this.#waiting.set(id, ({ result, error }) => (error === undefined ? resolve(result ?? {}) : reject(new Error(`${method}: ${error.message}`)))),
    );
  }

  async evaluate(expression: string): Promise<unknown> {
    const { result } = await this.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    return (result as { value?: unknown }).value;
  }

  /** Of all its processes, by what they are for: "renderer", "gpu-process", … */
  processes(): { pid: number; type: string }[] {
    const named = descendants(this.process.pid ?? 0).map((pid) => ({ pid, command: readFileSync(`/proc/${pid}/cmdline`, "utf8") }));
    return named
      .filter(({ command }) => command !== "") // one that ended and was not waited for yet
      .map(({ pid, command }) => ({ pid, type: /--type=([\w-]+)/.exec(command)?.[1] ?? "browser" }));
  }

  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill();
    const timer = setTimeout(() => this.process.kill("SIGKILL"), STOP_MS);
    await ended;
    clearTimeout(timer);
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }

  #receive(piece: string): void {
    const messages = (this.#rest + piece).split(END);
    this.#rest = messages.pop() ?? "";
    for (const message of messages) {
      const answer = JSON.parse(message) as Answer;
      if (answer.id === undefined) continue; // an event
      this.#waiting.get(answer.id)?.(answer);
      this.#waiting.delete(answer.id);
    }
  }
}

/** A process and all that it started, of Linux. */
function descendants(pid: number): number[] {
  const children = readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8").split(" ").filter((word) => word !== "").map(Number),
  );
  return [pid, ...children.flatMap(descendants)];
}
