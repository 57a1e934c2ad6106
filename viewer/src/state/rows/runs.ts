/**
 * Rows as ascending runs, in the few bytes that the server takes: pairs of varints (LEB128), gap and length.
 *
 * Every second of a million rows is 1 MB, a region of a map a tenth of it.
 */

const MORE = 0x80; // the high bit: another byte follows

/** Sorted row numbers as base64 of their runs. */
export function packRuns(sorted: ArrayLike<number>): string {
  const bytes: number[] = [];
  let stop = 0;
  for (const { start, length } of listRuns(sorted)) {
    putVarint(bytes, start - stop);
    putVarint(bytes, length);
    stop = start + length;
  }
  const parts: string[] = []; // fromCharCode takes some ten thousand arguments
  for (let i = 0; i < bytes.length; i += 8192) parts.push(String.fromCharCode(...bytes.slice(i, i + 8192)));
  return btoa(parts.join(""));
}

/** Row numbers of base64 that packRuns wrote; empty where it is something else. */
export function unpackRuns(text: string): number[] {
  const rows: number[] = [];
  let [at, number, place, gap] = [0, 0, 1, -1];
  for (const letter of atob(text)) {
    const byte = letter.charCodeAt(0);
    number += (byte & 0x7f) * place;
    place *= 0x80;
    if (byte >= MORE) continue;
    if (gap < 0) gap = number;
    else {
      at += gap;
      for (const stop = at + number; at < stop; at += 1) rows.push(at);
      gap = -1;
    }
    [number, place] = [0, 1];
  }
  return rows;
}

export function listRuns(sorted: ArrayLike<number>): { start: number; length: number }[] {
  const runs: { start: number; length: number }[] = [];
  for (let i = 0; i < sorted.length; ) {
    const start = sorted[i] ?? 0;
    let length = 1;
    while (sorted[i + length] === start + length) length += 1;
    runs.push({ start, length });
    i += length;
  }
  return runs;
}

function putVarint(bytes: number[], number: number): void {
  let left = number;
  for (; left >= MORE; left = Math.floor(left / MORE)) bytes.push((left % MORE) + MORE);
  bytes.push(left);
}
