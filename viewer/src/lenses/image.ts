/** Pictures: the thumbnail itself is drawn by the grid; this says what is stored. */
import { isSummary } from "../api";
import { formatBytes } from "../app/format";
import type { Lens } from "./lens";
import { shortDtype, shortShape } from "./dtype";

export const imageLens: Lens = {
  brief(tensor) {
    const codec = tensor.media_type?.replace("image/", "") ?? shortDtype(tensor.dtype);
    return `${codec} ${shortShape(tensor.shape, ["h", "w", "c"])}`;
  },
  describe(value, tensor) {
    if (!isSummary(value)) return "";
    const [height, width, channels] = value.shape ?? [];
    const size = width === undefined ? [] : [`${width} × ${height}${channels === undefined ? "" : ` × ${channels}`}`];
    const codec = (value.media_type ?? tensor.media_type)?.replace("image/", "");
    const parts = [...size, ...(codec === undefined ? [] : [codec])];
    if (typeof value.nbytes === "number") parts.push(formatBytes(value.nbytes));
    return parts.join(", ");
  },
};
