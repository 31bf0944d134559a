// Latency histograms: from recorded buckets to densities and tails over a shared logarithmic axis.

export type Buckets = [upper_us: number, count: number][];

/** Upper bounds of logarithmic bins that cover every bucket of every histogram. */
export function logBins(histograms: Buckets[], perDecade: number): number[] {
  let low = Infinity;
  let high = 0;
  for (const buckets of histograms) {
    for (const [upper, count] of buckets) {
      if (count <= 0 || !(upper > 0)) continue;
      low = Math.min(low, upper);
      high = Math.max(high, upper);
    }
  }
  if (high === 0) return [];
  // Rounding keeps a bound such as 100 in the bin that ends there.
  const first = Math.ceil(Math.log10(low) * perDecade - 1e-9);
  const last = Math.ceil(Math.log10(high) * perDecade - 1e-9);
  const bins: number[] = [];
  for (let index = first; index <= last; index += 1) bins.push(10 ** (index / perDecade));
  return bins;
}

/** Share of the values in each bin; the shares add up to 1. All zero when there are no values. */
export function shares(buckets: Buckets, bins: number[]): number[] {
  const counts = new Array<number>(bins.length).fill(0);
  let total = 0;
  let bin = 0;
  for (const [upper, count] of buckets) {
    while (bin + 1 < bins.length && upper > (bins[bin] ?? 0) * (1 + 1e-9)) bin += 1;
    counts[bin] = (counts[bin] ?? 0) + count;
    total += count;
  }
  return total > 0 ? counts.map((count) => count / total) : counts;
}

/** Fraction of the values above each bin's upper bound; null where nothing is left. */
export function tail(buckets: Buckets, bins: number[]): (number | null)[] {
  const total = buckets.reduce((sum, [, count]) => sum + count, 0);
  let above = total;
  let next = 0;
  return bins.map((bound) => {
    for (; next < buckets.length; next += 1) {
      const bucket = buckets[next];
      if (bucket === undefined || bucket[0] > bound * (1 + 1e-9)) break;
      above -= bucket[1];
    }
    return above > 0 && total > 0 ? above / total : null;
  });
}

/** The smallest bucket bound with at least the fraction `q` of the values at or below it. */
export function quantile(buckets: Buckets, q: number): number | null {
  const total = buckets.reduce((sum, [, count]) => sum + count, 0);
  if (total === 0) return null;
  let seen = 0;
  for (const [upper, count] of buckets) {
    seen += count;
    if (seen >= q * total) return upper;
  }
  return null;
}
