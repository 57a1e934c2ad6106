/** Images: describes the stored bytes; the grid draws the thumbnail. */
import { isSummary } from "../api/client";
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
    const [height, width, channels] = value.shape ?? [];
    const size = width === undefined ? [] : [`${width} × ${height}${channels === undefined ? "" : ` × ${channels}`}`];
    const codec = codecOf(value.media_type ?? tensor.media_type);
    const parts = [...size, ...(codec === undefined ? [] : [codec])];
    if (typeof value.nbytes === "number") parts.push(formatBytes(value.nbytes));
    return parts.join(", ");
  },
};

/** `image/jpeg` → jpeg; `image/*`, where rows differ, → any. */
function codecOf(mediaType: string | null | undefined): string | undefined {
  return mediaType?.replace("image/", "").replace("*", "any");
}
