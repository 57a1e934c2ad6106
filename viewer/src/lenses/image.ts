/** Images: describes the stored bytes; the grid draws the thumbnail. */
import { isSummary, type TensorInfo } from "../api/client";
import { formatBytes } from "../format";
import type { Lens } from "./lens";
import { shortDtype, shortShape } from "./dtype";

export const imageLens: Lens = {
  brief(tensor) {
    const codec = codecOf(tensor.media_type) ?? shortDtype(tensor.dtype);
    return `${codec} ${shortShape(tensor.shape, ["h", "w", "c"])}`;
  },
  describe(value, tensor) {
    if (!isSummary(value)) return "";
    const size = (value.shape?.length ?? 0) < 2 ? [] : [(value.shape ?? []).join(" × ")]; // h × w × c, as SHAPE(…) has them
    const codec = codecOf(value.media_type ?? tensor.media_type);
    const parts = [...size, ...(codec === undefined ? [] : [codec])];
    if (typeof value.nbytes === "number") parts.push(formatBytes(value.nbytes));
    return parts.join(", ");
  },
};

const DEEP = new Set(["uint16", "int16", "float16", "float32", "float64"]);

/** Whether images have more values than a screen has greys (the server's windows.py); browsers show stored colours. */
export function isDeep(tensor: TensorInfo): boolean {
  const isGrey = tensor.shape?.length === 2 || tensor.shape?.[2] === 1;
  return tensor.picture && DEEP.has(tensor.dtype ?? "") && (isGrey || tensor.media_type === null);
}

/** `image/jpeg` → jpeg; `image/*`, where rows differ, → any. */
function codecOf(mediaType: string | null | undefined): string | undefined {
  return mediaType?.replace("image/", "").replace("*", "any");
}
