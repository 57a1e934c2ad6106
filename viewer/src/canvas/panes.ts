/** Two images in one area: side by side, or stacked on narrow pages where that is larger. */
import { containFit, type Extent } from "./geometry";

/** Wider pages never stack, whatever the shape of the image. */
const STACKED_TO = 520;

export interface Panes {
  isStacked: boolean;
  /** The size of each of the two. */
  pane: Extent;
  /** Where the second begins; the first begins at the origin. */
  second: { x: number; y: number };
}

export function placePanes(area: Extent, image: Extent): Panes {
  const beside = { width: area.width / 2, height: area.height };
  const above = { width: area.width, height: area.height / 2 };
  const isStacked = area.width <= STACKED_TO && containFit(image, above).scale > containFit(image, beside).scale;
  return isStacked
    ? { isStacked, pane: above, second: { x: 0, y: above.height } }
    : { isStacked, pane: beside, second: { x: beside.width, y: 0 } };
}
