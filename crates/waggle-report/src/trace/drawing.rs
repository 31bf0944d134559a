//! The drawing of a pipeline: who waits is the line on top, below it each stage has its place in
//! the wait, so that the bars, one after the other, fill the wait.
//!
//! Invariant: bars follow each other without a gap and end where the wait ends; a stage that took
//! time has at least a mark.

use super::pipeline::PipelineStage;

/// Columns of the longest bar: the wait.
const COLUMNS: usize = 48;

/// What is drawn of one stage.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bar<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// What is written at its end.
    pub(super) words: String,
    /// Its time, of whatever unit.
    pub(super) size: u64,
    /// It was no part of this.
    pub(super) skipped: bool,
}

/// The wait with its stages below it.
pub(super) fn draw(whole: &str, bars: &[Bar<'_>]) -> String {
    let total: u64 = bars.iter().map(|bar| bar.size).sum();
    let name_width = bars.iter().map(|bar| bar.name.chars().count()).max();
    let name_width = name_width.unwrap_or(0).max("the wait".len());
    let line = |name: &str, drawn: &str, words: &str| {
        let gap = " ".repeat(name_width - name.chars().count().min(name_width));
        let rest = " ".repeat(COLUMNS + 2 - drawn.chars().count().min(COLUMNS + 2));
        let line = format!("  {name}{gap}  {drawn}{rest}  {words}");
        format!("{}\n", line.trim_end())
    };
    let mut text = line("the wait", &format!("|{}|", "─".repeat(COLUMNS)), whole);
    let mut before = 0;
    for bar in bars {
        let from = place(before, total);
        before += bar.size;
        let until = place(before, total);
        let mark = match (bar.skipped, bar.size) {
            (true, _) => "·".to_owned(),
            (false, 0) => "╷".to_owned(),
            _ if until == from => "▏".to_owned(),
            _ => "█".repeat(until - from),
        };
        let from = from.min(COLUMNS - 1) + 1;
        text += &line(bar.name, &format!("{}{mark}", " ".repeat(from)), &bar.words);
    }
    text
}

/// The column that so much of the whole comes to.
fn place(part: u64, whole: u64) -> usize {
    if whole == 0 {
        return 0;
    }
    let columns = u128::from(part) * COLUMNS as u128 / u128::from(whole);
    usize::try_from(columns).unwrap_or(COLUMNS).min(COLUMNS)
}

/// Who carried a stage out, most of the time.
pub(super) fn carriers(stage: &PipelineStage) -> String {
    let mut roles: Vec<(&String, &u64)> = stage.by_role.iter().collect();
    roles.sort_by_key(|(name, waits)| (std::cmp::Reverse(**waits), *name));
    let names: Vec<&str> = roles
        .iter()
        .take(2)
        .map(|(name, _)| name.as_str())
        .collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, size: u64, skipped: bool) -> Bar<'_> {
        Bar {
            name,
            words: format!("{size} us"),
            size,
            skipped,
        }
    }

    #[test]
    fn bars_follow_each_other_and_fill_the_wait() {
        let bars = [
            bar("ready", 250, false),
            bar("written", 0, true),
            bar("fsynced", 500, false),
            bar("running", 1, false),
            bar("left", 249, false),
        ];
        let text = draw("1000 us", &bars);
        let expected = "  the wait  |────────────────────────────────────────────────|  1000 us\n  \
             ready      ████████████                                       250 us\n  \
             written                ·                                      0 us\n  \
             fsynced                ████████████████████████               500 us\n  \
             running                                        ▏              1 us\n  \
             left                                           ████████████   249 us\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        assert_eq!(draw("", &[]).lines().count(), 1);
        assert!(draw("0 us", &[bar("a", 0, false)]).contains('╷'));
    }
}
