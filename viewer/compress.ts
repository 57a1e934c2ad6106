/**
 * Packs what was built, so that the server packs nothing: `file.br` and `file.gz` beside each file
 * that gets smaller by it. Fonts are packed already. viewer_files.py of the server chooses.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { extname, join, resolve } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { Plugin } from "vite";

const PACKED = new Set([".css", ".html", ".js", ".svg", ".txt"]);

/** The Vite plugin; it runs when all files are written. */
export function compress(): Plugin {
  let folder = "";
  return {
    name: "compress",
    apply: "build",
    configResolved(config) {
      folder = resolve(config.root, config.build.outDir);
    },
    closeBundle() {
      compressFolder(folder);
    },
  };
}

/** Packs the files under one folder. */
export function compressFolder(folder: string): void {
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !PACKED.has(extname(entry.name))) continue;
    const path = join(entry.parentPath, entry.name);
    const bytes = readFileSync(path);
    const brotli = brotliCompressSync(bytes, {
      params: { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length },
    });
    const gzip = gzipSync(bytes, { level: constants.Z_BEST_COMPRESSION });
    if (brotli.length < bytes.length) writeFileSync(`${path}.br`, brotli);
    if (gzip.length < bytes.length) writeFileSync(`${path}.gz`, gzip);
  }
}
