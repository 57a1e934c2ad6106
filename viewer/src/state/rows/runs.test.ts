import { expect, test } from "vitest";
import { listRuns, packRuns, unpackRuns } from "./runs";

test("rows are packed as the gaps and lengths of their runs", () => {
  expect(listRuns([3, 4, 135])).toEqual([{ start: 3, length: 2 }, { start: 135, length: 1 }]);
  expect(Array.from(atob(packRuns([3, 4, 135])), (letter) => letter.charCodeAt(0))).toEqual([3, 2, 130, 1, 1]);
  expect(packRuns(Array.from({ length: 1_000_000 }, (_, i) => i)).length).toBe(8);
});

test("packed rows are read again", () => {
  for (const rows of [[0], [2 ** 40, 2 ** 40 + 1], Array.from({ length: 20_000 }, (_, i) => 3 * i + (i % 7 === 0 ? 1 : 0))]) {
    expect(unpackRuns(packRuns(rows))).toEqual(rows);
  }
});
