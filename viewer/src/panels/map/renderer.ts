/**
 * Draws the points: by WebGL 2, or without it into the pixels of a plain canvas.
 *
 * Faint points come first in both, so that they hide no others. The plain way needs no graphics processor: 10⁵ points
 * are a few milliseconds.
 */
import type { Extent, Fit } from "../../canvas/geometry";
import { FULL } from "./colors";
import type { Points } from "./points";

export interface Renderer {
  readonly kind: "webgl" | "plain";
  put(points: Points, colors: Uint8Array): void;
  /** `fit` places the map's square on the canvas, in CSS pixels; `size` is the diameter of a point. */
  draw(fit: Fit, area: Extent, size: number): void;
  /** Frees what the graphics processor holds. */
  end(): void;
}

export function createRenderer(canvas: HTMLCanvasElement): Renderer {
  const gl = canvas.getContext("webgl2", { antialias: false, premultipliedAlpha: false, preserveDrawingBuffer: true }); // so that it can be copied
  if (gl !== null) return webglRenderer(canvas, gl);
  const context = canvas.getContext("2d");
  if (context === null) throw new Error("this browser draws no canvas");
  return plainRenderer(canvas, context);
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
  let count = 0;
  gl.enable(gl.BLEND);
  gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
  return {
    kind: "webgl",
    put(points, colors) {
      count = points.count;
      fill("place", places, points.xy, 2, gl.FLOAT, false);
      fill("color", shades, colors, 4, gl.UNSIGNED_BYTE, true);
    },
    draw(fit, area, size) {
      resize(canvas, area);
      gl.viewport(0, 0, canvas.width, canvas.height);
      gl.clearColor(0, 0, 0, 0);
      gl.clear(gl.COLOR_BUFFER_BIT);
      gl.uniform4f(fitAt, (2 * fit.scale) / area.width, (-2 * fit.scale) / area.height, (2 * fit.x) / area.width - 1, 1 - (2 * fit.y) / area.height);
      gl.uniform1f(sizeAt, size * devicePixelRatio);
      for (const [from, below] of [[0, 1], [1, 2]] as const) {
        gl.uniform2f(passAt, from, below);
        gl.drawArrays(gl.POINTS, 0, count);
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

function plainRenderer(canvas: HTMLCanvasElement, context: CanvasRenderingContext2D): Renderer {
  let xy = new Float32Array();
  let pixels = new Uint32Array(); // of colours, as the image has them
  let alphas = new Uint8Array();
  return {
    kind: "plain",
    put(points, colors) {
      xy = points.xy as Float32Array<ArrayBuffer>;
      pixels = new Uint32Array(colors.buffer as ArrayBuffer);
      alphas = colors as Uint8Array<ArrayBuffer>;
    },
    draw(fit, area, size) {
      resize(canvas, area);
      const { width, height } = canvas;
      const image = context.createImageData(width, height);
      const target = new Uint32Array(image.data.buffer);
      const ratio = width / area.width;
      const side = Math.max(1, Math.round(size * ratio * 0.9)); // of a square as large as the disk
      for (const isFull of [false, true]) {
        for (let i = 0; i < pixels.length; i += 1) {
          if (((alphas[4 * i + 3] ?? 0) === FULL) !== isFull) continue;
          const left = Math.round(((xy[2 * i] ?? 0) * fit.scale + fit.x) * ratio - side / 2);
          const top = Math.round(((xy[2 * i + 1] ?? 0) * fit.scale + fit.y) * ratio - side / 2);
          if (left < 0 || top < 0 || left + side > width || top + side > height) continue;
          for (let y = top; y < top + side; y += 1) target.fill(pixels[i] ?? 0, y * width + left, y * width + left + side);
        }
      }
      context.putImageData(image, 0, 0);
    },
    end() {
      pixels = new Uint32Array();
    },
  };
}

function resize(canvas: HTMLCanvasElement, area: Extent): void {
  const [width, height] = [Math.max(1, Math.round(area.width * devicePixelRatio)), Math.max(1, Math.round(area.height * devicePixelRatio))];
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
}
