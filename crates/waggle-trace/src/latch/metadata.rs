//! What is a metadata lock for? Its key says so.
//!
//! Invariant: any bytes are a name or none, and a name has no control characters.

use waggle_foreign::is_harmful;
use waggle_server::Flavour;

/// `table test.t1` from a key: kind of object, database, 0, name, 0.
pub(super) fn metadata_name(key: &[u8], flavour: Option<Flavour>) -> Option<String> {
    const MYSQL: [&str; 9] = [
        "global",
        "backup",
        "tablespace",
        "schema",
        "table",
        "function",
        "procedure",
        "trigger",
        "event",
    ];
    const MARIADB: [&str; 7] = [
        "backup",
        "schema",
        "table",
        "function",
        "procedure",
        "package body",
        "trigger",
    ];
    let (kind, rest) = key.split_first()?;
    let kinds: &[&str] = match flavour {
        Some(Flavour::MariaDb) => &MARIADB,
        _ => &MYSQL,
    };
    let kind = match kinds.get(usize::from(*kind)) {
        Some(kind) => (*kind).to_owned(),
        None => format!("object of kind {kind}"),
    };
    let mut parts = rest.split(|b| *b == 0).map(String::from_utf8_lossy);
    let (schema, name) = (parts.next()?, parts.next().unwrap_or_default());
    let text = match (schema.is_empty(), name.is_empty()) {
        (true, true) => kind,
        (false, true) => format!("{kind} {schema}"),
        (true, false) => format!("{kind} {name}"),
        (false, false) => format!("{kind} {schema}.{name}"),
    };
    Some(
        text.chars()
            .map(|c| if is_harmful(c) { '?' } else { c })
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metadata_key_is_read() {
        let name = |key: &[u8], flavour| metadata_name(key, flavour);
        assert_eq!(name(b"\x04d\0t\0", None).as_deref(), Some("table d.t"));
        let mariadb = name(b"\x02d\0t\0", Some(Flavour::MariaDb));
        assert_eq!(mariadb.as_deref(), Some("table d.t"));
        assert_eq!(name(b"\0\0\0", None).as_deref(), Some("global"));
        assert_eq!(
            name(b"\x63a\0\0", None).as_deref(),
            Some("object of kind 99 a")
        );
        assert_eq!(
            name(b"\x04\x1b[2J\0t\0", None).as_deref(),
            Some("table ?[2J.t")
        );
        assert_eq!(name(b"", None), None);
    }

    #[test]
    fn any_bytes_are_a_key_or_none() {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        for _ in 0..5_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let key: Vec<u8> = state.to_ne_bytes().repeat(3);
            let key = &key[..usize::try_from(state >> 40).unwrap() % key.len()];
            if let Some(name) = metadata_name(key, None) {
                assert!(!name.chars().any(char::is_control));
            }
        }
    }
}
