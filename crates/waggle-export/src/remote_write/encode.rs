//! Series as the messages of remote write 1.0: protobuf, packed with snappy, in bounded batches.
//!
//! The four messages it takes (`WriteRequest`, `TimeSeries`, `Sample` and `Label`) are written
//! straight from the series, without a copy of each label in between. Neighbours: the page's
//! [`Visit`] comes in; packed bodies go to the spool, ready to be sent as they are.
//!
//! Invariants: labels are sorted by name and none is empty, as the protocol asks. Within a batch
//! and from batch to batch the time stamps of a series only grow.

use crate::prometheus::{Kind, Series, Visit};

/// Series to a batch: some 100 KiB unpacked, which every store takes.
const SERIES_MOST: u32 = 1000;
/// Bytes to a batch, unpacked, after which another begins.
const BYTES_MOST: usize = 1 << 20;

/// One body and how many samples are in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Body {
    pub(super) samples: u32,
    pub(super) packed: Vec<u8>,
}

/// Time stamps of a page, ms since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    /// Of its samples.
    pub(super) now_ms: i64,
    /// At which counters that are new on it still were 0: later than the page before.
    pub(super) zero_ms: i64,
}

/// Collects one page.
#[derive(Debug)]
pub(super) struct Encoder<'a> {
    /// Labels that every series gets; sorted by name.
    constant: &'a [(String, String)],
    times: Times,
    name: String,
    begins_at_zero: bool,
    request: Vec<u8>,
    series: Vec<u8>,
    in_request: u32,
    samples: u32,
    bodies: Vec<Body>,
}

impl<'a> Encoder<'a> {
    pub(super) fn new(constant: &'a [(String, String)], times: Times) -> Self {
        Self {
            constant,
            times,
            name: String::new(),
            begins_at_zero: false,
            request: Vec::new(),
            series: Vec::new(),
            in_request: 0,
            samples: 0,
            bodies: Vec::new(),
        }
    }

    /// All bodies of the page.
    pub(super) fn finish(mut self) -> Vec<Body> {
        self.pack();
        self.bodies
    }

    fn pack(&mut self) {
        if self.in_request == 0 {
            return;
        }
        // Fails for more than 4 GiB only.
        if let Ok(packed) = snap::raw::Encoder::new().compress_vec(&self.request) {
            let samples = self.samples;
            self.bodies.push(Body { samples, packed });
        }
        self.request.clear();
        (self.in_request, self.samples) = (0, 0);
    }

    fn label(&mut self, name: &str, suffix: &str, value: &str) {
        // A string field of one byte for its number: 1 and 2.
        let field = |length: usize| 1 + varint_bytes(length as u64) + length;
        let value_bytes = value.len() + suffix.len();
        message(&mut self.series, 1, field(name.len()) + field(value_bytes));
        message(&mut self.series, 1, name.len());
        self.series.extend_from_slice(name.as_bytes());
        message(&mut self.series, 2, value_bytes);
        self.series.extend_from_slice(value.as_bytes());
        self.series.extend_from_slice(suffix.as_bytes());
    }

    fn sample(&mut self, value: f64, time_ms: i64) {
        // Negative times have ten bytes, as two's complement.
        let time = time_ms as u64;
        message(&mut self.series, 2, 1 + 8 + 1 + varint_bytes(time));
        self.series.push(1 << 3 | 1);
        self.series.extend_from_slice(&value.to_le_bytes());
        self.series.push(2 << 3);
        varint(&mut self.series, time);
        self.samples += 1;
    }
}

