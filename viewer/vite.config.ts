import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";
import { compress } from "./compress";

// The built page lies beside the server that ships it, and names its files relatively, so that it
// works behind any path prefix. `npm run dev` forwards the API to a server started by hand.
export default defineConfig({
  base: "./",
  plugins: [svelte(), compress()],
  build: {
    outDir: "../server/tensorlake_server/static",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    cssCodeSplit: false, // a part of the page is one file, which can be asked for again
    assetsInlineLimit: 0, // data: URLs would need a wider content security policy
  },
  server: { proxy: { "/v1": "http://127.0.0.1:8300" } },
  test: { include: ["src/**/*.test.ts", "*.test.ts"], environment: "node" },
});
