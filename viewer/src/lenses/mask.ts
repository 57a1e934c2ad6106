/** Masks: binary, segmentation, instance. Pixels arrive as images of codes (overlays/masks.ts). */
import { isSummary, type TensorInfo } from "../api/client";
import { formatPlural } from "../format";
import { shapeOf } from "./array";
import { findLabels } from "./belonging";
import { formatShape, shortDtype } from "./dtype";
import type { Lens, Value } from "./lens";

const IGNORED = 0xffff; // as in the server's masks.py

const describe = (value: Value): string => formatShape(isSummary(value) ? (value.shape ?? []) : shapeOf(value));

export const binaryMaskLens: Lens = {
  brief: () => "mask h×w",
  describe: (value) => describe(value),
  pixels: () => (code) => (code === 0 ? null : { code: null, object: 0 }),
};

export const segmentMaskLens: Lens = {
  brief: (tensor) => `${shortDtype(tensor.dtype)} classes h×w`,
  describe: (value, tensor) => `${describe(value)}, ${formatPlural(tensor.names?.length ?? 0, "class")}`,
  pixels:
    (tensor, { classes }) =>
    (code) => {
      if (code === IGNORED || isBackground(tensor, code)) return null;
      return { code: classes.codeOf(tensor, code), object: 0 };
    },
};

export const instanceMaskLens: Lens = {
  brief: () => "masks n×h×w",
  describe: (value) => describe(value),
  pixels(tensor, context) {
    const value = context.row[tensor.name];
    const count = value == null ? 0 : ((isSummary(value) ? value.shape?.[0] : shapeOf(value)[0]) ?? 0);
    const labels = findLabels(tensor, count, context);
    return (code) => {
      if (code === 0) return null;
      return { code: labels?.code(code - 1) ?? null, object: code - 1 };
    };
  },
};

/** Whether a code is the background class, by its name. */
function isBackground(tensor: TensorInfo, code: number): boolean {
  return code === 0 && /^(background|void|unlabell?ed|nothing)$/i.test(tensor.names?.[0] ?? "");
}
