/**
 * Makes src/api/types.ts of openapi.json: `npm run types`; with `--check` it only compares.
 *
 * A cell is any JSON, a type that contains itself: TypeScript takes that from an alias only, so the
 * schema of that name becomes one.
 */
import { readFile, writeFile } from "node:fs/promises";
import openapiTS, { astToString } from "openapi-typescript";
import ts from "typescript";

const HEADER = "// Made of openapi.json by `npm run types`; do not edit.\n\n";
const JSON_ALIAS = "type Json = string | number | boolean | null | Json[] | { [key: string]: Json };\n";
const JSON_SCHEMA = "#/components/schemas/CellValue";

const file = new URL("src/api/types.ts", import.meta.url);
const nodes = await openapiTS(new URL("openapi.json", import.meta.url), {
  defaultNonNullable: false, // what has a default may be left out of a request
  inject: JSON_ALIAS,
  transform: (_schema, { path }) =>
    path === JSON_SCHEMA ? ts.factory.createTypeReferenceNode("Json") : undefined,
});
const made = HEADER + astToString(nodes);

if (!process.argv.includes("--check")) {
  await writeFile(file, made);
} else if ((await readFile(file, "utf8")) !== made) {
  console.error("src/api/types.ts is not what openapi.json makes: run `make api`");
  process.exit(1);
}
