/** Pan and zoom of an image by wheel, pointer and keys. Created in a component. */
import { containFit, type Extent, type Fit } from "./geometry";
import { panBy, wheelFactor, zoomAt } from "./zoom";

/** Pan and zoom by keys. */
export interface Zoomable {
  zoom(step: 1 | -1): void;
  /** In units of a step. */
  pan(x: number, y: number): void;
  showWhole(): void;
}

const KEY_FACTOR = 1.5;
const KEY_STEP = 0.15; // of the area

export class PanZoom implements Zoomable {
  #moved = $state.raw<Fit | null>(null); // null: fit to the area
  fit: Fit = $derived.by(() => this.#moved ?? containFit(this.extent(), this.area()));

  constructor(
    readonly extent: () => Extent,
    /** The area of the image, or of one pane. */
    readonly area: () => Extent,
  ) {}

  showWhole(): void {
    this.#moved = null;
  }

  zoom(step: 1 | -1): void {
    const { width, height } = this.area();
    this.#zoomAt(KEY_FACTOR ** step, width / 2, height / 2);
  }

  pan(x: number, y: number): void {
    const { width, height } = this.area();
    this.moveBy(-x * KEY_STEP * width, -y * KEY_STEP * height);
  }

  onwheel = (event: WheelEvent): void => {
    event.preventDefault();
    const { width, height } = this.area();
    this.#zoomAt(wheelFactor(event.deltaY), event.offsetX % width, event.offsetY % height);
  };

  onpointermove = (event: PointerEvent): void => {
    if (event.buttons === 1) this.moveBy(event.movementX, event.movementY);
  };

  #zoomAt(factor: number, x: number, y: number): void {
    this.#moved = zoomAt(this.fit, factor, { x, y }, this.extent(), this.area());
  }

  /** In pixels of the area. */
  moveBy(x: number, y: number): void {
    this.#moved = panBy(this.fit, { x, y }, this.extent(), this.area());
  }
}
