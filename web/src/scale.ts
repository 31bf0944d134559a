// Axes: a linear domain that includes what it must, and ticks at round numbers.

export interface Scale {
  low: number;
  high: number;
  ticks: number[];
}

/** The smallest of 1, 2, 2.5, 5 times a power of ten that is at least `step`. */
export function roundStep(step: number): number {
  const power = 10 ** Math.floor(Math.log10(step));
  for (const factor of [1, 2, 2.5, 5]) {
    if (step <= factor * power * (1 + 1e-9)) return factor * power;
  }
  return 10 * power;
}

/** A domain that holds every value and zero, with about `wanted` ticks. */
export function scaleWithZero(values: number[], wanted: number): Scale {
  const finite = values.filter(Number.isFinite);
  let low = Math.min(0, ...finite);
  let high = Math.max(0, ...finite);
  if (low === high) [low, high] = [-1, 1];
  const step = roundStep((high - low) / Math.max(1, wanted));
  // A little air, so that no interval ends on the frame.
  const air = (high - low) * 0.04;
  low -= low < 0 ? air : air / 2;
  high += high > 0 ? air : air / 2;
  const ticks: number[] = [];
  for (let index = Math.ceil(low / step); index * step <= high; index += 1) {
    ticks.push(Number((index * step).toPrecision(12)) + 0);
  }
  return { low, high, ticks };
}

/** Position of a value between 0 and 1. */
export function position(scale: Scale, value: number): number {
  return (value - scale.low) / (scale.high - scale.low);
}
