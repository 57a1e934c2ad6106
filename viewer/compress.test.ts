import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { afterEach, expect, test } from "vitest";
import { compressFolder } from "./compress";

const folder = mkdtempSync(join(tmpdir(), "compress-"));
afterEach(() => rmSync(folder, { recursive: true }));

test("what gets smaller is packed in both ways, and nothing else", () => {
  const script = "const pets = ['cat', 'dog'];\n".repeat(99);
  mkdirSync(join(folder, "assets"));
  writeFileSync(join(folder, "assets/index.js"), script);
  writeFileSync(join(folder, "assets/tiny.js"), "1");
  writeFileSync(join(folder, "assets/font.woff2"), script);

  compressFolder(folder);

  const packed = join(folder, "assets/index.js");
  expect(brotliDecompressSync(readFileSync(`${packed}.br`)).toString()).toBe(script);
  expect(gunzipSync(readFileSync(`${packed}.gz`)).toString()).toBe(script);
  expect(existsSync(join(folder, "assets/tiny.js.br"))).toBe(false);
  expect(existsSync(join(folder, "assets/font.woff2.gz"))).toBe(false);
});