impl Visit for Encoder<'_> {
    fn family(&mut self, name: &str, kind: Kind, _help: &str) {
        self.name.clear();
        self.name.push_str(name);
        self.begins_at_zero = matches!(kind, Kind::Counter | Kind::Histogram);
    }

    fn series(&mut self, series: Series<'_>) {
        self.series.clear();
        let name = std::mem::take(&mut self.name);
        self.label("__name__", series.suffix, &name);
        self.name = name;
        let constant = self.constant.iter().map(|(n, v)| (n.as_str(), v.as_str()));
        let mut labels: Vec<(&str, &str)> = constant
            .chain(series.labels.iter().copied())
            .filter(|(_, value)| !value.is_empty())
            .collect();
        labels.sort_by_key(|(name, _)| *name);
        // Where both have a name, the series' own is the more exact.
        labels.reverse();
        labels.dedup_by_key(|(name, _)| *name);
        labels.reverse();
        for (name, value) in labels {
            if value.contains('\0') {
                // As in the text format, so that a series is the same whichever way it comes.
                self.label(name, "", &value.replace('\0', "\u{fffd}"));
            } else {
                self.label(name, "", value);
            }
        }
        if series.is_new && self.begins_at_zero {
            self.sample(0.0, self.times.zero_ms);
        }
        self.sample(series.value, self.times.now_ms);
        message(&mut self.request, 1, self.series.len());
        self.request.extend_from_slice(&self.series);
        self.in_request += 1;
        if self.in_request >= SERIES_MOST || self.request.len() >= BYTES_MOST {
            self.pack();
        }
    }
}

/// Begins field `number`, a message or string of `length` bytes.
fn message(out: &mut Vec<u8>, number: u8, length: usize) {
    out.push(number << 3 | 2);
    varint(out, length as u64);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn varint_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series<'a>(labels: &'a [(&'static str, &'a str)], is_new: bool) -> Series<'a> {
        Series {
            suffix: "_sum",
            labels,
            value: 1.0,
            is_new,
        }
    }

    #[test]
    fn lengths_of_numbers() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1] {
                let mut out = Vec::new();
                varint(&mut out, value);
                assert_eq!(out.len(), varint_bytes(value), "{value}");
            }
        }
    }

    /// By hand, from the protocol's definition.
    #[test]
    fn a_request_byte_by_byte() {
        let constant = [("job".to_owned(), "w".to_owned())];
        let times = Times {
            now_ms: 300,
            zero_ms: 2,
        };
        let mut encoder = Encoder::new(&constant, times);
        encoder.family("m", Kind::Counter, "Help.");
        encoder.series(series(&[("z", ""), ("a", "b")], true));
        let bodies = encoder.finish();
        let plain = snap::raw::Decoder::new()
            .decompress_vec(&bodies[0].packed)
            .unwrap();
        let mut expected = vec![0x0a, 63];
        expected.extend(b"\x0a\x11\x0a\x08__name__\x12\x05m_sum");
        expected.extend(b"\x0a\x06\x0a\x01a\x12\x01b");
        expected.extend(b"\x0a\x08\x0a\x03job\x12\x01w");
        expected.extend(b"\x12\x0b\x09\0\0\0\0\0\0\0\0\x10\x02");
        expected.extend(b"\x12\x0c\x09\0\0\0\0\0\0\xf0\x3f\x10\xac\x02");
        expected[1] = u8::try_from(expected.len() - 2).unwrap();
        assert_eq!(plain, expected);
        assert_eq!((bodies.len(), bodies[0].samples), (1, 2));
    }

    #[test]
    fn a_gauge_does_not_begin_at_zero_and_an_own_label_wins() {
        let constant = [("server".to_owned(), "constant".to_owned())];
        let times = Times {
            now_ms: 2,
            zero_ms: 1,
        };
        let mut encoder = Encoder::new(&constant, times);
        encoder.family("m", Kind::Gauge, "Help.");
        encoder.series(series(&[("server", "own")], true));
        let bodies = encoder.finish();
        let plain = snap::raw::Decoder::new()
            .decompress_vec(&bodies[0].packed)
            .unwrap();
        assert_eq!(bodies[0].samples, 1);
        let has = |text: &[u8]| plain.windows(text.len()).any(|w| w == text);
        assert!(has(b"own") && !has(b"constant"));
    }

    #[test]
    fn a_page_is_cut_into_batches() {
        let times = Times {
            now_ms: 2,
            zero_ms: 1,
        };
        let mut encoder = Encoder::new(&[], times);
        encoder.family("m", Kind::Gauge, "Help.");
        let values: Vec<String> = (0..2500).map(|n| n.to_string()).collect();
        for value in &values {
            encoder.series(series(&[("n", value)], false));
        }
        let bodies: Vec<u32> = encoder.finish().iter().map(|body| body.samples).collect();
        assert_eq!(bodies, [1000, 1000, 500]);
    }
}
