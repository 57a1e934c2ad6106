/**
 * Which frame is shown of the selected row's sequences of images, and whether they play.
 *
 * All sequences of a row play together, by one number. The next frame follows once the current one is visible: a slow
 * connection plays slower, and skips nothing.
 */
import type { Player } from "../players/player";

const FRAME_MS = 100;

export class Playback {
  frame = $state(0);
  isPlaying = $state(false);
  /** The frames of the longest sequence of the row; 0 without sequences. */
  count = $state(0);
  #timer: ReturnType<typeof setTimeout> | null = null;
  #players = $state.raw<readonly Player[]>([]);

  /** The player that keys are for: the last one that was opened. */
  get player(): Player | null {
    return this.#players.at(-1) ?? null;
  }

  /** `onRest` is called with the frame at which it rests. */
  constructor(readonly onRest: (frame: number) => void) {}

  /** Starts with another row. */
  start(count: number, frame: number): void {
    this.#stop();
    this.count = count;
    this.frame = Math.min(frame, Math.max(0, count - 1));
  }

  /** Lends the keys to a player until the returned function is called. */
  lend(player: Player): () => void {
    this.#players = [...this.#players, player];
    return () => (this.#players = this.#players.filter((one) => one !== player));
  }

  toggle(): void {
    if (this.player?.play !== undefined) return this.player.play();
    if (this.isPlaying) {
      this.#stop();
      this.onRest(this.frame);
    } else if (this.count > 1) {
      this.isPlaying = true;
      this.#wait();
    }
  }

  step(by: number): void {
    if (this.player?.step !== undefined) return this.player.step(by);
    this.show(this.frame + by);
  }

  show(frame: number): void {
    this.#stop();
    this.frame = Math.min(Math.max(0, frame), Math.max(0, this.count - 1));
    this.onRest(this.frame);
  }

  /** Reports that the current frame is visible. */
  noteShown(): void {
    if (this.isPlaying && this.#timer === null) this.#wait();
  }

  #wait(): void {
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.frame = (this.frame + 1) % Math.max(1, this.count);
    }, FRAME_MS);
  }

  #stop(): void {
    this.isPlaying = false;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }
}
