//! The statement that makes a table at the target, or the reason why it cannot be made there.
//!
//! Between servers of one family it is the source's own `SHOW CREATE TABLE`. From one family to
//! the other its pieces are translated word by word; what has no counterpart is a refusal, and
//! what can be left out without changing a row is a [`Translated::notes`]. Invariant: nothing that
//! decides which rows fit, or how they compare, is left out in silence.

use waggle_server::Flavour;

use super::Description;
use super::sql::{Definition, Piece, Scan, Token, Unreadable, first_name};
use crate::table::Kind;

/// Why a table cannot be made at the target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The source's description cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// Something the other family does not have.
    #[error("{table}: {what} does not exist in {family}; {remedy}")]
    NoCounterpart {
        /// The table.
        table: String,
        /// The column, key or option.
        what: String,
        /// The target's family.
        family: Flavour,
        /// What to do about it.
        remedy: &'static str,
    },
    /// It holds no rows of its own.
    #[error("{table} is a {kind}, not a table of rows; name tables only")]
    NoTable {
        /// Its name.
        table: String,
        /// `VIEW` or `SEQUENCE`.
        kind: String,
    },
    /// Its past would not come along.
    #[error(
        "{table} is system-versioned: copying writes its present rows only and would give them a \
         new past; drop the versioning at the source, or copy the table with the server's own tools"
    )]
    Versioned {
        /// Its name.
        table: String,
    },
}

/// A definition for the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Translated {
    /// Its pieces.
    pub definition: Definition,
    /// What was changed or left out, for the user's eyes.
    pub notes: Vec<String>,
}

const MAKE_IT_YOURSELF: &str = "make the table at the target yourself: rows are copied into a \
     table that is there if every column fits";

/// Collations of MySQL that MariaDB 10.10 and newer has a close relative of. The same text, a
/// newer table of weights.
const RELATIVES: [(&str, &str); 4] = [
    ("utf8mb4_0900_ai_ci", "utf8mb4_uca1400_nopad_ai_ci"),
    ("utf8mb4_0900_as_ci", "utf8mb4_uca1400_nopad_as_ci"),
    ("utf8mb4_0900_as_cs", "utf8mb4_uca1400_nopad_as_cs"),
    ("utf8mb4_0900_bin", "utf8mb4_nopad_bin"),
];

/// The definition of `table` for a target of a family.
///
/// # Errors
/// [`CreateError`] with a reason and what to do.
pub fn translate(table: &Description, target: Flavour) -> Result<Translated, CreateError> {
    let name = table.name.to_string();
    match table.table_type.as_str() {
        "BASE TABLE" => {}
        "SYSTEM VERSIONED" => return Err(CreateError::Versioned { table: name }),
        kind => {
            let kind = kind.to_lowercase();
            return Err(CreateError::NoTable { table: name, kind });
        }
    }
    let definition = Definition::parse(&table.create)?;
    if table.flavour == target {
        return Ok(Translated {
            definition,
            notes: Vec::new(),
        });
    }
    check_types(table, target)?;
    let mut notes = Vec::new();
    let mut pieces = Vec::new();
    for piece in &definition.pieces {
        pieces.push(translate_piece(table, piece, target, &mut notes)?);
    }
    Ok(Translated {
        definition: Definition {
            head: definition.head.clone(),
            pieces,
            tail: translate_tail(table, &definition.tail, target, &mut notes)?,
        },
        notes,
    })
}

/// The target's closest collation for one that only the other family has.
pub fn relative(collation: &str, target: Flavour) -> Option<&'static str> {
    let found = RELATIVES.iter().find(|(mysql, mariadb)| match target {
        Flavour::MariaDb => *mysql == collation,
        Flavour::MySql => *mariadb == collation,
    });
    found.map(|(mysql, mariadb)| match target {
        Flavour::MariaDb => *mariadb,
        Flavour::MySql => *mysql,
    })
}

fn no_counterpart(table: &Description, what: String, family: Flavour) -> CreateError {
    CreateError::NoCounterpart {
        table: table.name.to_string(),
        what,
        family,
        remedy: MAKE_IT_YOURSELF,
    }
}

fn check_types(table: &Description, target: Flavour) -> Result<(), CreateError> {
    let foreign = |kind: Kind| match target {
        Flavour::MySql => kind == Kind::Address,
        Flavour::MariaDb => kind == Kind::Vector,
    };
    match table.columns.iter().find(|column| foreign(column.kind)) {
        Some(column) => {
            let what = format!("column {} of type {}", column.name, column.column_type);
            Err(no_counterpart(table, what, target))
        }
        None => Ok(()),
    }
}

