import { defineConfig } from "vitest/config";

// Started by benchmarks/viewer.py, which serves a lake: VIEWER_LINK, CHROMIUM, FIGURES (a file), SCROLL_S.
export default defineConfig({
  test: {
    include: ["e2e/figures.bench.ts"],
    environment: "node",
    setupFiles: ["e2e/setup.ts"],
    testTimeout: 1_200_000,
    hookTimeout: 120_000,
    fileParallelism: false,
  },
});
