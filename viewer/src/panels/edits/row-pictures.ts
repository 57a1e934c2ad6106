/** Images of rows of one version, small, for lists of changes; each is read once. */
import type { Row, TensorInfo } from "../../api/client";
import { isSummary } from "../../api/client";
import type { Extent } from "../../canvas/geometry";
import { decodeImage } from "../../fetch/reader";
import { isDeep, firstFrame, isFrames, isWithoutFrames } from "../../lenses";
import type { Viewer } from "../../state/viewer.svelte";

const SIDE = 320; // pixels: a list shows fewer, screens have up to three for one

export interface RowPicture {
  row: Row;
  image: ImageBitmap;
  /** The size of the stored image, in whose pixels shapes are. */
  extent: Extent;
}

export class RowPictures {
  readonly #read = new Map<string, Promise<RowPicture | null>>();
  readonly #abort = new AbortController();

  constructor(
    readonly viewer: Viewer,
    readonly version: string,
  ) {}

  /** Null where the row has no such image. */
  get(row: number, tensor: TensorInfo): Promise<RowPicture | null> {
    const key = `${row} ${tensor.name}`;
    const known = this.#read.get(key) ?? this.#load(row, tensor);
    this.#read.set(key, known);
    return known;
  }

  close(): void {
    this.#abort.abort();
    for (const one of this.#read.values()) void one.then((picture) => picture?.image.close(), () => undefined);
  }

  async #load(position: number, tensor: TensorInfo): Promise<RowPicture | null> {
    const { api, place } = this.viewer;
    const [dataset, { signal }] = [place.dataset ?? "", this.#abort];
    const page = await api.rows(dataset, { version: this.version, view: null }, { offset: position, limit: 1 }, signal);
    const [row] = page.rows;
    const value = row?.[tensor.name];
    if (row === undefined || value == null || isWithoutFrames(tensor, value)) return null;
    const how = { ...(isFrames(tensor) ? { frame: firstFrame(tensor, value) } : {}), ...(isDeep(tensor) ? { window: place.windows[tensor.name] ?? "auto" } : {}) };
    const answer = await api.sample(api.sampleUrl(dataset, tensor.name, position, { version: this.version, size: SIDE, ...how }), signal);
    const image = await decodeImage(await answer.blob());
    const [height = image.height, width = image.width] = isSummary(value) && !isFrames(tensor) ? (value.shape ?? []) : [];
    return { row, image, extent: { width, height } };
  }
}
