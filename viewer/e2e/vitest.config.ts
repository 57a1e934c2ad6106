import { defineConfig } from "vitest/config";

// Started by tests/viewer, which serves a lake and says where: VIEWER_LINK and CHROMIUM.
export default defineConfig({
  test: {
    include: ["e2e/**/*.spec.ts"],
    environment: "node",
    testTimeout: 180_000,
    expect: { poll: { timeout: 60_000 } },
    hookTimeout: 120_000,
    fileParallelism: false,
  },
});
