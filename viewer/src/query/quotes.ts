/** Unclosed quotes and comments, detected here at once; the server's parser is called after a pause. */
import type { Problem } from "../api/client";

/** Comments, texts and names; the group of its kind is empty where one runs to the end of the query. */
const WHOLE = /--[^\n]*|\/\*[\s\S]*?(?:\*\/|(?<comment>$))|'(?:[^']|'')*(?<text>'|$)|"(?:[^"]|"")*(?<name>"|$)/g;
const WORDS = {
  "'": "this text has no closing '",
  '"': 'this quoted name has no closing "',
  "/*": "this comment has no closing */",
};

/** Start of the unclosed string or name, or null. */
export function findOpenQuote(text: string): number | null {
  const start = findOpen(text);
  return start === null || text[start] === "/" ? null : start;
}

/** The same, including comments. */
function findOpen(text: string): number | null {
  for (const { index, groups } of text.matchAll(WHOLE)) {
    if (groups && ["text", "name", "comment"].some((kind) => groups[kind] === "")) return index;
  }
  return null;
}

/** The problem, worded like the server's parser. */
export function openQuoteProblem(text: string): Problem | null {
  const start = findOpen(text);
  if (start === null) return null;
  const quote = text[start] === "/" ? "/*" : text[start] === "'" ? "'" : '"';
  const before = text.slice(0, start).split("\n");
  const [line, column] = [before.length, (before.at(-1)?.length ?? 0) + 1];
  const shown = text.split("\n")[line - 1] ?? "";
  const detail = `[query-syntax] at line ${line}, column ${column}: unexpected ${quote === "'" ? `"'"` : `'${quote}'`}
    ${shown}
    ${" ".repeat(column - 1)}${"^".repeat(quote.length)} ${WORDS[quote]}`;
  return { title: "Bad Request", status: 400, code: "query-syntax", detail, line, column, start, stop: start + quote.length };
}
