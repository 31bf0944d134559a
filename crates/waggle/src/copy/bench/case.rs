//! What is copied: tables, and their rows in a file that LOAD DATA INFILE reads.
//!
//! Invariant: a case's rows depend on its name and their number only.

use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use clap::ValueEnum;
use serde::Serialize;

/// A shape of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Case {
    /// An integer and "foobar": the smallest rows
    Seed,
    /// Rows of sysbench, with a secondary key
    Sysbench,
    /// Blobs of 4 KiB, each hundredth of 256 KiB
    Wide,
    /// A JSON document of some 300 bytes
    Json,
    /// 200 small tables
    Many,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Case::Seed => "seed",
            Case::Sysbench => "sysbench",
            Case::Wide => "wide",
            Case::Json => "json",
            Case::Many => "many",
        })
    }
}

impl Case {
    pub(super) fn tables(self) -> u32 {
        match self {
            Case::Many => 200,
            _ => 1,
        }
    }

    /// `CREATE TABLE`, with or without the secondary keys.
    pub(super) fn create(self, table: u32, has_keys: bool) -> String {
        let key = match (self, has_keys) {
            (Case::Sysbench | Case::Many, true) => ", KEY k_1 (k)",
            _ => "",
        };
        let columns = match self {
            Case::Seed => "id INT NOT NULL, maindata VARBINARY(4096)",
            Case::Sysbench | Case::Many => {
                "id INT NOT NULL, k INT NOT NULL DEFAULT 0, c CHAR(120) NOT NULL DEFAULT '', \
                 pad CHAR(60) NOT NULL DEFAULT ''"
            }
            Case::Wide => "id INT NOT NULL, body LONGBLOB",
            Case::Json => "id INT NOT NULL, doc JSON",
        };
        format!(
            "CREATE TABLE bench.t{table} ({columns}, PRIMARY KEY (id){key}) CHARACTER SET latin1"
        )
    }

    /// The keys that [`Case::create`] left out.
    pub(super) fn add_keys(self, table: u32) -> Option<String> {
        matches!(self, Case::Sysbench | Case::Many)
            .then(|| format!("ALTER TABLE bench.t{table} ADD KEY k_1 (k)"))
    }

    /// The server's own load of the file.
    pub(super) fn load(self, table: u32, file: &str) -> String {
        let columns = match self {
            Case::Json => "(id, @doc) SET doc = CONVERT(@doc USING utf8mb4)",
            _ => "",
        };
        format!(
            "LOAD DATA INFILE '{file}' INTO TABLE bench.t{table} CHARACTER SET binary {columns}"
        )
    }

    /// A small change of a row.
    pub(super) fn update(self, table: u32, id: u64) -> String {
        let set = match self {
            Case::Seed => "maindata = 'foobaz'",
            Case::Sysbench | Case::Many => "k = k + 1",
            Case::Wide => "body = 'small'",
            Case::Json => "doc = '{}'",
        };
        format!("UPDATE bench.t{table} SET {set} WHERE id = {id}")
    }

    /// Writes the rows of one table, in the order of their ids: an equal share to each file.
    pub(super) fn write<P: AsRef<Path>>(self, paths: &[P], rows: u64) -> anyhow::Result<()> {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut line = Vec::new();
        let mut written = 0;
        for (part, path) in (1..).zip(paths) {
            let path = path.as_ref();
            let doing = || format!("writing {}", path.display());
            let file = File::create(path).with_context(doing)?;
            let mut file = BufWriter::with_capacity(1 << 20, file);
            let last = rows * part / paths.len() as u64;
            for id in written + 1..=last {
                line.clear();
                self.row(id, rows, &mut random, &mut line);
                file.write_all(&line).with_context(doing)?;
            }
            file.flush().with_context(doing)?;
            written = last;
        }
        Ok(())
    }

    fn row(self, id: u64, rows: u64, random: &mut Random, line: &mut Vec<u8>) {
        line.extend_from_slice(id.to_string().as_bytes());
        line.push(b'\t');
        match self {
            Case::Seed => line.extend_from_slice(b"foobar"),
            Case::Sysbench | Case::Many => {
                let k = random.next() % rows + 1;
                line.extend_from_slice(k.to_string().as_bytes());
                for groups in [10, 5] {
                    line.push(b'\t');
                    for group in 0..groups {
                        let dash = if group > 0 { "-" } else { "" };
                        let number = random.next() % 100_000_000_000;
                        line.extend_from_slice(format!("{dash}{number:011}").as_bytes());
                    }
                }
            }
            Case::Wide => {
                let bytes = if id.is_multiple_of(100) {
                    256 << 10
                } else {
                    4 << 10
                };
                for _ in 0..bytes / 8 {
                    for byte in random.next().to_le_bytes() {
                        if matches!(byte, b'\t' | b'\n' | b'\\') {
                            line.push(b'\\');
                        }
                        line.push(byte);
                    }
                }
            }
            Case::Json => {
                let (number, text) = (random.next() >> 12, random.next());
                let document = format!(
                    "{{\"id\": {id}, \"name\": \"{text:016x}\", \"tags\": [\"a\", \"b\", \
                     {number}], \"nested\": {{\"deep\": {{\"flag\": true, \"none\": null, \
                     \"text\": \"{}\"}}}}}}",
                    "lorem ipsum ".repeat(14)
                );
                line.extend_from_slice(document.as_bytes());
            }
        }
        line.push(b'\n');
    }
}

/// Marsaglia's xorshift: rows that do not compress, the same in every run.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_whole() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let (whole, parts) = (at("rows"), [at("0"), at("1"), at("2")]);
        Case::Wide.write(&[&whole], 200).unwrap();
        Case::Wide.write(&parts, 200).unwrap();
        let parts: Vec<Vec<u8>> = parts
            .iter()
            .map(|part| std::fs::read(part).unwrap())
            .collect();
        assert!(parts.iter().all(|part| part.len() > 66 * 4096));
        assert!(parts.concat() == std::fs::read(whole).unwrap());
    }

    #[test]
    fn a_row_is_a_line_whatever_its_bytes() {
        for case in Case::value_variants() {
            let (mut line, mut random) = (Vec::new(), Random(7));
            case.row(100, 1000, &mut random, &mut line);
            assert_eq!(line.pop(), Some(b'\n'));
            let mut escaped = false;
            for byte in line {
                assert!(escaped || byte != b'\n', "{case}");
                escaped = !escaped && byte == b'\\';
            }
        }
    }
}
