// Numbers as text: as many digits as the evidence carries. The same rule as quantity.rs.

/** What stands for a reading that did not happen. */
export const ABSENT = "–";

/** Decimals for figures known to about `halfWidth`, `extra` beyond its first significant digit. */
export function decimals(halfWidth: number, extra: number): number {
  if (!Number.isFinite(halfWidth) || halfWidth <= 0) return Math.min(1 + extra, 3);
  const place = Math.max(0, -Math.floor(Math.log10(halfWidth)));
  return Math.min(place + (halfWidth >= 10 ? 0 : extra), 3);
}

/** Fixed decimals, thousands separated, a true minus sign, never minus zero. */
export function plain(value: number, digits: number): string {
  const text = Math.abs(value).toLocaleString("en-US", {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
  const zero = /^[0.]*$/.test(text);
  return value < 0 && !zero ? `−${text}` : text;
}

/** Like plain, with a sign on positive numbers too. */
export function signed(value: number, digits: number): string {
  const text = plain(value, digits);
  return text.startsWith("−") || /^[0.]*$/.test(text) ? text : `+${text}`;
}

/** A whole number with thousands separated. */
export function count(value: number): string {
  return value.toLocaleString("en-US", { maximumFractionDigits: 0 });
}

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = value;
  let unit = 0;
  while (size >= 1024 && unit + 1 < units.length) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? size : size.toFixed(1)} ${units[unit]}`;
}

export function seconds(value: number): string {
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 10) return `${value.toFixed(1)} s`;
  const whole = Math.round(value);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

/** Microseconds in the unit that reads best: `88 µs`, `1.2 ms`, `3 s`. */
export function latency(us: number): string {
  if (us < 1) return `${trim(us * 1000)} ns`;
  if (us < 1000) return `${trim(us)} µs`;
  if (us < 1e6) return `${trim(us / 1000)} ms`;
  return `${trim(us / 1e6)} s`;
}

function trim(value: number): string {
  return String(Number(value.toPrecision(3)));
}

/** A ratio to the base as percent of change: 0.93 is `−7.0`. */
export function percent(ratio: number, digits = 1): string {
  return signed((ratio - 1) * 100, digits);
}

/** `2026-11-21T10:03:12.000Z` as `2026-11-21 10:03 UTC`; anything else as it is. */
export function time(rfc3339: string): string {
  const parts = /^(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2})(?::\d{2}(?:\.\d+)?)?Z$/.exec(rfc3339);
  return parts ? `${parts[1]} ${parts[2]} UTC` : rfc3339;
}
