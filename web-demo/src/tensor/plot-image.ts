/** Renders a plot as an image file: title, facts, the plot with its axes, the colour scale, and the address of the page. */

import { colour, element } from "../page/element.js";

export interface PlotImage {
  readonly title: string;
  /** Lines below the title, such as shape, dtype and visible area. */
  readonly facts: readonly string[];
  /** The element whose canvases are drawn at the same positions as on the page. */
  readonly plot: HTMLElement;
  readonly scale?: { readonly name: string; readonly low: string; readonly high: string; readonly colours: readonly string[] } | undefined;
  /** The meaning of other marks, such as "hatched: not read". */
  readonly notes: readonly string[];
  readonly address: string;
}

const DENSITY = 2;
const MARGIN = 28;
const TITLE_FONT = '650 20px ui-monospace, "DejaVu Sans Mono", monospace';
const TEXT_FONT = '13px ui-sans-serif, system-ui, "DejaVu Sans", sans-serif';
const SMALL_FONT = '12px ui-monospace, "DejaVu Sans Mono", monospace';
const LINE = 20;
const SCALE = { width: 150, height: 10 };

/** Draws the image to be saved. */
export function plotImage({ title, facts, plot, scale, notes, address }: PlotImage): HTMLCanvasElement {
  const box = plot.getBoundingClientRect();
  const width = Math.max(520, box.width) + 2 * MARGIN;
  const top = MARGIN + 28 + facts.length * LINE + 14;
  const height = top + box.height + 14 + LINE + LINE + MARGIN;
  const canvas = element("canvas", { width: Math.round(width * DENSITY), height: Math.round(height * DENSITY) });
  const ctx = canvas.getContext("2d");
  if (!ctx) throw new Error("This browser cannot draw an image.");
  ctx.scale(DENSITY, DENSITY);
  ctx.fillStyle = colour("surface");
  ctx.fillRect(0, 0, width, height);
  ctx.textBaseline = "top";
  const write = (text: string, font: string, tone: string, y: number) => {
    ctx.font = font;
    ctx.fillStyle = colour(tone);
    ctx.fillText(fitted(ctx, text, width - 2 * MARGIN), MARGIN, y);
  };
  write(title, TITLE_FONT, "ink", MARGIN);
  facts.forEach((fact, i) => write(fact, TEXT_FONT, "quiet", MARGIN + 30 + i * LINE));
  for (const part of plot.querySelectorAll("canvas")) {
    const place = part.getBoundingClientRect();
    if (part.width > 0 && place.width > 0) ctx.drawImage(part, MARGIN + place.left - box.left, top + place.top - box.top, place.width, place.height);
  }
  const foot = top + box.height + 14;
  let x = MARGIN;
  ctx.textBaseline = "middle";
  const say = (text: string, font = SMALL_FONT) => {
    ctx.font = font;
    ctx.fillStyle = colour("quiet");
    ctx.fillText(text, x, foot + SCALE.height / 2);
    x += ctx.measureText(text).width + 8;
  };
  if (scale) {
    say(scale.name, TEXT_FONT);
    say(scale.low);
    const gradient = ctx.createLinearGradient(x, 0, x + SCALE.width, 0);
    scale.colours.forEach((tone, i) => gradient.addColorStop(i / (scale.colours.length - 1), tone));
    ctx.fillStyle = gradient;
    ctx.fillRect(x, foot, SCALE.width, SCALE.height);
    x += SCALE.width + 8;
    say(scale.high);
    x += 10;
  }
  for (const note of notes) say(note, TEXT_FONT);
  ctx.textBaseline = "top";
  write(address, SMALL_FONT, "quiet", foot + SCALE.height + 14);
  return canvas;
}

/** Shortens a text to a width by removing its middle. */
function fitted(ctx: CanvasRenderingContext2D, text: string, width: number): string {
  if (ctx.measureText(text).width <= width) return text;
  let length = text.length;
  const shortened = () => `${text.slice(0, Math.ceil(length / 2))}…${text.slice(text.length - Math.floor(length / 2))}`;
  while (length > 2 && ctx.measureText(shortened()).width > width) length -= 1;
  return shortened();
}

/** Returns the canvas as a PNG file. */
export function pngOf(canvas: HTMLCanvasElement): Promise<Blob> {
  return new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("Couldn't create the image. Make the window smaller and try again."))), "image/png"));
}
