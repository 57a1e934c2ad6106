/** Audio and video are played, sought and stepped; tests/viewer/recorded.py made them. */
import { expect, test } from "vitest";
import type { Locator, Page } from "playwright-core";
import { cellPixel, open } from "./browser";

const nearest = (color: number[] | null) => {
  if (color === null) return "";
  const most = Math.max(...color);
  return most - Math.min(...color) < 40 ? "grey" : (["red", "green", "blue"][color.indexOf(most)] ?? "");
};

/** The colour in the middle of what a video or an image shows. */
function shown(element: Locator): Promise<string> {
  return element
    .evaluate((source) => {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [1, 1];
      const context = canvas.getContext("2d");
      context?.drawImage(source as HTMLVideoElement, 0, 0, 1, 1);
      const data = context?.getImageData(0, 0, 1, 1).data;
      return data === undefined || data[3] === 0 ? null : [...data].slice(0, 3);
    })
    .then(nearest);
}

/** In which fifths of a waveform something is drawn more than a line high. */
function loudness(page: Page): Promise<string> {
  return page.locator("[data-testid=audio] canvas").evaluate((element) => {
    const canvas = element as HTMLCanvasElement;
    const context = canvas.getContext("2d");
    return Array.from({ length: 5 }, (_, fifth) => {
      const x = Math.floor(((fifth + 0.5) * canvas.width) / 5);
      const data = context?.getImageData(x, 0, 1, canvas.height).data ?? [];
      let drawn = 0;
      for (let at = 3; at < data.length; at += 4) drawn += (data[at] ?? 0) > 0 ? 1 : 0;
      return drawn > canvas.height / 2 ? "█" : drawn > 0 ? "_" : " ";
    }).join("");
  });
}

test("a sound is a waveform in the grid and in the row panel, and plays, seeks and steps by keys", async () => {
  const page = await open("sounds?row=0");
  await expect.poll(async () => nearest(await cellPixel(page, 0, 10, 20))).not.toBe("");
  const player = page.getByTestId("row-panel").getByTestId("audio");
  await expect.poll(() => loudness(page)).toBe("__███");
  const time = () => player.getByTestId("time").innerText();
  await expect.poll(time).toBe("0:00.0 / 0:04.0");
  await player.getByText("8 kHz · stereo · flac").waitFor();

  await page.keyboard.press("."); // a second on
  await expect.poll(time).toBe("0:01.0 / 0:04.0");
  const slider = player.getByRole("slider");
  const box = await slider.boundingBox();
  await slider.click({ position: { x: (box?.width ?? 0) / 2, y: 40 } });
  await expect.poll(time).toMatch(/0:0[12]\.[90]/);
  await page.keyboard.press(" ");
  await player.getByRole("button", { name: "Pause" }).waitFor();
  await expect.poll(() => player.locator("audio").evaluate((audio) => (audio as HTMLAudioElement).currentTime)).toBeGreaterThan(2.1);
  await page.keyboard.press(" ");
  await player.getByRole("button", { name: "Play" }).waitFor();
});

test("a sound opens large, says where it is NULL, and survives a lost connection", async () => {
  const page = await open("sounds?row=1", { expected: ["ERR_INTERNET_DISCONNECTED", "Failed to load resource"] });
  const panel = page.getByTestId("row-panel");
  await expect.poll(() => panel.getByTestId("time").innerText()).toBe("0:00.0 / 0:04.0");
  await page.keyboard.press("Enter");
  const large = page.getByTestId("player-view");
  await expect.poll(() => large.getByTestId("time").innerText()).toBe("0:00.0 / 0:04.0");
  expect(await panel.getByTestId("audio").count()).toBe(0); // one sound at a time

  await page.keyboard.press("j");
  await large.getByText("The audio of this row is NULL.").waitFor();
  await page.context().setOffline(true);
  await page.keyboard.press("j");
  await page.context().setOffline(false);
  await expect.poll(() => large.getByTestId("time").innerText()).toBe("0:00.0 / 0:00.0");
  await page.keyboard.press("Escape");
  expect(await large.count()).toBe(0);
});

