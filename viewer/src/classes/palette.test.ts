import { expect, test } from "vitest";
import { channelsOf, ClassPalette, COLORS, isOnFigure, PATTERNS } from "./palette";

type Triple = [number, number, number];

// G. M. Machado, M. M. Oliveira, L. A. F. Fernandes (2009), severity 1.0, on linear light.
const ALL: [Triple, Triple, Triple] = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
const EYES: Record<string, [Triple, Triple, Triple]> = {
  all: ALL,
  "red-blind": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  "green-blind": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  "blue-blind": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};

const linear = (part: number) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
const clamp = (part: number) => Math.min(1, Math.max(0, part));

function seen(color: string, eye: [Triple, Triple, Triple]): Triple {
  const light = channelsOf(color).map((part) => linear(part / 255)) as Triple;
  return eye.map((row) => clamp(row[0] * light[0] + row[1] * light[1] + row[2] * light[2])) as Triple;
}

const brightness = ([r, g, b]: Triple) => 0.2126 * r + 0.7152 * g + 0.0722 * b;

function lab(light: Triple): Triple {
  const f = (t: number) => (t > 0.008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116);
  const [r, g, b] = light;
  const x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047);
  const y = f(brightness(light));
  const z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

function closest(colors: readonly string[], eye: [Triple, Triple, Triple]): number {
  const places = colors.map((color) => lab(seen(color, eye)));
  const distances = places.flatMap((a, i) =>
    places.slice(0, i).map((b) => Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2])),
  );
  return Math.min(...distances);
}

test("colours differ for colour-blind eyes too", () => {
  for (const [name, eye] of Object.entries(EYES)) {
    expect(closest(COLORS.slice(0, 4), eye), `the first four, ${name}`).toBeGreaterThan(25);
    expect(closest(COLORS.slice(0, 10), eye), `the first ten, ${name}`).toBeGreaterThan(15);
    expect(closest(COLORS, eye), `all, ${name}`).toBeGreaterThan(13);
  }
});

test("dark words can be read on every colour", () => {
  const ink = brightness(seen("#06101f", ALL));

  for (const color of COLORS) {
    const paper = brightness(seen(color, ALL));
    expect((paper + 0.05) / (ink + 0.05), color).toBeGreaterThan(4.5);
  }
});

test("sixty classes look different, the most frequent of them plain", () => {
  const palette = new ClassPalette(Array.from({ length: 60 }, (_, code) => ({ code, name: String(code), count: 100 + code, rows: 1 })));
  const looks = Array.from({ length: 60 }, (_, code) => `${palette.color(code)} ${palette.pattern(code)}`);

  expect(new Set(looks).size).toBe(60);
  expect([59, 40, 39, 20, 19, 0].map((code) => palette.pattern(code))).toEqual(["plain", "plain", "hatched", "hatched", "checked", "checked"]);
});

test("half of a pattern is figure, and no two patterns are alike", () => {
  const drawn = PATTERNS.map((pattern) => Array.from({ length: 64 }, (_, i) => isOnFigure(pattern, i % 8, Math.floor(i / 8))));

  expect(drawn.map((one) => one.filter(Boolean).length)).toEqual([64, 32, 32]);
  expect(drawn[1]).not.toEqual(drawn[2]);
});
