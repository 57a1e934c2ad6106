/** TQL names and string literals. */
import words from "./keywords.json";

const BARE_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
const WORDS = new Set([...words.keywords, ...words.constants]);

/** Quotes a name where TQL requires it: keywords and special characters. */
export function quoteName(name: string): string {
  const isBare = BARE_NAME.test(name) && !WORDS.has(name.toUpperCase());
  return isBare ? name : `"${name.replaceAll('"', '""')}"`;
}

export function quoteText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