test("a film shows its poster in the grid, steps by frames and keeps its frame in the URL", async () => {
  const page = await open("films?row=0&look=1");
  await expect.poll(async () => nearest(await cellPixel(page, 0, 80, 60))).toBe("blue"); // at half of 0.8 s
  const player = page.getByTestId("player-view").getByTestId("video");
  const time = () => player.getByTestId("time").innerText();
  await expect.poll(() => shown(player.locator("video"))).toBe("red");
  await player.getByText("64 × 48 · 25 fps · h264").waitFor();

  for (let i = 0; i < 5; i += 1) await page.keyboard.press(".");
  await expect.poll(time).toContain("5 / 19 · 0:00.2");
  await expect.poll(() => shown(player.locator("video"))).toBe("green");
  await expect.poll(() => new URL(page.url()).searchParams.get("frame")).toBe("5");
  await page.keyboard.press(",");
  await expect.poll(() => shown(player.locator("video"))).toBe("red");
  await page.keyboard.press(" ");
  await expect.poll(time).toContain("19 / 19");
  await expect.poll(() => new URL(page.url()).searchParams.get("frame")).toBe("19");

  await page.reload();
  await expect.poll(time).toContain("19 / 19");
  await expect.poll(() => shown(player.locator("video"))).toBe("grey");
});

test("frames are counted from the first one, wherever the time of a file begins", async () => {
  const page = await open("films?row=6&look=1&frame=10");
  const player = page.getByTestId("player-view").getByTestId("video");
  const time = () => player.getByTestId("time").innerText();
  const mediaTime = () => player.locator("video").evaluate((video) => (video as HTMLVideoElement).currentTime);
  await expect.poll(() => shown(player.locator("video"))).toBe("blue");
  expect(await time()).toContain("10 / 19 · 0:00.4");
  await expect.poll(mediaTime).toBeCloseTo(0.08 + 10.5 / 25, 2);
  await page.keyboard.press(",");
  await player.getByRole("img", { name: "frame 9 of film of row 6" }).waitFor(); // Chromium shows frame 10 wherever it seeks from here
  await expect.poll(() => shown(player.locator("img"))).toBe("green");
  expect(await time()).toContain("9 / 19 · 0:00.3");
  await player.getByRole("slider").focus();
  await page.keyboard.press("Home");
  await expect.poll(() => shown(player.locator("video"))).toBe("red");
  expect(await player.locator("img").count()).toBe(0);
  await page.keyboard.press("End");
  await expect.poll(() => shown(player.locator("video"))).toBe("grey");
  await expect.poll(time).toContain("19 / 19");
});

test("a film steps once for each key, however fast they come", async () => {
  const page = await open("films?row=0&look=1");
  const player = page.getByTestId("player-view").getByTestId("video");
  await player.getByText("64 × 48 · 25 fps · h264").waitFor();
  await page.evaluate(() => {
    for (let i = 0; i < 12; i += 1) setTimeout(() => document.body.dispatchEvent(new KeyboardEvent("keydown", { key: ".", bubbles: true })), 15 * i);
  });
  await expect.poll(() => shown(player.locator("video"))).toBe("blue");
  await expect.poll(() => player.getByTestId("time").innerText()).toContain("12 / 19");
});

test("films that the browser does not play are decoded by the server: ProRes, GIF, one pixel", async () => {
  const page = await open("films?row=2");
  const player = page.getByTestId("row-panel").getByTestId("video");
  const time = () => player.getByTestId("time").innerText();
  for (const about of ["64 × 48 · 25 fps · prores", "64 × 48 · 25 fps · gif", "1 × 1 · 25 fps · ffv1"]) {
    await player.getByText(about).waitFor();
    await player.getByText("server frames").waitFor();
    await expect.poll(() => shown(player.locator("img"))).toBe("red");
    await player.getByRole("slider").focus();
    for (let i = 0; i < 10; i += 1) await page.keyboard.press("ArrowRight");
    await expect.poll(() => shown(player.locator("img"))).toBe("blue");
    await player.getByRole("button", { name: "Play" }).click();
    await expect.poll(time).toContain("19 / 19");
    await page.getByTestId("row-panel").getByRole("heading", { name: "Load this row" }).click(); // keys are the page's again
    await page.keyboard.press("j");
  }
  await page.getByTestId("row-panel").getByText("NULL").waitFor();
});

test("a portrait film is shown whole", async () => {
  const page = await open("films?row=1&look=1");
  const video = page.getByTestId("player-view").locator("video");
  await expect.poll(() => video.evaluate((element) => (element as HTMLVideoElement).videoHeight)).toBe(96);
  const [stage, player] = [await page.locator("[data-testid=player-view] .stage").boundingBox(), await video.boundingBox()];
  expect((player?.y ?? 0) >= (stage?.y ?? 1) && (player?.height ?? 1e9) <= (stage?.height ?? 0)).toBe(true);
});
