//! What an account may do, out of `SHOW GRANTS`.
//!
//! Invariant: text that is not understood grants nothing.

use crate::schema::sql::{Scan, Token};

/// The grants of a session.
#[derive(Debug, Default)]
pub(super) struct Grants {
    grants: Vec<Grant>,
}

#[derive(Debug)]
struct Grant {
    /// Upper case.
    privileges: Vec<String>,
    /// `*` or a pattern.
    schema: String,
    /// `*` or a name.
    table: String,
}

impl Grants {
    pub(super) fn parse(lines: impl Iterator<Item = String>) -> Grants {
        Grants {
            grants: lines.filter_map(|line| Grant::parse(&line)).collect(),
        }
    }

    /// Whether the account has a privilege on all tables of a schema, or on the one named.
    pub(super) fn allow(&self, privilege: &str, schema: &str, table: Option<&str>) -> bool {
        self.grants.iter().any(|grant| {
            let names = |given: &String| given == privilege || given.starts_with("ALL");
            let covers = match (grant.schema.as_str(), grant.table.as_str()) {
                ("*", _) => true,
                (pattern, "*") => matches(pattern, schema),
                (name, of) => name == schema && table == Some(of),
            };
            covers && grant.privileges.iter().any(names)
        })
    }

    /// Whether the account has a privilege everywhere.
    pub(super) fn allow_all(&self, privilege: &str) -> bool {
        self.grants.iter().any(|grant| {
            let names = |given: &String| given == privilege || given.starts_with("ALL");
            grant.schema == "*" && grant.privileges.iter().any(names)
        })
    }
}

impl Grant {
    /// `GRANT SELECT, INSERT (a) ON `db`.* TO ...`; roles have no ON.
    fn parse(line: &str) -> Option<Grant> {
        let rest = line.strip_prefix("GRANT ")?;
        let (privileges, rest) = rest.split_once(" ON ")?;
        let (place, _) = rest.split_once(" TO ")?;
        let mut parts = vec![String::new()];
        for (token, part) in Scan::new(place.trim_start_matches("TABLE ")) {
            match (token, part, parts.last_mut()) {
                (Token::Plain, ".", _) => parts.push(String::new()),
                (Token::Name, name, Some(last)) => {
                    last.push_str(&name.trim_matches('`').replace("``", "`"));
                }
                (_, other, Some(last)) => last.push_str(other),
                (_, _, None) => return None,
            }
        }
        let [schema, table] = parts.try_into().ok()?;
        let plain = |privilege: &str| {
            // Of single columns only: not enough for a copy.
            (!privilege.contains('(')).then(|| privilege.trim().to_ascii_uppercase())
        };
        Some(Grant {
            privileges: privileges.split(',').filter_map(plain).collect(),
            schema,
            table,
        })
    }
}

/// `%` and `_` are patterns in a grant on a schema, unless escaped.
fn matches(pattern: &str, text: &str) -> bool {
    let mut pattern = pattern.chars();
    match pattern.next() {
        None => text.is_empty(),
        Some('%') => {
            let rest = pattern.as_str();
            let mut ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            ends.any(|at| matches(rest, &text[at..]))
        }
        Some(first) => {
            let first = match first {
                '\\' => pattern.next().unwrap_or('\\'),
                '_' => {
                    let mut text = text.chars();
                    return text.next().is_some() && matches(pattern.as_str(), text.as_str());
                }
                other => other,
            };
            let rest = text.strip_prefix(first);
            rest.is_some_and(|rest| matches(pattern.as_str(), rest))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn grants(lines: &[&str]) -> Grants {
        Grants::parse(lines.iter().map(|line| (*line).to_owned()))
    }

    #[test]
    fn grants_hold_where_they_were_given() {
        let grants = grants(&[
            "GRANT USAGE ON *.* TO `a`@`%`",
            "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `a`@`%` WITH GRANT OPTION",
            "GRANT SELECT, LOCK TABLES ON `shop\\_1`.* TO `a`@`%`",
            "GRANT ALL PRIVILEGES ON `w%`.* TO `a`@`%`",
            "GRANT INSERT, UPDATE (`x`) ON `d``b`.`t` TO `a`@`%`",
            "GRANT `role`@`%` TO `a`@`%`",
        ]);
        assert!(grants.allow_all("REPLICATION SLAVE"));
        assert!(grants.allow("SELECT", "shop_1", None));
        assert!(!grants.allow("SELECT", "shopx1", None));
        assert!(grants.allow("ALTER", "waggle_copy", None));
        assert!(grants.allow("INSERT", "d`b", Some("t")));
        assert!(!grants.allow("UPDATE", "d`b", Some("t")));
        assert!(!grants.allow("INSERT", "d`b", None));
    }

    proptest! {
        #[test]
        fn any_text_grants_without_panic(text in "(GRANT )?.{0,40}( ON )?.{0,20}( TO )?.{0,9}") {
            let grants = grants(&[&text]);
            let _ = grants.allow("SELECT", "d", Some("t"));
        }

        #[test]
        fn a_pattern_without_signs_is_a_name(name in "[a-z]{0,8}", other in "[a-z]{0,8}") {
            prop_assert_eq!(matches(&name, &other), name == other);
        }
    }
}
