/**
 * The rooms of `src/`: which there are, how much each shows, and that imports point downwards.
 *
 * Type-only and dynamic imports count, and so does the worker's `new URL(…)`. README.md lists the same rooms in the
 * same order.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import ts from "typescript";
import { expect, test } from "vitest";

const ROOT = import.meta.dirname;
const SOURCE = join(ROOT, "src");

/** From top to bottom: a room imports from those below it. Rooms of one line do not import from each other. */
const LAYERS = [
  ["main.ts"],
  ["app/"],
  ["panels/schema/"],
  ["panels/check/", "panels/editor/", "panels/edits/", "panels/flows/", "panels/grid/", "panels/map/", "panels/runs/", "panels/sample/", "panels/statistics/", "panels/versions/"],
  ["controls/", "state/"],
  ["fetch/"],
  ["overlays/"],
  ["lenses/"],
  ["players/"],
  ["canvas/", "classes/", "query/"],
  ["api/", "format.ts"],
];
const MOST_ENTRIES = 15;
const LISTS = ["lenses"]; // one file a kind of tensor

const files = readdirSync(SOURCE, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => relative(SOURCE, join(entry.parentPath, entry.name)));
const modules = files.filter((path) => /\.(ts|svelte)$/.test(path) && !path.endsWith(".test.ts"));

/** What a module imports of ours, as paths below `src/`. */
function importsOf(path: string): string[] {
  const text = readFileSync(join(SOURCE, path), "utf8");
  const script = path.endsWith(".svelte") ? [...text.matchAll(/<script[^>]*>([\s\S]*?)<\/script>/g)].map(([, code]) => code).join("\n") : text;
  const names = ts.preProcessFile(script).importedFiles.map(({ fileName }) => fileName);
  const workers = [...script.matchAll(/new URL\("(\.[^"]+\.ts)", import\.meta\.url\)/g)].map(([, name]) => name ?? "");
  return [...names, ...workers].filter((name) => name.startsWith(".")).map((name) => find(resolve(SOURCE, dirname(path), name), path));
}

function find(target: string, from: string): string {
  const found = [target, `${target}.ts`, join(target, "index.ts")].find((path) => existsSync(path) && /\.\w+$/.test(path));
  if (found === undefined) throw new Error(`${from} imports ${target}, which does not exist`);
  return relative(SOURCE, found);
}

const graph = new Map(modules.map((path) => [path, importsOf(path).filter((target) => target !== path)])); // a recursive component imports itself

function roomOf(path: string): string | undefined {
  return LAYERS.flat().find((room) => path === room || (room.endsWith("/") && path.startsWith(room)));
}

function isDownward(from: string, to: string): boolean {
  const [above, below] = [roomOf(from), roomOf(to)];
  if (above === below) return true;
  const layerOf = (room: string | undefined) => LAYERS.findIndex((layer) => room !== undefined && layer.includes(room));
  return layerOf(above) < layerOf(below);
}

test("every module belongs to a room", () => {
  expect(modules.filter((path) => roomOf(path) === undefined)).toEqual([]);
  expect(LAYERS.flat().filter((room) => !modules.some((path) => path.startsWith(room)))).toEqual([]);
});

test("imports point downwards", () => {
  const upward = [...graph].flatMap(([from, targets]) => targets.filter((to) => !isDownward(from, to)).map((to) => `${from} → ${to}`));

  expect(upward).toEqual([]);
});

test("no import circle", () => {
  const done = new Set<string>();
  const visit = (path: string, trail: readonly string[]): string[] => {
    if (trail.includes(path)) return [[...trail.slice(trail.indexOf(path)), path].join(" → ")];
    if (done.has(path)) return [];
    const circles = (graph.get(path) ?? []).flatMap((target) => visit(target, [...trail, path]));
    done.add(path);
    return circles;
  };

  expect(modules.flatMap((path) => visit(path, []))).toEqual([]);
});

test("a folder shows at most 15 entries", () => {
  const folders = new Set(files.map((path) => dirname(path)).flatMap((path) => [path, dirname(path)]));
  const full = [...folders].filter((path) => !LISTS.includes(path) && readdirSync(join(SOURCE, path)).length > MOST_ENTRIES);

  expect(full).toEqual([]);
});

test("README.md lists the rooms from top to bottom", () => {
  const readme = readFileSync(join(ROOT, "README.md"), "utf8");
  const listed = [...readme.matchAll(/^\| ((?:`[\w./]+`[ ,]*)+) \|/gm)].flatMap(([, names = ""]) => [...names.matchAll(/`([^`]+)`/g)].map(([, name]) => name));

  expect(listed).toEqual(LAYERS.flat());
});
