import { expect, test } from "vitest";
import { FrameParser, HEADER_NBYTES } from "./frames";

function frame(index: number, kind: number, body: string): Uint8Array {
  const bytes = new Uint8Array(HEADER_NBYTES + body.length);
  const header = new DataView(bytes.buffer);
  header.setUint32(0, index, true);
  header.setUint8(4, kind);
  header.setUint32(8, 640, true);
  header.setUint32(12, 427, true);
  header.setUint32(16, body.length, true);
  bytes.set(new TextEncoder().encode(body), HEADER_NBYTES);
  return bytes;
}

const body = new Uint8Array([...frame(0, 1, "jpeg"), ...frame(1, 0, ""), ...frame(2, 3, "damaged")]);

test.each([1, 7, 20, body.length])("frames are found however the body is cut (%i bytes a piece)", (size) => {
  const parser = new FrameParser();
  const frames = [];
  for (let start = 0; start < body.length; start += size) frames.push(...parser.push(body.slice(start, start + size)));
  parser.finish();

  expect(frames.map(({ index, kind, width, height }) => [index, kind, width, height])).toEqual([
    [0, "image/jpeg", 640, 427],
    [1, "none", 640, 427],
    [2, "error", 640, 427],
  ]);
  expect(new TextDecoder().decode(frames[2]?.bytes)).toBe("damaged");
});

test("a body that ends early is an error", () => {
  const parser = new FrameParser();
  parser.push(body.slice(0, -1));

  expect(() => parser.finish()).toThrow("ends inside a frame");
});

test("an unknown kind is refused", () => {
  expect(() => new FrameParser().push(frame(0, 9, ""))).toThrow("unknown thumbnail kind 9");
});
