/** Formats numbers for display. */

const UNITS = ["bytes", "kB", "MB", "GB", "TB"];

/** Formats a length in bytes: 1536000 → "1.54 MB". The units are decimal, as in file managers and hubs. */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  if (unit === 0) return `${bytes} ${bytes === 1 ? "byte" : "bytes"}`;
  return `${value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0)} ${UNITS[unit]}`;
}

/** Formats a count: 12345678 → "12,345,678". */
export function formatCount(count: number): string {
  return count.toLocaleString("en-US");
}

/** Formats a count with a noun: "1 request", "2 requests". */
export function plural(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** Formats a ratio: 1.5 → "1.50×". */
export function formatRatio(ratio: number): string {
  if (!Number.isFinite(ratio)) return "–";
  return `${ratio.toFixed(ratio < 10 ? 2 : ratio < 100 ? 1 : 0)}×`;
}

/** Formats a fraction: 0.00123 → "0.12 %"; 12.3 → "12×". A fraction below 1 never becomes "100 %". */
export function formatShare(share: number): string {
  const percent = share * 100;
  if (percent > 0 && percent < 0.01) return "< 0.01 %";
  if (percent >= 99.95 && percent < 100) return "> 99.9 %";
  if (percent > 1000) return `${share.toFixed(0)}×`;
  return `${percent.toFixed(percent < 9.995 ? 2 : percent < 99.95 ? 1 : 0)} %`;
}

/** Marks a number as approximate: "1.50 %" → "≈ 1.50 %". A text that is already a bound is returned unchanged. */
export const approximately = (text: string): string => (/^[<>]/.test(text) ? text : `≈ ${text}`);

/** Formats a shape: [4096, 11008] → "4096 × 11008"; [] → "scalar". */
export function formatShape(shape: readonly number[]): string {
  return shape.length === 0 ? "scalar" : shape.join(" × ");
}

/** Formats a value with at most `digits` significant digits. */
export function formatValue(value: number, digits = 4): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+∞" : "−∞";
  if (value === 0) return "0";
  const magnitude = Math.abs(value);
  if (Number.isInteger(value) && magnitude < 1e7) return sign(String(value));
  if (magnitude >= 1e6 || magnitude < 1e-4) return sign(value.toExponential(digits - 1).replace("e+", "e"));
  return sign(String(Number(value.toPrecision(digits))));
}

/** Formats a duration in milliseconds: 38.4 → "38 ms". */
export function formatDuration(milliseconds: number): string {
  return milliseconds < 1000 ? `${Math.max(1, Math.round(milliseconds))} ms` : `${(milliseconds / 1000).toFixed(2)} s`;
}

function sign(text: string): string {
  return text.replace(/^-/, "−");
}

/** Formats a large count: 1234567 → "1.23 M". */
export function formatMagnitude(count: number): string {
  const units = ["", " k", " M", " B", " T"];
  let [value, unit] = [count, 0];
  while (value >= 999.5 && unit < units.length - 1) [value, unit] = [value / 1000, unit + 1];
  return unit === 0 ? String(count) : `${value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0)}${units[unit]}`;
}
