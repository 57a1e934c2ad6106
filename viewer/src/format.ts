/** Numbers and times as text. */

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];

/** 148213 → "148 kB": decimal units, three digits at most. */
export function formatBytes(nbytes: number): string {
  let value = nbytes;
  let unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${trimZeros(value.toFixed(digits))} ${UNITS[unit]}`;
}

const COUNTS = new Intl.NumberFormat("en-US"); // created once: toLocaleString() looks up its rules on every call

export function formatCount(count: number): string {
  return COUNTS.format(count);
}

/** "1 row", "12,480 rows". */
export function formatPlural(count: number, noun: string): string {
  const plural = /[sx]$/.test(noun) ? `${noun}es` : `${noun}s`;
  return `${formatCount(count)} ${count === 1 ? noun : plural}`;
}

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]/;

/** "cat, dog"; a name that is written from right to left keeps its place among the others (U+2068 … U+2069). */
export function joinWords(words: readonly string[]): string {
  return words.map((word) => (RIGHT_TO_LEFT.test(word) ? `\u2068${word}\u2069` : word)).join(", ");
}

export function formatSeconds(seconds: number): string {
  if (seconds < 0.9995) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  return seconds < 60 ? `${seconds.toFixed(1)} s` : `${(seconds / 60).toFixed(1)} min`;
}

const DIGITS = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 6 });

/** A number short enough for a table: 6 significant digits, no trailing zeros. */
export function formatNumber(value: number): string {
  if (Number.isInteger(value)) return Math.abs(value) < 1e15 ? formatCount(value) : String(value);
  const magnitude = Math.abs(value);
  if (magnitude >= 1e6 || magnitude < 1e-4) return value.toExponential(3);
  return DIGITS.format(value);
}

const NAMING = new Set(["id", "ids", "uid", "year", "years", "yyyy", "zip", "postcode", "code", "isbn", "issn", "ean"]);

/** Whether a tensor's numbers name something, a year or an id: they are written without separators. */
export function isNaming(name: string): boolean {
  const words = name.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase().split(/[^a-z]+/);
  return words.some((word) => NAMING.has(word));
}

const AGES: [number, Intl.RelativeTimeFormatUnit][] = [
  [60, "second"],
  [60, "minute"],
  [24, "hour"],
  [30.44, "day"],
  [12, "month"],
  [Infinity, "year"],
];

/** "2 hours ago", "yesterday"; `now` is an argument for tests. */
export function formatAge(time: string, now: number): string {
  let value = (Date.parse(time) - now) / 1000;
  if (Number.isNaN(value)) return time;
  const words = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
  for (const [size, unit] of AGES) {
    if (Math.abs(value) < size) return words.format(Math.round(value), unit);
    value /= size;
  }
  return time;
}

function trimZeros(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** Shows characters that reorder the text around them (U+202E and others) by their codes. */
export function showBidi(text: string): string {
  return text.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (one) => `‹U+${one.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}›`);
}
