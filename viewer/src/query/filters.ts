/**
 * Adds conditions to the current query, and removes them.
 *
 * Queries are parsed only as far as needed: `WHERE a AND b ORDER BY c` has the parts `a` and `b`. A query with
 * more clauses (LIMIT, GROUP BY, its own columns, comments) is wrapped, `SELECT * FROM (…) WHERE part`, so that
 * the result is always a subset of the rows shown.
 */

interface Conditions {
  /** The source: "" for the dataset, else `SELECT * FROM (…)`. */
  head: string;
  parts: string[];
  /** ORDER BY, or nothing. */
  tail: string;
}

interface Piece {
  text: string;
  start: number;
  depth: number;
}

const PIECES = /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|'(?:[^']|'')*'?|"(?:[^"]|"")*"?|\$?\w+(?:\.\w+)*|[<>!=|]+|\S/g;
const OPENING = new Set(["(", "[", "CASE"]);
const CLOSING = new Set([")", "]", "END"]);
/** Keywords of clauses other than WHERE and ORDER BY. */
const CLAUSES = /^(?:WITH|GROUP|UNGROUP|HAVING|ARRANGE|SAMPLE|LIMIT|OFFSET|UNION|EXCEPT|INTERSECT|EXPAND|EXPLAIN|ANALYZE|JOIN|WINDOW|QUALIFY|VERSION|UPDATE|DELETE|INSERT)$/i;

/** The conditions of a query. */
export function filtersOf(text: string): string[] {
  return read(text)?.parts ?? [];
}

/** Adds conditions to a query; existing ones that match `drop` are removed. */
export function addFilters(text: string, added: readonly string[], drop: (part: string) => boolean = () => false): string {
  const query = read(text) ?? { head: `SELECT * FROM (${text.trim()}${text.includes("--") ? "\n" : ""})`, parts: [], tail: "" };
  const kept = query.parts.filter((part) => !drop(part) && !added.includes(part));
  return write({ ...query, parts: [...kept, ...added] });
}

/** Removes conditions from a query. */
export function removeFilters(text: string, removed: readonly string[]): string {
  const query = read(text);
  return query === null ? text : write({ ...query, parts: query.parts.filter((part) => !removed.includes(part)) });
}

function write({ head, parts, tail }: Conditions): string {
  const inner = /^SELECT \* FROM \(([\s\S]*)\)$/.exec(head)?.[1];
  if (parts.length === 0 && tail === "" && inner !== undefined) return inner.trim();
  const shown = parts.length > 1 ? parts.map((part) => (splitAt(pieces(part), "OR").length > 1 ? `(${part})` : part)) : parts;
  return [head, shown.length > 0 ? `WHERE ${shown.join(" AND ")}` : "", tail].filter((one) => one !== "").join(" ");
}

/** Null for queries with clauses other than WHERE and ORDER BY. */
function read(text: string): Conditions | null {
  const all = pieces(text);
  if (all.some(({ text: one }) => one.startsWith("--") || one.startsWith("/*"))) return null;
  const outer = all.filter(({ depth }) => depth === 0);
  if (outer.some(({ text: one }) => CLAUSES.test(one))) return null;
  const at = (word: string) => outer.find(({ text: one }) => one.toUpperCase() === word)?.start;
  const [where, order] = [at("WHERE"), at("ORDER")];
  const head = text.slice(0, where ?? order ?? text.length).trim();
  if (!/^(?:SELECT \*(?: FROM \([\s\S]*\))?)?$/i.test(head) || (where !== undefined && order !== undefined && order < where)) return null;
  const condition = where === undefined ? "" : text.slice(where + "WHERE".length, order).trim();
  const isPlain = head.toUpperCase() === "SELECT *";
  return { head: isPlain ? "" : head, parts: split(condition), tail: order === undefined ? "" : text.slice(order).trim() };
}

/** `a AND (b OR c) AND d BETWEEN 1 AND 2` → `a`, `b OR c`, `d BETWEEN 1 AND 2`. */
function split(condition: string): string[] {
  if (condition === "") return [];
  const all = pieces(condition);
  if (splitAt(all, "OR").length > 1) return [condition];
  return splitAt(all, "AND").map((part) => bare(condition.slice(part[0]?.start, end(part))));
}

/** Splits pieces at a keyword outside of brackets; the AND of a BETWEEN does not count. */
function splitAt(all: readonly Piece[], word: "AND" | "OR"): Piece[][] {
  const found: Piece[][] = [[]];
  let isRange = false;
  for (const piece of all) {
    const upper = piece.depth === 0 ? piece.text.toUpperCase() : "";
    if (upper === word && !(word === "AND" && isRange)) found.push([]);
    else found.at(-1)?.push(piece);
    if (upper === "BETWEEN" || upper === "AND") isRange = upper === "BETWEEN";
  }
  return found;
}

/** Removes brackets around the whole condition. */
function bare(part: string): string {
  const all = pieces(part);
  const isHeld = all.length > 2 && all[0]?.text === "(" && all.slice(1, -1).every(({ depth }) => depth > 0) && all.at(-1)?.text === ")";
  return isHeld ? part.slice(1, -1).trim() : part;
}

function end(part: readonly Piece[]): number {
  const last = part.at(-1);
  return last === undefined ? 0 : last.start + last.text.length;
}

/** Tokens with their bracket depth. */
function pieces(text: string): Piece[] {
  let depth = 0;
  return [...text.matchAll(PIECES)].map(({ 0: found, index }) => {
    if (CLOSING.has(found.toUpperCase())) depth = Math.max(0, depth - 1);
    const piece = { text: found, start: index, depth };
    if (OPENING.has(found.toUpperCase())) depth += 1;
    return piece;
  });
}

export interface Order {
  name: string;
  isDescending: boolean;
}

/** The column that a query sorts by; null without one, or with several. */
export function orderOf(text: string): Order | null {
  const tail = read(text)?.tail ?? "";
  const found = /^ORDER BY (?:"((?:[^"]|"")+)"|(\w+))(?:\s+(ASC|DESC))?$/i.exec(tail);
  const name = found?.[1]?.replaceAll('""', '"') ?? found?.[2];
  return name === undefined ? null : { name, isDescending: found?.[3]?.toUpperCase() === "DESC" };
}

/** Sorts a query by `order`, such as `score DESC`; null removes its order. */
export function setOrder(text: string, order: string | null): string {
  const query = read(text) ?? { head: `SELECT * FROM (${text.trim()}${text.includes("--") ? "\n" : ""})`, parts: [], tail: "" };
  return write({ ...query, tail: order === null ? "" : `ORDER BY ${order}` });
}
