//! A folder of `tests/cases` is a test: tables with edge values, copied, changed, compared.
//!
//! * `create.sql`: the tables at the source. They are copied, and must be equal.
//! * `changes.sql`: what happens at the source then; it is applied from the binary log, and the
//!   tables must be equal again.
//! * `planted.sql`: changes at the target, each after a line `-- ROW: COLUMNS`. Those and no others
//!   must be found and named; then all are repaired.
//! * `expect`: `on FLAVOUR` (to another server of it), `from FLAVOUR to FLAVOUR`, and
//!   `refused CHECK WORDS`, which must then be why nothing is copied, or `fails WORDS`, with which
//!   the copy must end, or `loses COLUMN`, which a copy of JSON as text does not get exactly and a
//!   repair does.
//!
//! Statements end with `;` and a line break.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use waggle_copy::verify::{Difference, TableReport, compare};
use waggle_copy::{Control, CopyError, Plan, Until, job, schema, session};
use waggle_server::Flavour;
use waggle_wire::Connection;

use crate::servers::{comparison, dsn, fresh, other, plan, run_all, server};

/// What `expect` says.
#[derive(Debug, Default)]
struct Expected {
    ways: Vec<(Flavour, Flavour)>,
    /// A check and words of its reason.
    refused: Option<(String, String)>,
    /// Words of the error that the copy ends with.
    fails: Option<String>,
    /// A column whose values a copy does not get exactly.
    loses: Option<String>,
}

impl Expected {
    fn read(path: &Path) -> Expected {
        let text = std::fs::read_to_string(path.join("expect")).expect("expect");
        let mut expected = Expected::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let flavour = |word: &str| word.parse::<Flavour>().expect("a flavour");
            match words[..] {
                ["on", one] => expected.ways.push((flavour(one), flavour(one))),
                ["from", one, "to", other] => expected.ways.push((flavour(one), flavour(other))),
                ["refused", check, ..] => {
                    let (_, reason) = line.split_once(check).expect("words");
                    expected.refused = Some((check.to_owned(), reason.trim().to_owned()));
                }
                ["fails", ..] => {
                    expected.fails = line.strip_prefix("fails ").map(str::to_owned);
                }
                ["loses", column] => expected.loses = Some(column.to_owned()),
                _ => panic!("{}: expect says {line:?}", path.display()),
            }
        }
        expected
    }
}

/// One case, one way.
struct Case {
    name: String,
    path: PathBuf,
    source: Connection,
    target: Connection,
    plan: Plan,
    _spool: tempfile::TempDir,
}

impl Case {
    /// `None` when a server is not here.
    fn new(path: &Path, from: Flavour, to: Flavour) -> Option<Case> {
        let (ours, theirs) = (server(from)?, other(to)?);
        let folder = path
            .file_name()
            .expect("a folder")
            .to_string_lossy()
            .into_owned();
        let schema = format!("case_{}_{to}", folder.replace('-', "_")).to_lowercase();
        let spool = tempfile::tempdir().expect("a directory");
        let job = format!("{folder}-{from}-{to}");
        let mut plan = plan(dsn(ours, &schema), dsn(theirs, &schema), &job);
        plan.spool = spool.path().join("spool");
        Some(Case {
            name: format!("{folder} from {from} to {to}"),
            path: path.to_owned(),
            source: fresh(ours, &schema),
            target: fresh(theirs, &schema),
            plan,
            _spool: spool,
        })
    }

