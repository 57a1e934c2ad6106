/** Defaults for a schema: the image, the statistics, the columns of the grid, the caption. */
import type { Row, Summary, CellValue, TensorInfo } from "../api/client";
import { lensOf } from "../lenses";

/** The visible image tensors, all of which a row shows. */
export function chooseImageTensors(tensors: TensorInfo[], hidden: ReadonlySet<string>): TensorInfo[] {
  return tensors.filter((tensor) => tensor.picture && !hidden.has(tensor.name));
}

/** The first of them: the one that is compared and measured. */
export function chooseImageTensor(tensors: TensorInfo[], hidden: ReadonlySet<string>): TensorInfo | null {
  return chooseImageTensors(tensors, hidden)[0] ?? null;
}

/** Rows with images are a grid, and so is a single text; other values are a table. */
export function chooseLayout(tensors: TensorInfo[]): "grid" | "table" {
  const isText = tensors.length === 1 && tensors[0]?.kind === "text";
  return isText || tensors.some((tensor) => tensor.picture) ? "grid" : "table";
}

/** The default statistics: of the labels, and of the image or a number. */
export function chooseCounted(tensors: TensorInfo[], labels: TensorInfo | null): string[] {
  const measured = tensors.find(({ picture, dtype }) => picture && dtype !== null) ?? tensors.find((tensor) => tensor.kind === "scalar");
  const isShown = (one: TensorInfo | null | undefined) => tensors.some((tensor) => tensor.name === one?.name);
  return [...new Set([labels, measured].filter(isShown).map((one) => one?.name ?? ""))];
}

const CARD_KINDS = new Set(["bbox", "class_label", "text", "scalar", "bool", "json", "tags", "timestamp", "uuid"]);
const IMAGE_CELL_KINDS = new Set(["bbox", "class_label", "scalar", "text", "polygon", "keypoints", "instance_mask"]);

/** Columns for grid cells: cheap ones only, never images or embeddings. */
export function chooseColumns(tensors: TensorInfo[], imageTensor: TensorInfo | null): string[] {
  const kinds = imageTensor === null ? CARD_KINDS : IMAGE_CELL_KINDS;
  return tensors
    .filter((tensor) => kinds.has(tensor.kind) || isScores(tensor) || (imageTensor === null && isSmall(tensor)))
    .map((tensor) => tensor.name);
}

const CAMERA_SHAPE = 0.75; // of most cameras; other images are shown whole inside of it
const WAVEFORM_SHAPE = 0.25; // as the server draws it

/** Aspect ratio (height / width) of the area for images in a cell: that of the images if they have one size. */
export function cellShape(imageTensor: TensorInfo): number {
  if (imageTensor.kind === "audio") return WAVEFORM_SHAPE;
  const [height, width] = imageTensor.shape ?? [];
  if (height == null || width == null || width === 0) return CAMERA_SHAPE;
  return Math.min(1.25, Math.max(0.6, height / width));
}

/** Height of a card: four lines for text, one for other values. */
export function cardHeight(tensors: TensorInfo[], columns: string[], hidden: ReadonlySet<string>): number {
  const shown = tensors.filter((tensor) => columns.includes(tensor.name) && !hidden.has(tensor.name));
  const lines = shown.reduce((sum, tensor) => sum + (tensor.kind === "text" || tensor.kind === "json" ? 4 : 1.2), 0);
  return Math.min(320, Math.max(72, Math.round(40 + 18.5 * lines)));
}

/** The caption of an image: the count of boxes, else a class name, else a number or text; values of `first` before it. */
export function chooseCaption(row: Row, tensors: TensorInfo[], hidden: ReadonlySet<string>, first: readonly string[] = []): string {
  const visible = tensors.filter((tensor) => !hidden.has(tensor.name));
  const valued = visible.filter(({ name }) => first.includes(name)).flatMap((tensor) => {
    const text = captionOf(row[tensor.name], tensor);
    return text === null ? [] : `${tensor.name} ${text}`;
  });
  const shown = visible.filter(({ name }) => !first.includes(name));
  return [...valued, captionOfKind(row, shown)].filter((text) => text !== "").join(" · ");
}

function captionOfKind(row: Row, shown: readonly TensorInfo[]): string {
  const order = ["bbox", "polygon", "class_label", "scalar", "text"];
  for (const kind of order) {
    for (const tensor of shown) {
      if (tensor.kind !== kind) continue;
      const text = captionOf(row[tensor.name], tensor);
      if (text !== null) return kind === "scalar" ? `${tensor.name} ${text}` : text; // a number alone says nothing
    }
  }
  return "";
}

function captionOf(value: CellValue | Summary | undefined, tensor: TensorInfo): string | null {
  if (value === undefined || value === null) return null;
  const lens = lensOf(tensor);
  return lens.caption === undefined ? lens.describe(value, tensor) : lens.caption(value, tensor);
}

/** Whether a tensor holds scores: a list of numbers with such a name. */
function isScores(tensor: TensorInfo): boolean {
  return tensor.kind === "array" && tensor.shape?.length === 1 && /score|conf|prob/i.test(tensor.name);
}

function isSmall(tensor: TensorInfo): boolean {
  return tensor.shape !== null && tensor.shape.reduce((n: number, length) => n * (length ?? 64), 1) <= 256;
}
