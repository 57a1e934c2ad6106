/** Names and texts as TQL reads them. */
import words from "./keywords.json";

const BARE_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
const WORDS = new Set([...words.keywords, ...words.constants]);

/** A name as TQL reads it; one that is also a word of the language needs quotes. */
export function quoteName(name: string): string {
  const isBare = BARE_NAME.test(name) && !WORDS.has(name.toUpperCase());
  return isBare ? name : `"${name.replaceAll('"', '""')}"`;
}

export function quoteText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
