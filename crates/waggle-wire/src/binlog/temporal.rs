//! Dates and times as rows and JSON values hold them.
//!
//! Invariant: zero and partial dates, year 0000 and times below zero come out as they are
//! stored; TIMESTAMP comes out in UTC.

use crate::Error;
use crate::binlog::number::digits;

/// Appends a DATE of three bytes.
pub(crate) fn put_date(packed: u32, out: &mut Vec<u8>) {
    put_ymd(packed >> 9, packed >> 5 & 15, packed & 31, out);
}

/// Appends a YEAR.
pub(crate) fn put_year(year: u8, out: &mut Vec<u8>) {
    let year = if year == 0 { 0 } else { 1900 + u64::from(year) };
    digits(out, year, 4);
}

/// Appends a date and time of `bytes` (most significant first), of which all but five are the
/// fraction.
pub(crate) fn put_datetime(bytes: &[u8], decimals: u8, out: &mut Vec<u8>) -> Result<(), Error> {
    let (value, micros) = split(bytes, 5, 1 << 39)?;
    put_packed_datetime(value.unsigned_abs(), out);
    put_fraction(micros, decimals, out);
    Ok(())
}

/// Appends a time of `bytes`, of which all but three are the fraction.
pub(crate) fn put_time(bytes: &[u8], decimals: u8, out: &mut Vec<u8>) -> Result<(), Error> {
    let (value, micros) = split(bytes, 3, 1 << 23)?;
    put_packed_time(value < 0 || micros < 0, value.unsigned_abs(), out);
    put_fraction(micros, decimals, out);
    Ok(())
}

/// Appends seconds since 1970, with a fraction after the first four of `bytes`, as a date and
/// time in UTC. 0 is the zero date.
pub(crate) fn put_timestamp(bytes: &[u8], decimals: u8, out: &mut Vec<u8>) -> Result<(), Error> {
    let (seconds, micros) = split(bytes, 4, 0)?;
    let seconds = seconds.unsigned_abs();
    if seconds == 0 && micros == 0 {
        out.extend_from_slice(b"0000-00-00 00:00:00");
    } else {
        let (year, month, day) = civil(seconds / 86_400);
        put_ymd(year, month, day, out);
        let second = (seconds % 86_400) as u32;
        out.push(b' ');
        put_hms(second / 3600, second / 60 % 60, second % 60, out);
    }
    put_fraction(micros, decimals, out);
    Ok(())
}

/// Appends a DATETIME of the form before fractions: a number with the digits of the text.
pub(crate) fn put_old_datetime(number: u64, out: &mut Vec<u8>) {
    let (date, time) = (number / 1_000_000, (number % 1_000_000) as u32);
    let year = u32::try_from(date / 10_000).unwrap_or(u32::MAX);
    put_ymd(year, (date / 100 % 100) as u32, (date % 100) as u32, out);
    out.push(b' ');
    put_hms(time / 10_000, time / 100 % 100, time % 100, out);
}

/// Appends a TIME of the form before fractions: a signed number with the digits of the text.
pub(crate) fn put_old_time(number: i32, out: &mut Vec<u8>) {
    if number < 0 {
        out.push(b'-');
    }
    let number = number.unsigned_abs();
    put_hms(number / 10_000, number / 100 % 100, number % 100, out);
}

/// Appends a date of a JSON value.
pub(crate) fn put_json_date(packed: i64, out: &mut Vec<u8>) {
    let days = (packed.unsigned_abs() >> 24) >> 17;
    put_packed_days(days, out);
}

/// Appends a date and time of a JSON value.
pub(crate) fn put_json_datetime(packed: i64, out: &mut Vec<u8>) {
    let packed = packed.unsigned_abs();
    put_packed_datetime(packed >> 24, out);
    put_fraction((packed & 0xff_ffff) as i64, 6, out);
}

/// Appends a time of a JSON value.
pub(crate) fn put_json_time(packed: i64, out: &mut Vec<u8>) {
    let is_negative = packed < 0;
    let packed = packed.unsigned_abs();
    put_packed_time(is_negative, packed >> 24, out);
    put_fraction((packed & 0xff_ffff) as i64, 6, out);
}

/// What stands before the fraction and the microseconds, both with the sign. `offset` is what
/// zero is stored as in the first `whole` bytes.
fn split(bytes: &[u8], whole: usize, offset: i64) -> Result<(i64, i64), Error> {
    let fraction = match bytes.len().checked_sub(whole) {
        Some(fraction @ 0..=3) => fraction,
        _ => return Err(Error::protocol("binary log: a time has no such length")),
    };
    let all = bytes.iter().fold(0i64, |all, b| all << 8 | i64::from(*b));
    // Of eight bytes, the offset is the sign: both wrap, and the difference is right.
    let value = all.wrapping_sub(offset << (8 * fraction));
    let (sign, magnitude) = (value.signum(), value.unsigned_abs());
    let unit = [0, 10_000, 100, 1][fraction];
    let micros = (magnitude & ((1 << (8 * fraction)) - 1)) as i64 * unit;
    Ok((sign * (magnitude >> (8 * fraction)) as i64, sign * micros))
}

fn put_packed_days(days: u64, out: &mut Vec<u8>) {
    let months = days >> 5;
    let year = u32::try_from(months / 13).unwrap_or(u32::MAX);
    put_ymd(year, (months % 13) as u32, (days & 31) as u32, out);
}

fn put_packed_datetime(packed: u64, out: &mut Vec<u8>) {
    put_packed_days(packed >> 17, out);
    out.push(b' ');
    let time = packed as u32 & 0x1_ffff;
    put_hms(time >> 12, time >> 6 & 63, time & 63, out);
}

