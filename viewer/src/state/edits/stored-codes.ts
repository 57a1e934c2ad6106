/** The classes that rows have in a version, of any number of rows. */
import type { Api } from "../../api/client";
import { parseNpz } from "../../fetch/numpy/npz";
import { packRuns } from "../rows/runs";

const PAGE = 1000; // the server's limit
const AT_ONCE = 4;

/** Codes by row; null for none. `onpart` is called with how many are read. */
export async function readCodes(
  api: Api,
  { dataset, version, tensor }: { dataset: string; version: string; tensor: string },
  sorted: ArrayLike<number>,
  signal: AbortSignal,
  onpart: (read: number) => void,
): Promise<(number | null)[]> {
  const { view } = await api.select(dataset, packRuns(sorted), version, signal);
  const codes = new Array<number | null>(sorted.length).fill(null);
  let [next, read] = [0, 0];
  const work = async () => {
    while (next < codes.length) {
      const offset = next;
      next += PAGE;
      const arrays = parseNpz(await api.columns(dataset, { version, view }, { offset, limit: PAGE, columns: tensor }, signal));
      const [values, valid] = [arrays.get(tensor)?.values ?? [], arrays.get(`${tensor}.valid`)?.values];
      for (let i = 0; i < values.length; i += 1) codes[offset + i] = valid === undefined || valid[i] === 1 ? (values[i] ?? null) : null;
      onpart((read += values.length));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return codes;
}
