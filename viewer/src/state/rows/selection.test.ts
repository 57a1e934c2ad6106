import { expect, test } from "vitest";
import { RowSet } from "./row-set";
import { RowSelection, selectRows } from "./selection.svelte";

test("selected rows are a query of ranges and single rows", () => {
  expect(selectRows([7])).toBe("WHERE ROW_NUMBER() IN (7)");
  expect(selectRows([3, 4, 5, 6, 9, 20, 21])).toBe("WHERE ROW_NUMBER() BETWEEN 3 AND 6 OR ROW_NUMBER() IN (9, 20, 21)");
  expect(selectRows(Array.from({ length: 1_000_000 }, (_, i) => i))).toBe("WHERE ROW_NUMBER() BETWEEN 0 AND 999999");
  expect(selectRows(Array.from({ length: 10_000 }, (_, i) => 3 * i))).toBeNull();
  expect(selectRows(Array.from({ length: 10_000 }, (_, i) => 3 * i), "copy")).toMatch(/^WHERE ROW_NUMBER\(\) IN \(0, 3, .* 29997\)$/);
  expect(selectRows(Array.from({ length: 100_000 }, (_, i) => 3 * i), "copy")).toBeNull();
});

test("a range goes from the last toggled row, over the rows that are known", () => {
  const selection = new RowSelection();
  selection.toggle(2, 20);
  selection.extend(5, (position) => (position === 4 ? null : 10 * position));

  expect([...selection.rows]).toEqual([20, 30, 50]);
  selection.toggle(1, 7);
  expect([...selection.sorted]).toEqual([7, 20, 30, 50]);
  selection.put(new RowSet([7]));
  expect([...selection.rows]).toEqual([7]);
});
