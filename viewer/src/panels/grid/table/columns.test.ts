import { expect, test } from "vitest";
import type { TensorInfo } from "../../../api/client";
import { isSortable, placeColumns } from "./columns";

const tensor = (name: string, kind: string, shape: number[] | null = []): TensorInfo => ({ name, kind, type: kind, dtype: "int64", shape, nullable: false, media_type: null, picture: false });
const all = [tensor("x", "scalar"), tensor("note", "text", null), tensor("tokens", "array", [8])];

test("pinned columns come first, after the number of the row, and stay beside each other", () => {
  const columns = placeColumns(all, new Map([["tokens", 100]]), ["tokens", "gone"]);

  expect(columns.map((column) => column.tensor?.name ?? "row")).toEqual(["row", "tokens", "x", "note"]);
  expect(columns.map((column) => column.isPinned)).toEqual([true, true, false, false]);
  expect(columns[1]?.offset).toBe(columns[0]?.width);
  expect(columns[2]?.offset).toBe((columns[0]?.width ?? 0) + 100);
});

test("only columns with one value per row sort", () => {
  expect(all.map(isSortable)).toEqual([true, true, false]);
});
