import { defineConfig } from "vitest/config";
import { SLOWNESS } from "./slowness";

// Started by tests/viewer, which serves a lake and says where: VIEWER_LINK and CHROMIUM. VIEWER_SLOW: see browser.ts.
export default defineConfig({
  test: {
    include: ["e2e/**/*.spec.ts"],
    environment: "node",
    setupFiles: ["e2e/setup.ts"],
    isolate: false, // one process for all files, and its browser: browser.ts
    env: { VIEWER_FLAGS: "--renderer-process-limit=1" }, // no process is started for a page that may come
    testTimeout: 180_000 * SLOWNESS,
    expect: { poll: { timeout: 60_000 } },
    hookTimeout: 120_000,
    fileParallelism: false,
  },
});