fn translate_piece(
    table: &Description,
    piece: &str,
    target: Flavour,
    notes: &mut Vec<String>,
) -> Result<String, CreateError> {
    let subject = first_name(piece).unwrap_or_default();
    match Piece::of(piece) {
        Piece::Column if target == Flavour::MySql => check_default(table, piece, &subject)?,
        Piece::Plain | Piece::Unique if target == Flavour::MariaDb && has_expression(piece) => {
            let what = format!("key {subject} on an expression");
            return Err(no_counterpart(table, what, target));
        }
        Piece::Vector | Piece::Other => {
            let what = format!("`{}`", piece.chars().take(60).collect::<String>());
            return Err(no_counterpart(table, what, target));
        }
        _ => {}
    }
    let mut out = String::new();
    for (token, part) in Scan::new(piece) {
        match token {
            Token::Comment => out.push_str(&comment(part, target, &subject, notes)),
            Token::Word => out.push_str(&word(table, part, target, &subject, notes)?),
            _ => out.push_str(part),
        }
    }
    Ok(out.trim_end().to_owned())
}

/// MariaDB takes any expression as a default, MySQL only one in parentheses, and they have
/// different functions; what changes no row that is copied is still not guessed.
fn check_default(table: &Description, piece: &str, column: &str) -> Result<(), CreateError> {
    let Some((_, default)) = piece.split_once(" DEFAULT ") else {
        return Ok(());
    };
    let word = default.trim_start().split([' ', ',']).next().unwrap_or("");
    let lower = word.to_lowercase();
    let is_function = word.contains('(') && !lower.starts_with("current_timestamp(");
    if is_function && !word.starts_with('\'') {
        let what = format!("the default {word} of column {column}");
        return Err(no_counterpart(table, what, Flavour::MySql));
    }
    Ok(())
}

/// Whether a key's parts hold an expression: a parenthesis directly inside the list's.
fn has_expression(piece: &str) -> bool {
    let tokens: Vec<_> = Scan::new(piece)
        .filter(|(token, _)| !matches!(token, Token::Space))
        .collect();
    tokens
        .windows(2)
        .any(|pair| matches!(pair[0].1, "(" | ",") && pair[1].1 == "(")
}

/// Comments that the other family would execute or skip.
fn comment(text: &str, target: Flavour, subject: &str, notes: &mut Vec<String>) -> String {
    let inner = text.trim_start_matches("/*").trim_end_matches("*/");
    let words = inner.trim_start_matches(['!', 'M']);
    let words = words
        .trim_start_matches(|c: char| c.is_ascii_digit())
        .trim();
    if target == Flavour::MySql {
        notes.push(format!(
            "{subject}: without {words}, which MySQL does not have"
        ));
        return String::new();
    }
    match words {
        // MariaDB skips what MySQL marks with a version of its own; this it knows by the word.
        "INVISIBLE" => "INVISIBLE".to_owned(),
        words => {
            notes.push(format!(
                "{subject}: without {words}, which MariaDB does not have"
            ));
            String::new()
        }
    }
}

fn word(
    table: &Description,
    text: &str,
    target: Flavour,
    subject: &str,
    notes: &mut Vec<String>,
) -> Result<String, CreateError> {
    if let Some(to) = relative(text, target) {
        notes.push(format!(
            "{subject}: {text} becomes {to}, which may order and equate some characters otherwise"
        ));
        return Ok(to.to_owned());
    }
    // MySQL's newer name for a type.
    if target == Flavour::MariaDb && text == "geomcollection" {
        return Ok("geometrycollection".to_owned());
    }
    let unknown = match target {
        Flavour::MariaDb => text.starts_with("utf8mb4_") && text.contains("_0900_"),
        Flavour::MySql => text.contains("uca1400") || text.contains("_nopad_"),
    };
    match unknown {
        true => Err(no_counterpart(
            table,
            format!("the collation {text}"),
            target,
        )),
        false => Ok(text.to_owned()),
    }
}

/// Options that both families have; the rest is how a server stores the table.
const OPTIONS: [&str; 7] = [
    "ENGINE=",
    "AUTO_INCREMENT=",
    "DEFAULT",
    "CHARSET=",
    "COLLATE=",
    "ROW_FORMAT=",
    "COMMENT=",
];

