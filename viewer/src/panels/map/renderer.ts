/**
 * Draws the points: by a graphics processor, or without one into the pixels of a plain canvas.
 *
 * Faint points come first in both, so that they hide no others. The plain way is faster than WebGL in software: some
 * ten milliseconds for 10⁶ points, in parts of a few, so that a frame of the page waits for none.
 */
import type { Extent, Fit } from "../../canvas/geometry";
import { FULL } from "./colors";
import type { Points } from "./points";

export interface Renderer {
  readonly kind: "webgl" | "plain";
  /** Colours are read until others are put. */
  put(points: Points, colors: Uint8Array<ArrayBuffer>): void;
  /**
   * Draws one part after another, and is done after the last: what is seen before is the last drawing.
   *
   * `fit` places the map's square on the canvas, in CSS pixels; `size` is the diameter of a point.
   */
  draw(fit: Fit, area: Extent, size: number): Generator<void>;
  /** Frees what the graphics processor holds. */
  end(): void;
}

export function createRenderer(canvas: HTMLCanvasElement): Renderer {
  const gl = hasProcessor() ? canvas.getContext("webgl2", { antialias: false, premultipliedAlpha: false, preserveDrawingBuffer: true }) : null; // kept: it can be copied
  if (gl !== null) return webglRenderer(canvas, gl);
  const context = canvas.getContext("2d");
  if (context === null) throw new Error("this browser draws no canvas");
  return plainRenderer(canvas, context);
}

/** Whether WebGL is not drawn in software, which takes a second for 10⁶ points. */
function hasProcessor(): boolean {
  const gl = document.createElement("canvas").getContext("webgl2");
  const names = gl?.getExtension("WEBGL_debug_renderer_info") ?? null;
  const name: unknown = names === null ? gl?.getParameter(gl.RENDERER) : gl?.getParameter(names.UNMASKED_RENDERER_WEBGL);
  gl?.getExtension("WEBGL_lose_context")?.loseContext();
  return gl !== null && !/swiftshader|llvmpipe|softpipe|software|basic render/i.test(String(name));
}

const VERTEX = `#version 300 es
in vec2 place;
in vec4 color;
uniform vec4 fit; // scale and offset, from the map to clip space
uniform vec2 pass; // alpha of the points of this pass: from, below
uniform float size;
out vec4 shade;
void main() {
  bool isDrawn = color.a >= pass.x && color.a < pass.y;
  gl_Position = isDrawn ? vec4(place * fit.xy + fit.zw, 0.0, 1.0) : vec4(2.0, 2.0, 2.0, 1.0);
  gl_PointSize = size;
  shade = color;
}`;

const FRAGMENT = `#version 300 es
precision mediump float;
in vec4 shade;
out vec4 pixel;
void main() {
  if (length(gl_PointCoord - 0.5) > 0.5) discard;
  pixel = shade;
}`;

function webglRenderer(canvas: HTMLCanvasElement, gl: WebGL2RenderingContext): Renderer {
  const program = gl.createProgram();
  for (const [type, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]] as const) {
    const shader = gl.createShader(type);
    if (shader === null) continue; // the context is lost
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  gl.useProgram(program);
  const [places, shades] = [gl.createBuffer(), gl.createBuffer()];
  const uniform = (name: string) => gl.getUniformLocation(program, name);
  const [fitAt, passAt, sizeAt] = [uniform("fit"), uniform("pass"), uniform("size")];
  let put: Points | null = null;
  gl.enable(gl.BLEND);
  gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
  return {
    kind: "webgl",
    put(points, colors) {
      if (points !== put) fill("place", places, points.xy, 2, gl.FLOAT, false);
      put = points;
      fill("color", shades, colors, 4, gl.UNSIGNED_BYTE, true);
    },
    *draw(fit, area, size) {
      yield; // there is one part
      resize(canvas, area);
      gl.viewport(0, 0, canvas.width, canvas.height);
      gl.clearColor(0, 0, 0, 0);
      gl.clear(gl.COLOR_BUFFER_BIT);
      gl.uniform4f(fitAt, (2 * fit.scale) / area.width, (-2 * fit.scale) / area.height, (2 * fit.x) / area.width - 1, 1 - (2 * fit.y) / area.height);
      gl.uniform1f(sizeAt, size * devicePixelRatio);
      for (const [from, below] of [[0, 1], [1, 2]] as const) {
        gl.uniform2f(passAt, from, below);
        gl.drawArrays(gl.POINTS, 0, put?.count ?? 0);
      }
    },
    end() {
      gl.getExtension("WEBGL_lose_context")?.loseContext();
    },
  };

  function fill(name: string, buffer: WebGLBuffer | null, data: Float32Array | Uint8Array, size: number, type: number, isShare: boolean): void {
    const at = gl.getAttribLocation(program, name);
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.bufferData(gl.ARRAY_BUFFER, data, gl.STATIC_DRAW);
    gl.enableVertexAttribArray(at);
    gl.vertexAttribPointer(at, size, type, isShare, 0, 0);
  }
}

const PART = 50_000; // points: a few milliseconds

function plainRenderer(canvas: HTMLCanvasElement, context: CanvasRenderingContext2D): Renderer {
  let xy = new Float32Array();
  let colors = new Uint32Array(); // as the image has them: a point at once
  let image = new ImageData(1, 1);
  return {
    kind: "plain",
    put(points, given) {
      xy = points.xy as Float32Array<ArrayBuffer>;
      colors = new Uint32Array(given.buffer);
    },
    *draw(fit, area, size) {
      const { width, height } = pixelsOf(area);
      if (image.width !== width || image.height !== height) image = new ImageData(width, height);
      const target = new Uint32Array(image.data.buffer);
      target.fill(0);
      const ratio = width / area.width;
      const side = Math.max(1, Math.round(size * ratio)); // of a square without its corners
      const cuts = Array.from({ length: side }, (_, y) => Math.max(0, Math.round(side / 4) - Math.min(y, side - 1 - y)));
      for (const isFull of [false, true]) {
        for (let start = 0; start < colors.length; start += PART) {
          const stop = Math.min(colors.length, start + PART);
          for (let i = start; i < stop; i += 1) {
            const color = colors[i] ?? 0;
            if (color >>> 24 === FULL !== isFull) continue;
            const left = Math.round(((xy[2 * i] ?? 0) * fit.scale + fit.x) * ratio - side / 2);
            const top = Math.round(((xy[2 * i + 1] ?? 0) * fit.scale + fit.y) * ratio - side / 2);
            if (left < 0 || top < 0 || left + side > width || top + side > height) continue;
            for (let y = 0; y < side; y += 1) {
              const [line, cut] = [(top + y) * width + left, side > 3 ? (cuts[y] ?? 0) : 0];
              for (let pixel = line + cut; pixel < line + side - cut; pixel += 1) target[pixel] = color;
            }
          }
          yield;
        }
      }
      resize(canvas, area);
      context.putImageData(image, 0, 0);
    },
    end() {
      colors = new Uint32Array();
    },
  };
}

function pixelsOf(area: Extent): Extent {
  return { width: Math.max(1, Math.round(area.width * devicePixelRatio)), height: Math.max(1, Math.round(area.height * devicePixelRatio)) };
}

function resize(canvas: HTMLCanvasElement, area: Extent): void {
  const { width, height } = pixelsOf(area);
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
}
