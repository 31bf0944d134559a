//! One request to a store over HTTP, and what came back.
//!
//! Neighbours: `clickhouse` and `otlp` know what an answer means. Invariants: a request ends within
//! a bounded time; at most [`ANSWER_BYTES_MAX`] of an answer are read; redirects are not followed,
//! since what is sent is for one store only.

use std::time::Duration;

/// Longer answers are cut.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// What the store said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// How long it asked to be left alone.
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The beginning of the body, for people.
    pub(crate) fn said(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        let line = text.trim().lines().next().unwrap_or_default();
        line.chars().take(300).collect()
    }
}

/// A client of one store, with connections that it keeps.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    agent: ureq::Agent,
}

impl Client {
    /// `timeout`: for a whole request with its answer.
    pub(crate) fn new(timeout: Duration) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(timeout))
            .timeout_connect(Some(timeout.min(Duration::from_secs(5))))
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(concat!("waggle/", env!("CARGO_PKG_VERSION")))
            .build();
        Self {
            agent: config.into(),
        }
    }

    /// Sends `body`; the error is for people.
    pub(crate) fn post(
        &self,
        url: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Answer, String> {
        let mut request = self.agent.post(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut response = request.send(body).map_err(|error| error.to_string())?;
        let retry_after = response
            .headers()
            .get("retry-after")
            .and_then(|value| value.to_str().ok())
            .and_then(retry_after);
        let body = response
            .body_mut()
            .with_config()
            .limit(ANSWER_BYTES_MAX)
            .read_to_vec()
            .map_err(|error| format!("the answer broke off: {error}"))?;
        Ok(Answer {
            status: response.status().as_u16(),
            retry_after,
            body,
        })
    }
}

/// Seconds, or a date of which only what is left of it from now counts.
fn retry_after(value: &str) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .ok()?;
    Some(Duration::from_secs(date_s(value)?).saturating_sub(now))
}

/// `Sun, 06 Nov 1994 08:49:37 GMT` as s since 1970.
fn date_s(text: &str) -> Option<u64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let (_, date) = text.split_once(", ")?;
    let mut parts = date.split(' ');
    let day: u64 = parts.next()?.parse().ok()?;
    let name = parts.next().filter(|name| name.len() == 3)?;
    let month = (MONTHS.find(name)? / 3) as u64 + 1;
    let year: u64 = parts.next()?.parse().ok()?;
    let mut clock = parts.next()?.splitn(3, ':').map(str::parse::<u64>);
    let mut next = || clock.next()?.ok();
    let (hour, minute, second) = (next()?, next()?, next()?);
    let is_date = (1970..=9999).contains(&year) && (1..=31).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 60 || parts.next() != Some("GMT") {
        return None;
    }
    // Days since 1970 in a calendar whose years begin in March.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    Some((days.checked_sub(719_468)?) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// `text` for the query of a URL.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_in_seconds_and_as_dates() {
        assert_eq!(retry_after(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(date_s("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(date_s("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(date_s("Tue, 29 Feb 2000 12:00:00 GMT"), Some(951_825_600));
        let past = retry_after("Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(past, Some(Duration::ZERO));
        for wrong in [
            "",
            "-1",
            "soon",
            "Sun, 06 Nov 1994",
            "x, 06 Foo 1994 08:49:37 GMT",
        ] {
            assert_eq!(retry_after(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn queries_are_encoded() {
        assert_eq!(encoded("a b&c=ä"), "a%20b%26c%3D%C3%A4");
    }
}
