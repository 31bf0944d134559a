//! Which distributed trace does a kept statement belong to?
//!
//! The `traceparent` among its comments (W3C Trace Context). Neighbour: `waggle-digest` reads the
//! comments; this only checks the value's form, which is a client's word. Invariant: what is
//! returned is lower-case hexadecimal of the right length and not all zeros.

/// The parts of a `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trace<'a> {
    /// 32 digits.
    pub(crate) trace_id: &'a str,
    /// 16 digits.
    pub(crate) span_id: &'a str,
    /// Bit 0: sampled.
    pub(crate) flags: u8,
}

/// The first valid `traceparent`.
pub(crate) fn trace_of(comments: &[(String, String)]) -> Option<Trace<'_>> {
    comments
        .iter()
        .filter(|(key, _)| key == "traceparent")
        .find_map(|(_, value)| read(value))
}

fn read(value: &str) -> Option<Trace<'_>> {
    let mut parts = value.split('-');
    let version = parts.next().filter(|v| is_id(v, 2) && *v != "ff")?;
    let trace_id = parts.next().filter(|id| is_id(id, 32) && !is_zero(id))?;
    let span_id = parts.next().filter(|id| is_id(id, 16) && !is_zero(id))?;
    let flags = parts.next().filter(|flags| is_id(flags, 2))?;
    if version == "00" && parts.next().is_some() {
        return None;
    }
    Some(Trace {
        trace_id,
        span_id,
        flags: u8::from_str_radix(flags, 16).ok()?,
    })
}

fn is_id(text: &str, length: usize) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == length && text.bytes().all(is_digit)
}

fn is_zero(id: &str) -> bool {
    id.bytes().all(|byte| byte == b'0')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "00-5bd66ef5095369c7b0d1f8f4bd33716a-c532cb4098ac3dd2-01";

    #[test]
    fn only_valid_ones_count() {
        let comments = |value: &str| {
            let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
            vec![
                pair("a", "b"),
                pair("traceparent", "x"),
                pair("traceparent", value),
            ]
        };
        let found = comments(TRACE);
        let found = trace_of(&found).expect("a trace");
        assert_eq!(found.trace_id, "5bd66ef5095369c7b0d1f8f4bd33716a");
        assert_eq!((found.span_id, found.flags), ("c532cb4098ac3dd2", 1));
        for wrong in [
            TRACE.to_uppercase(),
            format!("{TRACE}-more"),
            format!("ff{}", &TRACE[2..]),
            TRACE.replace("c532cb4098ac3dd2", "0000000000000000"),
            TRACE.replace('-', "_"),
        ] {
            assert_eq!(trace_of(&comments(&wrong)), None, "{wrong}");
        }
        assert!(trace_of(&comments(&format!("01{}-more", &TRACE[2..]))).is_some());
    }
}
