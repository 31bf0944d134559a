//! Reads what test runners print and adds up what passed, failed and was skipped.
//!
//! A test that lacks something it needs prints `skipped: <need>: <why>` and returns; its runner
//! takes that for a pass. Here it is a skip, and no pass as well where the test's name is known:
//! what is printed past the capture (`programs` reads it) has none. Invariant: pure, a line at a
//! time.

use std::collections::BTreeSet;

/// The sum over every runner so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    /// What failed, by name; its length is the count.
    pub(crate) failures: Vec<String>,
    /// What was skipped: the reason, with the test's name where it is known.
    pub(crate) skips: Vec<Skip>,
}

/// Something that did not run, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skip {
    pub(crate) test: Option<String>,
    pub(crate) reason: String,
}

impl Skip {
    /// What was missing: the reason up to its first colon.
    fn need(&self) -> &str {
        self.reason.split(':').next().unwrap_or_default().trim()
    }
}

impl Tally {
    /// Turns the skips for want of a required need into failures.
    pub(crate) fn require(&mut self, needs: &str) {
        let required: BTreeSet<&str> = needs
            .split(',')
            .map(str::trim)
            .filter(|need| !need.is_empty())
            .collect();
        let (failed, skipped) = self
            .skips
            .drain(..)
            .partition::<Vec<_>, _>(|skip| required.contains(skip.need()));
        self.skips = skipped;
        self.failures.extend(failed.into_iter().map(|skip| {
            let test = skip.test.as_deref().unwrap_or("a test");
            format!("{test} (required, but skipped: {})", skip.reason)
        }));
    }

    /// Adds what was counted elsewhere.
    pub(crate) fn add(&mut self, more: Self) {
        self.passed += more.passed;
        self.failures.extend(more.failures);
        self.skips.extend(more.skips);
    }

    /// The closing line.
    pub(crate) fn line(&self) -> String {
        let (failed, skipped) = (self.failures.len(), self.skips.len());
        format!("{} passed, {failed} failed, {skipped} skipped", self.passed)
    }
}

/// What libtest prints (`cargo test -- --show-output`), read a line at a time.
#[derive(Debug, Default)]
pub(crate) struct CargoTest {
    section: Section,
    /// The test whose output is being shown.
    test: Option<String>,
    /// Tests that passed by the runner's word and said that they were skipped.
    skipped_here: BTreeSet<String>,
    /// A runner began and has not printed its result.
    open: bool,
    failed_here: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Section {
    #[default]
    Results,
    Successes,
    Failures,
}

impl CargoTest {
    /// Takes a line; tells whether a person wants to see it.
    pub(crate) fn line(&mut self, line: &str, tally: &mut Tally) -> bool {
        let text = line.trim();
        if is_start(text) {
            self.end_of_runner(tally);
            self.open = true;
            return true;
        }
        if let Some(result) = text.strip_prefix("test result: ") {
            self.result(result, tally);
            return true;
        }
        match text {
            "successes:" => self.section = Section::Successes,
            "failures:" => self.section = Section::Failures,
            _ => {}
        }
        if let Some(name) = text
            .strip_prefix("---- ")
            .and_then(|t| t.strip_suffix(" stdout ----"))
        {
            self.test = Some(name.to_owned());
        }
        if let Some(reason) = text.strip_prefix("skipped: ") {
            self.skip(reason, tally);
        }
        if self.section == Section::Results
            && let Some(name) = failed_name(text)
        {
            tally.failures.push(name.to_owned());
            self.failed_here += 1;
        }
        self.section != Section::Successes
    }

    /// The output has ended: a runner without a result was ended by a signal or by itself.
    pub(crate) fn end(&mut self, tally: &mut Tally) {
        self.end_of_runner(tally);
    }

    fn end_of_runner(&mut self, tally: &mut Tally) {
        if self.open {
            tally
                .failures
                .push("a test binary that ended without a result".to_owned());
        }
        *self = Self::default();
    }

    fn skip(&mut self, reason: &str, tally: &mut Tally) {
        // A test that failed counts once, as that.
        if self.section == Section::Failures {
            return;
        }
        if let Some(test) = &self.test {
            self.skipped_here.insert(test.clone());
        }
        let skip = Skip {
            test: self.test.clone(),
            reason: reason.trim().to_owned(),
        };
        if !tally.skips.contains(&skip) || skip.test.is_none() {
            tally.skips.push(skip);
        }
    }