fn translate_tail(
    table: &Description,
    tail: &str,
    target: Flavour,
    notes: &mut Vec<String>,
) -> Result<String, CreateError> {
    let (options, partitions) = match tail.find("PARTITION BY") {
        Some(at) => {
            let options = tail[..at].trim_end();
            let options = options
                .strip_suffix("/*!50100")
                .or_else(|| options.strip_suffix("/*!50500"))
                .unwrap_or(options);
            (options, tail[at..].trim_end().trim_end_matches("*/"))
        }
        None => (tail, ""),
    };
    let mut out = Vec::new();
    for option in split_options(options) {
        if !OPTIONS.iter().any(|known| option.starts_with(known)) {
            notes.push(format!("{}: without the table option {option}", table.name));
            continue;
        }
        let mut text = String::new();
        for (token, part) in Scan::new(&option) {
            match token {
                Token::Word => {
                    text.push_str(&word(table, part, target, &table.name.name, notes)?);
                }
                _ => text.push_str(part),
            }
        }
        out.push(text);
    }
    if !partitions.is_empty() {
        out.push(partitions.trim().to_owned());
    }
    Ok(out.join(" "))
}

/// `A=1 COMMENT='x y'` at its top-level spaces.
fn split_options(text: &str) -> Vec<String> {
    let mut options = vec![String::new()];
    for (token, part) in Scan::new(text) {
        match (token, options.last_mut()) {
            (Token::Space, _) => options.push(String::new()),
            (_, Some(last)) => last.push_str(part),
            (_, None) => {}
        }
    }
    options.retain(|option| !option.is_empty());
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::TableName;

    fn table(flavour: Flavour, create: &str) -> Description {
        Description {
            name: TableName {
                schema: "d".into(),
                name: "t".into(),
            },
            flavour,
            columns: Vec::new(),
            unknown: Vec::new(),
            auto_increment: None,
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            children: Vec::new(),
            triggers: Vec::new(),
            engine: "InnoDB".into(),
            table_type: "BASE TABLE".into(),
            rows_estimate: 0,
            data_bytes: 0,
            index_bytes: 0,
            create: create.into(),
        }
    }

    #[test]
    fn mysql_becomes_mariadb() {
        let create = "CREATE TABLE `t` (\n  `a` varchar(9) COLLATE utf8mb4_0900_ai_ci NOT NULL \
                      /*!80023 INVISIBLE */,\n  PRIMARY KEY (`a`(3) DESC)\n) ENGINE=InnoDB \
                      DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci STATS_PERSISTENT=1 \
                      COMMENT='a b'\n/*!50100 PARTITION BY KEY (a)\nPARTITIONS 2 */";
        let made = translate(&table(Flavour::MySql, create), Flavour::MariaDb).unwrap();
        let text = made.definition.statement("`d`.`t`");
        assert_eq!(
            text,
            "CREATE TABLE `d`.`t` (\n  `a` varchar(9) COLLATE utf8mb4_uca1400_nopad_ai_ci NOT NULL \
             INVISIBLE,\n  PRIMARY KEY (`a`(3) DESC)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 \
             COLLATE=utf8mb4_uca1400_nopad_ai_ci COMMENT='a b' PARTITION BY KEY (a)\nPARTITIONS 2"
        );
        assert_eq!(made.notes.len(), 3, "{:?}", made.notes);
    }

    #[test]
    fn what_has_no_counterpart_is_refused() {
        let key = "CREATE TABLE `t` (\n  `a` int,\n  KEY `k` ((`a` + 1))\n) ENGINE=InnoDB";
        let error = translate(&table(Flavour::MySql, key), Flavour::MariaDb).unwrap_err();
        assert!(
            error.to_string().contains("key k on an expression"),
            "{error}"
        );
        let default = "CREATE TABLE `t` (\n  `a` uuid DEFAULT uuid()\n) ENGINE=InnoDB";
        let error = translate(&table(Flavour::MariaDb, default), Flavour::MySql).unwrap_err();
        assert!(error.to_string().contains("default uuid()"), "{error}");
        let collation =
            "CREATE TABLE `t` (\n  `a` text COLLATE utf8mb4_uca1400_swedish_ai_ci\n) X=1";
        assert!(translate(&table(Flavour::MariaDb, collation), Flavour::MySql).is_err());
    }

    #[test]
    fn mariadb_becomes_mysql() {
        let create = "CREATE TABLE `t` (\n  `a` varchar(20) /*M!100301 COMPRESSED*/,\n  \
                      `d` datetime DEFAULT current_timestamp(),\n  \
                      `e` varchar(9) DEFAULT 'f(x)'\n) \
                      ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci";
        let made = translate(&table(Flavour::MariaDb, create), Flavour::MySql).unwrap();
        let text = made.definition.statement("t");
        assert!(!text.contains("COMPRESSED"), "{text}");
        assert_eq!(made.notes.len(), 1);
    }
}
