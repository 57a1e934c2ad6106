import { expect, test } from "vitest";
import { CellUpdates } from "./cell-updates";

/** Cells whose contents a test changes, and those that were told of it. */
function cells(...contents: unknown[]) {
  const told: number[] = [];
  const news = new CellUpdates((position) => [contents[position], "always"], (position) => told.push(position));
  return { contents, told, news };
}

test("only the cell that something arrived for is told, once", () => {
  const { contents, told, news } = cells("a", undefined, undefined);
  news.watch([0, 1, 2]);
  contents[1] = "b";

  news.tell();
  news.tell();

  expect(told).toEqual([1]);
});

test("a cell that is out of sight is not told", () => {
  const { contents, told, news } = cells(undefined, undefined);
  news.watch([0, 1]);
  news.watch([1]);
  [contents[0], contents[1]] = ["a", "b"];

  news.tell();

  expect(told).toEqual([1]);
});

test("a cell that comes into sight shows what was here before", () => {
  const { told, news } = cells("a", "b");
  news.watch([0]);
  news.watch([0, 1]);

  news.tell();

  expect(told).toEqual([]);
});