    /// `ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s`
    fn result(&mut self, result: &str, tally: &mut Tally) {
        let count = |what: &str| {
            let words: Vec<&str> = result.split_whitespace().collect();
            let pair = words
                .windows(2)
                .find(|pair| pair[1].trim_end_matches(';') == what);
            pair.and_then(|pair| pair[0].parse::<usize>().ok())
                .unwrap_or(0)
        };
        tally.passed += count("passed").saturating_sub(self.skipped_here.len());
        for _ in 0..count("ignored") {
            tally.skips.push(Skip {
                test: None,
                reason: "ignored: marked #[ignore]".to_owned(),
            });
        }
        // Names are read off the lines above; the count is what is certain.
        for _ in self.failed_here..count("failed") {
            tally
                .failures
                .push("a test whose name was not read".to_owned());
        }
        *self = Self::default();
    }
}

/// `running 3 tests`
fn is_start(text: &str) -> bool {
    let count = text
        .strip_prefix("running ")
        .and_then(|rest| rest.split_once(" test"));
    count.is_some_and(|(count, _)| count.parse::<usize>().is_ok())
}

/// The name in `test a::b ... FAILED`.
fn failed_name(text: &str) -> Option<&str> {
    let (name, outcome) = text.strip_prefix("test ")?.split_once(" ... ")?;
    outcome.ends_with("FAILED").then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(output: &str) -> (Tally, Vec<&str>) {
        let mut tally = Tally::default();
        let mut reader = CargoTest::default();
        let shown = output
            .lines()
            .filter(|line| reader.line(line, &mut tally))
            .collect();
        reader.end(&mut tally);
        (tally, shown)
    }

    const PASSED: &str = "\nrunning 3 tests\ntest a ... ok\ntest b ... ok\n\
        test c ... ignored\n\nsuccesses:\n\n---- a stdout ----\nnoise\n\n---- b stdout ----\n\
        skipped: mariadb: not installed\nskipped: mysql: not fetched\n\n\n\
        successes:\n    a\n    b\n\n\
        test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; \
        finished in 0.00s\n";

    #[test]
    fn a_skipped_test_is_not_a_passed_one() {
        let (tally, shown) = read(PASSED);
        assert_eq!(tally.line(), "1 passed, 0 failed, 3 skipped");
        assert_eq!(tally.skips[0].test.as_deref(), Some("b"));
        assert_eq!(tally.skips[0].reason, "mariadb: not installed");
        assert!(!shown.contains(&"noise"), "{shown:?}");
    }

    #[test]
    fn a_required_need_turns_its_skips_into_failures() {
        let (mut tally, _) = read(PASSED);
        tally.require("bpf, mariadb");
        assert_eq!(tally.line(), "1 passed, 1 failed, 2 skipped");
        assert_eq!(
            tally.failures,
            ["b (required, but skipped: mariadb: not installed)"]
        );
    }

    #[test]
    fn failures_are_counted_once_and_named() {
        let output = "running 2 tests\ntest it::one ... FAILED\ntest two ... ok\n\nfailures:\n\n\
            ---- it::one stdout ----\nskipped: mysql: half of it\npanicked\n\n\n\
            failures:\n    it::one\n\n\
            test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; \
            finished in 1s\n";
        let (tally, shown) = read(output);
        assert_eq!(tally.line(), "1 passed, 1 failed, 0 skipped");
        assert_eq!(tally.failures, ["it::one"]);
        assert!(shown.contains(&"panicked"));
    }

    #[test]
    fn a_binary_that_died_is_a_failure() {
        let (tally, _) = read(
            "running 2 tests\ntest a ... ok\nrunning 0 tests\n\
            test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
        );
        assert_eq!(tally.line(), "0 passed, 1 failed, 0 skipped");
        let (tally, _) = read("running 1 test\n");
        assert_eq!(tally.failures.len(), 1);
    }

    #[test]
    fn a_runner_of_its_own_may_skip_too() {
        let (tally, _) = read("skipped: bpf: not root\n");
        assert_eq!(tally.line(), "0 passed, 0 failed, 1 skipped");
    }
}
