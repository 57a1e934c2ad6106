import { expect, test } from "vitest";
import { actionsOf } from "./load.svelte";

test("a run can be approved while it waits, cancelled until it ends, and retried once it failed", () => {
  expect(actionsOf({ state: "waiting", waits_for: "publish?" })).toEqual(["approve", "refuse", "cancel"]);
  for (const state of ["queued", "running", "waiting for code"]) expect(actionsOf({ state, waits_for: null })).toEqual(["cancel"]);
  for (const state of ["failed", "cancelled"]) expect(actionsOf({ state, waits_for: null })).toEqual(["retry"]);
  expect(actionsOf({ state: "done", waits_for: null })).toEqual([]);
});
