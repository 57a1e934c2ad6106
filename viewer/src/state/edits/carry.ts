/** Edits of one version brought to a later one: to the same rows, where the edited cells have what they had. */
import type { Api, CellValue, Row, TensorInfo } from "../../api/client";
import { packRuns } from "../rows/runs";
import { ownersOf } from "./disputes";
import { isSame, type Part, type Step } from "./steps";

const PAGE = 200; // row ids of one query
/** Rows that are followed one by one; more are committed at their version, and the server follows them. */
export const MOST_ROWS = 10_000;

/** What changed or went since under edits: a row's cells of tensors that are `per` one another, or the row. */
export interface Conflict {
  /** Of the older version. */
  row: number;
  tensors: readonly string[];
  isDeleted: boolean;
}

export interface Carried {
  /** Steps of the later version. */
  steps: Step[];
  /** What stays: its rows are gone, or its cells have other values now. */
  left: Step[];
  /** Why it stays, in the order of rows. */
  conflicts: Conflict[];
}

/** A row in both versions; `after` is undefined where it was deleted. */
export interface Followed {
  before: Row;
  after: Row | undefined;
}

/** Splits steps: cells of tensors that are `per` one another go together, or stay together if one of them was changed since. */
export function carrySteps(steps: readonly Step[], rows: ReadonlyMap<number, Followed>, recode: Recode, tensors: readonly TensorInfo[]): Carried {
  const owners = ownersOf(tensors);
  const ownerOf = (tensor: string) => owners.get(tensor) ?? tensor;
  const groupOf = (tensor: string) => [...new Set([tensor, ...[...owners.keys()].filter((name) => owners.get(name) === ownerOf(tensor))])];
  const isUnchanged = (tensor: string, { before, after }: Followed) => {
    const [had, has] = [tensor in before ? recode(tensor, before[tensor] ?? null) : null, after?.[tensor]];
    return has !== undefined && had !== undefined && isSame(has, had);
  };
  const conflicts = new Map<string, Conflict>();
  for (const { tensor, rows: edited, value } of steps.flat()) {
    const group = groupOf(tensor);
    for (const row of edited) {
      const followed = rows.get(row);
      const changed = group.filter((name) => followed === undefined || !isUnchanged(name, followed));
      if (changed.length === 0 && recode(tensor, value) !== undefined) continue;
      const key = keyOf(ownerOf(tensor), row);
      const others = conflicts.get(key)?.tensors ?? [];
      conflicts.set(key, { row, tensors: [...new Set([...others, tensor, ...changed])], isDeleted: followed?.after === undefined });
    }
  }
  const split = (isCarried: boolean) =>
    steps.flatMap((step) => {
      const parts = step.flatMap((part) => pick(part, (row) => !conflicts.has(keyOf(ownerOf(part.tensor), row)) === isCarried));
      return parts.length === 0 ? [] : [parts];
    });
  const placed = split(true).map((step) => step.map((part): Part => moved(part, rows, recode)));
  return { steps: placed, left: split(false), conflicts: [...conflicts.values()].sort((a, b) => a.row - b.row) };
}

const keyOf = (owner: string, row: number) => `${owner}\n${row}`;

/** A conflict in words: "row 3: boxes and labels changed". */
export function describeConflict({ row, tensors, isDeleted }: Conflict): string {
  return isDeleted ? `row ${row} was deleted` : `row ${row}: ${new Intl.ListFormat("en").format(tensors)} changed`;
}

/** A value with the later version's class codes; undefined where a class is gone. */
export type Recode = (tensor: string, value: CellValue) => CellValue | undefined;

export function recoder(before: readonly TensorInfo[], after: readonly TensorInfo[]): Recode {
  return (name, value) => {
    const [old, now] = [before, after].map((tensors) => tensors.find((one) => one.name === name));
    if (old === undefined || now?.kind !== old.kind) return undefined;
    const convert = (one: CellValue): CellValue | undefined => {
      if (typeof one !== "number") return one;
      const code = now.names?.indexOf(old.names?.[one] ?? "") ?? -1;
      return code < 0 ? undefined : code;
    };
    if (old.kind !== "class_label" || isSame(old.names ?? null, now.names ?? null)) return value;
    if (!Array.isArray(value)) return convert(value);
    const codes = value.map(convert);
    return codes.includes(undefined) ? undefined : (codes as CellValue[]);
  };
}

/** Rows of an older version beside those of a later one that have their ids, by the older row number. */
export async function followRows(api: Api, dataset: string, versions: Versions, rows: readonly number[]): Promise<Map<number, Followed>> {
  const found = new Map<number, Followed>();
  const sorted = [...rows].sort((a, b) => a - b);
  for (let start = 0; start < sorted.length; start += PAGE) {
    const { view } = await api.select(dataset, packRuns(sorted.slice(start, start + PAGE)), versions.before.version);
    const read = ({ version, tensors }: Versions["before"], view: string | null) => api.rows(dataset, { version, view }, { offset: 0, limit: PAGE, columns: ["_row", "_row_id", ...tensors] });
    const old = await read(versions.before, view);
    const ids = old.rows.map(({ _row_id }) => `'${_row_id}'`).join(", ");
    const result = await api.query(dataset, `WHERE ROW_ID() IN (${ids})`, versions.after.version);
    const later = new Map((await read(versions.after, result.view)).rows.map((row) => [row._row_id, row]));
    for (const before of old.rows) found.set(before._row ?? -1, { before, after: later.get(before._row_id) });
  }
  return found;
}

/** Two versions, each with the tensors to read. */
type Versions = Record<"before" | "after", { version: string; tensors: readonly string[] }>;

function pick(part: Part, isPicked: (row: number) => boolean): Part[] {
  const places = part.rows.flatMap((row, i) => (isPicked(row) ? [i] : []));
  if (places.length === 0) return [];
  return [{ ...part, rows: places.map((i) => part.rows[i] ?? 0), before: places.map((i) => part.before[i] ?? null) }];
}

function moved(part: Part, followed: ReadonlyMap<number, Followed>, recode: Recode): Part {
  return {
    tensor: part.tensor,
    rows: part.rows.map((row) => followed.get(row)?.after?._row ?? 0),
    before: part.before.map((value) => recode(part.tensor, value) ?? null),
    value: recode(part.tensor, part.value) ?? null,
  };
}
