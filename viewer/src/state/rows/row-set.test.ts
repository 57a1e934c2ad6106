import { expect, test } from "vitest";
import { RowSet } from "./row-set";

test("it holds what a set of numbers holds, in ascending order", () => {
  const [rows, model] = [new RowSet(), new Set<number>()];
  for (let i = 0; i < 3000; i += 1) {
    const row = (i * 7919) % 1009;
    if (i % 3 === 0) expect(rows.delete(row)).toBe(model.delete(row));
    else {
      rows.add(row);
      model.add(row);
    }
    expect(rows.size).toBe(model.size);
  }

  expect([...rows]).toEqual([...model].sort((a, b) => a - b));
  expect(rows.toArray()).toEqual(Float64Array.from(rows));
  for (let row = -1; row < 1100; row += 1) expect(rows.has(row)).toBe(model.has(row));
});

test("the first and last bits of its words, and far rows, are rows as others", () => {
  const rows = new RowSet([31, 32, 0, 63, 20_000_000]);

  expect([...rows]).toEqual([0, 31, 32, 63, 20_000_000]);
  const copy = rows.copy();
  rows.clear();
  expect([rows.size, rows.has(31), [...rows]]).toEqual([0, false, []]);
  expect([copy.size, [...copy]]).toEqual([5, [0, 31, 32, 63, 20_000_000]]);
});
