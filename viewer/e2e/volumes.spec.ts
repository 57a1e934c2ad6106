/** A volume in three planes through one voxel; tests/viewer/recorded.py made it. */
import { expect, test } from "vitest";
import type { Page } from "playwright-core";
import { open } from "./browser";

/** The grey of each plane's middle, across z, y and x. */
function greys(page: Page): Promise<number[]> {
  return page.locator("[data-testid=volume] img").evaluateAll((images) =>
    images.map((image) => {
      const canvas = document.createElement("canvas");
      const element = image as HTMLImageElement;
      [canvas.width, canvas.height] = [element.naturalWidth, element.naturalHeight];
      const context = canvas.getContext("2d");
      if (!element.complete || canvas.width === 0) return -1;
      context?.drawImage(element, 0, 0);
      return context?.getImageData(Math.floor(canvas.width / 2), Math.floor(canvas.height / 2), 1, 1).data[0] ?? -1;
    }),
  );
}

test("a volume opens in three linked planes, as long as its voxels, through one window", async () => {
  const page = await open("volumes?row=0&look=1");
  const volume = page.getByTestId("volume");
  const at = async () => (await volume.locator("figcaption").allInnerTexts()).map((text) => text.trim());
  await expect.poll(at).toEqual(["z 10 / 19", "y 8 / 15", "x 20 / 39"]);
  const planes = volume.locator(".plane");
  const shape = async (i: number) => {
    const box = await planes.nth(i).boundingBox();
    return Math.round((10 * (box?.width ?? 0)) / (box?.height ?? 1)) / 10;
  };
  await expect.poll(async () => [await shape(0), await shape(1), await shape(2)]).toEqual([2.5, 0.5, 0.2]); // 40 × 16, 40 × 80, 16 × 80 mm

  const box = await planes.nth(1).boundingBox(); // across y: z down, x to the right
  await planes.nth(1).click({ position: { x: (box?.width ?? 0) * 0.81, y: (box?.height ?? 0) * 0.72 } });
  await expect.poll(at).toEqual(["z 14 / 19", "y 8 / 15", "x 32 / 39"]);
  await expect.poll(() => new URL(page.url()).searchParams.get("frame")).toBe("14");
  for (let i = 0; i < 3; i += 1) await page.keyboard.press(","); // of the plane that was touched
  await expect.poll(at).toEqual(["z 14 / 19", "y 5 / 15", "x 32 / 39"]);
  await volume.getByRole("slider", { name: "z of scan of row 0" }).focus();
  await page.keyboard.press("ArrowRight");
  await expect.poll(at).toEqual(["z 15 / 19", "y 5 / 15", "x 32 / 39"]);

  await expect.poll(() => greys(page)).toEqual([0, 255, 0]); // only the plane y = 5 has the box in its middle
  await page.getByTestId("window").waitFor();
});

test("a volume of NULL has no planes, and narrow pages show them below each other", async () => {
  const page = await open("volumes?row=1&look=1", { viewport: { width: 390, height: 800 } });
  await page.getByText("The volume of this row is NULL.").waitFor();
  await page.getByRole("button", { name: "Previous row" }).click();
  await expect.poll(() => page.getByTestId("volume").locator("img").count()).toBe(3);
});

test("the panel of a row begins with the middle plane, and keeps the plane that was chosen", async () => {
  const page = await open("volumes?row=0");
  const bar = page.getByTestId("row-panel").getByTestId("frames");
  const drawn = () => page.getByTestId("row-panel").locator("img").first().getAttribute("src");
  await expect.poll(() => bar.innerText()).toContain("10 / 19");
  await expect.poll(drawn).toContain("frame=10");
  await bar.getByRole("slider").fill("0");
  await expect.poll(() => new URL(page.url()).searchParams.get("frame")).toBe("0");
  await page.reload();
  await expect.poll(() => bar.innerText()).toContain("0 / 19");
});

test("the bar below a volume is one line on a page of 1280 pixels", async () => {
  const page = await open("volumes?row=0&look=1", { viewport: { width: 1280, height: 800 } });
  await page.getByTestId("window").waitFor();
  const close = page.getByTestId("player-view").getByRole("button", { name: /Close/ });
  const [one, other] = await Promise.all([close.boundingBox(), page.getByRole("button", { name: "Previous row" }).boundingBox()]);
  expect(Math.abs((one?.y ?? 0) - (other?.y ?? 99))).toBeLessThan(8);
});

test("a single slice is one plane, without sliders", async () => {
  const page = await open("volumes?row=2&look=1");
  const planes = page.getByTestId("volume").locator("img");

  const sizes = () => planes.evaluateAll((all) => all.map((one) => [(one as HTMLImageElement).naturalWidth, (one as HTMLImageElement).naturalHeight]));
  await expect.poll(sizes).toEqual([[40, 16]]);
  expect(await page.getByRole("slider", { name: "z of scan of row 2" }).isVisible()).toBe(false);
  expect(await page.getByTestId("row-panel").getByTestId("frames").count()).toBe(0);
  await page.getByRole("button", { name: "Next row" }).click(); // across x
  await expect.poll(sizes).toEqual([[16, 20]]);
});
