//! Text tables for the terminal: aligned, numbers to the right, one line a row.
//!
//! Neighbours: every verb that prints a table. Invariant: a rendered line is never wider than
//! asked for when the table has a flexible column, and cells cannot smuggle control characters
//! (statement text is foreign) to the terminal.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
use waggle_foreign::is_harmful;

/// Columns of the terminal that tables are made for when nothing better is known.
pub const WIDTH: usize = 100;

const GAP: &str = "  ";
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

#[derive(Debug, Clone)]
struct Column {
    title: String,
    unit: String,
    align: Align,
    flexible: bool,
}

/// A table: columns first, then rows.
#[derive(Debug, Clone, Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    bold: bool,
}

impl Table {
    /// A table without columns.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a column of words, aligned to the left.
    #[must_use]
    pub fn text(self, title: &str) -> Self {
        self.column(title, "", Align::Left, false)
    }

    /// Adds a column of long words that is shortened (`…`) when the table would be too wide.
    #[must_use]
    pub fn flexible(self, title: &str) -> Self {
        self.column(title, "", Align::Left, true)
    }

    /// Adds a column of numbers, aligned to the right, with its unit (or nothing) below the title.
    #[must_use]
    pub fn number(self, title: &str, unit: &str) -> Self {
        self.column(title, unit, Align::Right, false)
    }

    /// Prints the heading in bold (ANSI); for terminals, never for pipes.
    #[must_use]
    pub fn bold(mut self, bold: bool) -> Self {
        self.bold = bold;
        self
    }

    fn column(mut self, title: &str, unit: &str, align: Align, flexible: bool) -> Self {
        let (title, unit) = (clean(title), clean(unit));
        self.columns.push(Column {
            title,
            unit,
            align,
            flexible,
        });
        self
    }

    /// Adds a row. Missing cells are empty, cells beyond the last column are dropped.
    pub fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let mut row: Vec<String> = cells.into_iter().map(|cell| clean(cell.as_ref())).collect();
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
    }

    /// The table as lines that end in a line feed, shortened to `width` columns where a flexible
    /// column allows. The header is always there, also without rows.
    pub fn render(&self, width: usize) -> String {
        let widths = self.widths(width);
        let mut text = String::new();
        let titles: Vec<&str> = self
            .columns
            .iter()
            .map(|column| column.title.as_str())
            .collect();
        self.heading(&mut text, &titles, &widths);
        if self.columns.iter().any(|column| !column.unit.is_empty()) {
            let units: Vec<&str> = self
                .columns
                .iter()
                .map(|column| column.unit.as_str())
                .collect();
            self.heading(&mut text, &units, &widths);
        }
        for row in &self.rows {
            let cells: Vec<&str> = row.iter().map(String::as_str).collect();
            text.push_str(&self.line(&cells, &widths));
            text.push('\n');
        }
        text
    }

    fn heading(&self, text: &mut String, cells: &[&str], widths: &[usize]) {
        let line = self.line(cells, widths);
        if self.bold {
            text.push_str(&format!("{BOLD}{line}{PLAIN}\n"));
        } else {
            text.push_str(&format!("{line}\n"));
        }
    }

    fn widths(&self, width: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = (0..self.columns.len())
            .map(|index| {
                let column = &self.columns[index];
                let cells = self
                    .rows
                    .iter()
                    .map(|row| row[index].width())
                    .max()
                    .unwrap_or(0);
                cells.max(column.title.width()).max(column.unit.width())
            })
            .collect();
        let gaps = GAP.len() * self.columns.len().saturating_sub(1);
        let mut excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(width);
        while excess > 0 {
            // The widest flexible column gives first, down to its title or ten columns.
            let candidate = (0..widths.len())
                .filter(|&index| self.columns[index].flexible)
                .filter(|&index| widths[index] > self.columns[index].title.width().max(10))
                .max_by_key(|&index| widths[index]);
            let Some(index) = candidate else { break };
            widths[index] -= 1;
            excess -= 1;
        }
        widths
    }

    fn line(&self, cells: &[&str], widths: &[usize]) -> String {
        let mut line = String::new();
        for (index, column) in self.columns.iter().enumerate() {
            if index > 0 {
                line.push_str(GAP);
            }
            let cell = shorten(cells[index], widths[index]);
            let padding = " ".repeat(widths[index].saturating_sub(cell.width()));
            match column.align {
                Align::Left => line.extend([cell.as_str(), padding.as_str()]),
                Align::Right => line.extend([padding.as_str(), cell.as_str()]),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// Control characters become spaces: a cell is one line and commands no terminal.
fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if is_harmful(c) { ' ' } else { c })
        .collect()
}

fn shorten(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut shortened = String::new();
    let mut used = 0;
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide + 1 > width {
            break;
        }
        used += wide;
        shortened.push(c);
    }
    shortened.push('…');
    shortened
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digests() -> Table {
        let mut table = Table::new()
            .text("digest")
            .number("count", "")
            .number("p99", "µs")
            .flexible("text");
        table.row([
            "A1B2",
            "1,234",
            "88.1",
            "select c from sbtest1 where id = ?",
        ]);
        table.row(["FF", "7", "1204.0", "update t set k = k + ? where id = ?"]);
        table
    }

    #[test]
    fn aligns_and_names_units() {
        let expected = "\
digest  count     p99  text
                   µs
A1B2    1,234    88.1  select c from sbtest1 where id = ?
FF          7  1204.0  update t set k = k + ? where id = ?
";
        assert_eq!(digests().render(WIDTH), expected);
    }

    #[test]
    fn shortens_the_flexible_column_only() {
        let text = digests().render(40);
        assert!(text.lines().all(|line| line.width() <= 40), "{text}");
        assert!(
            text.contains("A1B2    1,234    88.1  select c from sb…"),
            "{text}"
        );
    }

    #[test]
    fn a_cell_commands_no_terminal() {
        let mut table = Table::new().text("x");
        table.row(["a\x1b[31m\nb\u{202e}c"]);
        assert_eq!(table.render(WIDTH), "x\na [31m b c\n");
    }

    #[test]
    fn wide_characters_count_double() {
        let mut table = Table::new().flexible("statement").number("n", "");
        table.row(["表表表表表表表表表表", "1"]);
        let text = table.render(14);
        assert_eq!(text, "statement    n\n表表表表表…  1\n");
    }

    #[test]
    fn bold_is_for_the_heading_and_on_demand() {
        let mut table = Table::new().text("x").bold(true);
        table.row(["1"]);
        assert_eq!(table.render(WIDTH), "\x1b[1mx\x1b[0m\n1\n");
    }

    #[test]
    fn no_rows_still_has_a_heading() {
        assert_eq!(
            Table::new().text("a").number("b", "").render(WIDTH),
            "a  b\n"
        );
    }
}