fn put_packed_time(is_negative: bool, packed: u64, out: &mut Vec<u8>) {
    if is_negative {
        out.push(b'-');
    }
    let time = packed as u32;
    put_hms(time >> 12 & 0x3ff, time >> 6 & 63, time & 63, out);
}

fn put_ymd(year: u32, month: u32, day: u32, out: &mut Vec<u8>) {
    digits(out, year.into(), 4);
    out.push(b'-');
    digits(out, month.into(), 2);
    out.push(b'-');
    digits(out, day.into(), 2);
}

fn put_hms(hour: u32, minute: u32, second: u32, out: &mut Vec<u8>) {
    digits(out, hour.into(), 2);
    out.push(b':');
    digits(out, minute.into(), 2);
    out.push(b':');
    digits(out, second.into(), 2);
}

fn put_fraction(micros: i64, decimals: u8, out: &mut Vec<u8>) {
    if decimals == 0 {
        return;
    }
    out.push(b'.');
    let unit = 10u64.pow(6 - u32::from(decimals.min(6)));
    digits(out, micros.unsigned_abs() / unit, decimals.min(6).into());
}

/// Year, month and day of so many days after 1970-01-01.
fn civil(days: u64) -> (u32, u32, u32) {
    // Counted from the first of March of year 0, so that leap days come last; 400 years repeat.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    (year as u32, month as u32, day as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(put: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        put(&mut out);
        String::from_utf8(out).unwrap()
    }

    fn time(bytes: &[u8], decimals: u8) -> String {
        text(|out| put_time(bytes, decimals, out).unwrap())
    }

    #[test]
    fn dates_are_as_stored() {
        let date = |y: u32, m: u32, d: u32| text(|out| put_date(y << 9 | m << 5 | d, out));
        assert_eq!(date(0, 0, 0), "0000-00-00");
        assert_eq!(date(2021, 0, 1), "2021-00-01");
        assert_eq!(date(9999, 12, 31), "9999-12-31");
        assert_eq!(text(|out| put_year(0, out)), "0000");
        assert_eq!(text(|out| put_year(1, out)), "1901");
        assert_eq!(text(|out| put_year(255, out)), "2155");
    }

    #[test]
    fn times_below_zero_have_their_fraction() {
        assert_eq!(time(&[0x80, 0, 0], 0), "00:00:00");
        // -838:59:59 and 838:59:59.
        let packed = 838u32 << 12 | 59 << 6 | 59;
        let bytes = |value: u32| value.to_be_bytes()[1..].to_vec();
        assert_eq!(time(&bytes(0x80_0000 + packed), 0), "838:59:59");
        assert_eq!(time(&bytes(0x80_0000 - packed), 0), "-838:59:59");
        assert_eq!(time(&[0x7f, 0xff, 0xff, 0xff], 2), "-00:00:00.01");
        assert_eq!(
            time(&[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff], 6),
            "-00:00:00.000001"
        );
        assert_eq!(time(&[0x80, 0, 1, 0x27, 0x0f], 4), "00:00:01.9999");
        assert_eq!(time(&[0x80, 0, 1, 0x27, 0x06], 3), "00:00:01.999");
        assert!(put_time(&[0x80, 0], 0, &mut Vec::new()).is_err());
        // No server stores these.
        for byte in [0, 0x7f, 0xff] {
            let mut out = Vec::new();
            put_datetime(&[byte; 8], 6, &mut out).unwrap();
            put_timestamp(&[byte; 7], 6, &mut out).unwrap();
            put_time(&[byte; 6], 6, &mut out).unwrap();
        }
    }

    #[test]
    fn dates_with_times() {
        let datetime = |y: u64, m: u64, d: u64, time: u64, fraction: &[u8], decimals| {
            let packed = ((y * 13 + m) << 5 | d) << 17 | time;
            let mut bytes = (packed + (1 << 39)).to_be_bytes()[3..].to_vec();
            bytes.extend_from_slice(fraction);
            text(|out| put_datetime(&bytes, decimals, out).unwrap())
        };
        assert_eq!(datetime(0, 0, 0, 0, &[], 0), "0000-00-00 00:00:00");
        assert_eq!(datetime(2021, 0, 1, 1, &[90], 1), "2021-00-01 00:00:01.9");
        let last = 23 << 12 | 59 << 6 | 59;
        assert_eq!(
            datetime(9999, 12, 31, last, &[0x0f, 0x42, 0x3f], 6),
            "9999-12-31 23:59:59.999999"
        );
        let old = |number| text(|out| put_old_datetime(number, out));
        assert_eq!(old(20_260_228_010_203), "2026-02-28 01:02:03");
        assert_eq!(text(|out| put_old_time(-8_385_959, out)), "-838:59:59");
    }

    #[test]
    fn seconds_become_dates() {
        let stamp = |seconds: u32, fraction: &[u8], decimals| {
            let bytes = [&seconds.to_be_bytes()[..], fraction].concat();
            text(|out| put_timestamp(&bytes, decimals, out).unwrap())
        };
        assert_eq!(stamp(0, &[0, 0], 3), "0000-00-00 00:00:00.000");
        assert_eq!(stamp(1, &[], 0), "1970-01-01 00:00:01");
        assert_eq!(stamp(951_782_400, &[], 0), "2000-02-29 00:00:00");
        assert_eq!(stamp(2_147_483_647, &[99], 2), "2038-01-19 03:14:07.99");
        assert_eq!(stamp(u32::MAX, &[], 0), "2106-02-07 06:28:15");
    }
}