    fn script(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.path.join(name)).ok()
    }

    fn copy(&mut self, until: Until) -> Result<(), CopyError> {
        self.plan.until = until;
        let control = Arc::new(Control::new());
        job::run(&self.plan, &control, &mut |_| {}).map(drop)
    }

    fn reports(&self, repairs: bool) -> Vec<TableReport> {
        let mut source = session::source(&self.plan.source).expect("a session");
        let tables = schema::read(&mut source, &self.plan).expect("tables");
        let mut comparison = comparison(&self.plan);
        comparison.repairs = repairs;
        compare(&comparison, &tables, &Control::new(), &|_| {}).expect("a comparison")
    }

    /// What differs, as `planted.sql` writes it.
    fn differences(&self) -> BTreeSet<String> {
        let reports = self.reports(false);
        let each = reports.iter().flat_map(|report| &report.differences);
        each.map(|difference| match difference {
            Difference::Missing { row } => format!("{row}: missing"),
            Difference::Extra { row } => format!("{row}: extra"),
            Difference::Differs { row, columns } => format!("{row}: {}", columns.join(", ")),
        })
        .collect()
    }

    fn must_be_equal(&self, when: &str) -> Result<(), String> {
        let differences = self.differences();
        match differences.is_empty() {
            true => Ok(()),
            false => Err(format!("{} {when}: {differences:?}", self.name)),
        }
    }

    fn run(&mut self, expected: &Expected) -> Result<(), String> {
        let create = self.script("create.sql").expect("create.sql");
        run_all(&mut self.source, &create);
        if let Some(words) = &expected.fails {
            return match self.copy(Until::Copied) {
                Err(error) if error.to_string().contains(words) => Ok(()),
                other => Err(format!(
                    "{}: does not fail with {words}: {other:?}",
                    self.name
                )),
            };
        }
        if let Some((check, words)) = &expected.refused {
            return match self.copy(Until::CaughtUp) {
                Err(CopyError::Refused(found))
                    if found
                        .iter()
                        .any(|one| one.check == check && one.reason.contains(words)) =>
                {
                    Ok(())
                }
                other => Err(format!("{}: not refused by {check}: {other:?}", self.name)),
            };
        }
        // What is lost is lost on demand only.
        self.plan.json_as_text = expected.loses.is_some();
        let failed = |what: &'static str, name: String| {
            move |error: CopyError| format!("{name} {what}: {error}")
        };
        self.copy(Until::Copied)
            .map_err(failed("copying", self.name.clone()))?;
        if let Some(column) = &expected.loses {
            return self.lost(column);
        }
        self.must_be_equal("after the copy")?;
        if let Some(changes) = self.script("changes.sql") {
            run_all(&mut self.source, &changes);
            if self.differences().is_empty() {
                return Err(format!("{}: changes.sql changes nothing", self.name));
            }
            self.copy(Until::CaughtUp)
                .map_err(failed("catching up", self.name.clone()))?;
            self.must_be_equal("after the changes")?;
        }
        self.plant()
    }

    /// What was lost is found, in that column only, and can be repaired.
    fn lost(&self, column: &str) -> Result<(), String> {
        let found = self.differences();
        let of_column = |row: &String| row.ends_with(&format!(": {column}"));
        if found.is_empty() || !found.iter().all(of_column) {
            return Err(format!("{}: loses {column}, found {found:?}", self.name));
        }
        self.reports(true);
        self.must_be_equal("after the repair")
    }

    fn plant(&mut self) -> Result<(), String> {
        let Some(planted) = self.script("planted.sql") else {
            return Ok(());
        };
        let mut expected: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for part in planted.split("-- ").filter(|part| !part.trim().is_empty()) {
            let (line, sql) = part.split_once('\n').expect("statements after a line");
            run_all(&mut self.target, sql);
            let (row, columns) = line.trim().rsplit_once(": ").expect("row: columns");
            let columns = columns.split(", ").map(str::to_owned);
            expected.entry(row.to_owned()).or_default().extend(columns);
        }
        let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for difference in self.differences() {
            let (row, columns) = difference.rsplit_once(": ").expect("row: columns");
            let columns = columns.split(", ").map(str::to_owned).collect();
            found.insert(row.to_owned(), columns);
        }
        if found != expected {
            return Err(format!(
                "{}: planted {expected:?}, found {found:?}",
                self.name
            ));
        }
        let repaired = self.reports(true);
        let rows: u64 = repaired.iter().map(|report| report.repaired).sum();
        if rows != expected.len() as u64 {
            return Err(format!("{}: not repaired: {repaired:?}", self.name));
        }
        self.must_be_equal("after the repair")
    }
}

/// The cases whose place in the order of names is `part` of three, so that three run at once.
fn cases(part: usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let only = std::env::var("WAGGLE_CASE").unwrap_or_default();
    let entries = std::fs::read_dir(root).expect("cases");
    let mut folders: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a folder").path())
        .collect();
    folders.sort();
    let mine = folders.iter().enumerate().filter(|(at, _)| at % 3 == part);
    let mut failures = Vec::new();
    for (_, path) in mine.filter(|(_, path)| path.to_string_lossy().contains(&only)) {
        let expected = Expected::read(path);
        for &(from, to) in &expected.ways {
            if let Some(mut case) = Case::new(path, from, to)
                && let Err(failure) = case.run(&expected)
            {
                failures.push(failure);
            }
        }
    }
    assert!(failures.is_empty(), "\n{}\n", failures.join("\n"));
}

#[test]
fn first_third_of_the_cases() {
    cases(0);
}

#[test]
fn second_third_of_the_cases() {
    cases(1);
}

#[test]
fn last_third_of_the_cases() {
    cases(2);
}
