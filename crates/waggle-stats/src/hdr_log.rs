//! An interval log of histograms, as HdrHistogram's own tools read it (HistogramLogAnalyzer,
//! HistogramLogProcessor): text, a header and then a line for each histogram.
//!
//! Neighbour: [`crate::latency`] holds the histograms; whoever writes the file asks here for the
//! lines. Invariant: values are nanoseconds; `Interval_Max` is in milliseconds, as these tools have
//! it by default.

use std::fmt::Write;
use std::time::Duration;

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use crate::latency::{LatencyError, LatencyHistogram};

/// Nanoseconds in the unit of `Interval_Max`.
const NS_PER_MS: f64 = 1e6;

/// The lines before the first interval; times of intervals count from its beginning, given since
/// 1970.
pub fn header(since_epoch: Duration) -> String {
    let mut text = String::from("#[Histogram log format version 1.3]\n");
    for name in ["StartTime", "BaseTime"] {
        let seconds = since_epoch.as_secs_f64();
        // Writing to a String does not fail.
        let _ = writeln!(text, "#[{name}: {seconds:.3} (seconds since epoch)]");
    }
    text.push_str(
        "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\
         \"Interval_Compressed_Histogram\"\n",
    );
    text
}

/// The line of one interval that began `from` after the log and lasted for `length`.
///
/// # Errors
/// [`LatencyError::NotEncoded`] when the tag has a comma or white space, or a count does not fit.
pub fn line(
    tag: &str,
    from: Duration,
    length: Duration,
    histogram: &LatencyHistogram,
) -> Result<String, LatencyError> {
    let not_encoded = |reason: String| LatencyError::NotEncoded { reason };
    let tag = Tag::new(tag).ok_or_else(|| not_encoded(format!("'{tag}' cannot be a tag")))?;
    let mut bytes = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut builder = IntervalLogWriterBuilder::new();
    builder.with_max_value_divisor(NS_PER_MS);
    let mut writer = builder
        .begin_log_with(&mut bytes, &mut serializer)
        .map_err(|error| not_encoded(error.to_string()))?;
    writer
        .write_histogram(histogram.as_hdr(), from, length, Some(tag))
        .map_err(|error| not_encoded(format!("{error:?}")))?;
    let text = String::from_utf8(bytes).map_err(|error| not_encoded(error.to_string()))?;
    // The library writes a comment on its unit before the first interval of a log.
    let data = text.lines().find(|line| !line.starts_with('#'));
    data.map(|line| format!("{line}\n"))
        .ok_or_else(|| not_encoded("no line came out".to_owned()))
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;

    #[test]
    fn a_log_is_read_back_by_the_library_that_others_use() {
        let mut histogram = LatencyHistogram::new();
        histogram.record_n(2_000_000, 99);
        histogram.record(40_000_000);
        let began = Duration::from_millis(1_500_000_000_250);
        let second = Duration::from_secs(1);
        let mut log = header(began);
        for (at, tag) in ["response", "service", "response"].into_iter().enumerate() {
            log += &line(tag, second * at as u32, second, &histogram).unwrap();
        }
        assert!(log.contains("Tag=response,0.000,1.000,40."), "{log}");
        let mut tags = Vec::new();
        for entry in IntervalLogIterator::new(log.as_bytes()) {
            match entry.expect("a line the library reads") {
                LogEntry::BaseTime(time) | LogEntry::StartTime(time) => {
                    assert_eq!(time, Duration::from_millis(1_500_000_000_250));
                }
                LogEntry::Interval(interval) => {
                    tags.push(interval.tag().expect("a tag").as_str().to_owned());
                    let encoded = interval.encoded_histogram();
                    let read: Histogram<u64> = base64_decoded(encoded);
                    assert_eq!(read.len(), 100);
                    assert!((read.max() as f64 / 4e7 - 1.0).abs() < 0.001);
                }
            }
        }
        assert_eq!(tags, ["response", "service", "response"]);
    }

    fn base64_decoded(text: &str) -> Histogram<u64> {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
        for digit in text.bytes().filter(|&byte| byte != b'=') {
            let value = DIGITS.iter().position(|&d| d == digit).expect("base 64");
            bits = bits << 6 | value as u32;
            held += 6;
            if held >= 8 {
                held -= 8;
                bytes.push((bits >> held) as u8);
            }
        }
        Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .expect("a histogram")
    }

    #[test]
    fn a_tag_that_would_break_the_line_is_refused() {
        let empty = LatencyHistogram::new();
        let error = line("a,b", Duration::ZERO, Duration::ZERO, &empty).unwrap_err();
        assert!(error.to_string().contains("'a,b'"), "{error}");
    }
}
