import { expect, test } from "vitest";
import { drawPeaks } from "./audio/peaks";
import { formatTime } from "./player";

test("times have tenths, and hours where there are any", () => {
  expect([0, 1.25, 59.96, 75.3, 3600, -1].map(formatTime)).toEqual(["0:00.0", "0:01.2", "0:59.9", "1:15.3", "1:00:00.0", "0:00.0"]);
});

test("a waveform has a bar for each pixel, of the peaks in it", () => {
  const bars: number[][] = [];
  const context = { fillRect: (...bar: number[]) => bars.push(bar) };

  drawPeaks(context, { low: [-127, 0, 0, 0], high: [0, 127, 0, 127] }, { width: 2, height: 100 });

  expect(bars).toEqual([
    [0, 0, 1, 100],
    [1, 0, 1, 50],
  ]);
});
