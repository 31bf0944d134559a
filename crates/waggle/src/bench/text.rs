//! A result for people: about 100 columns, latencies in milliseconds.

use std::fmt::Write;

use waggle_report::quantity;
use waggle_report::table::{Table, WIDTH};

use super::checks::short;
use super::interval::{Percentiles, milliseconds};
use super::result::{Backlog, BenchResult};

impl BenchResult {
    /// The report, with a line break at the end.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        self.write_text(&mut text)
            .expect("writing to a String does not fail");
        text
    }

    fn write_text(&self, out: &mut String) -> std::fmt::Result {
        let (flavour, version) = (&self.server.flavour, &self.server.version);
        writeln!(out, "{} on {flavour} {version}", self.workload)?;
        writeln!(
            out,
            "  {} threads, {:.2} s measured after {} s of warm-up, seed {}",
            self.threads,
            self.duration_s,
            short(self.warmup_s),
            self.seed
        )?;
        if let Some(search) = &self.rate_search {
            writeln!(out, "\n{}", search.text())?;
        }
        writeln!(out)?;
        self.counts(out)?;
        writeln!(out)?;
        indented(out, &self.latencies().render(WIDTH))?;
        let tables = [self.operations_table(), self.statements_table()];
        for table in tables.into_iter().flatten() {
            writeln!(out)?;
            indented(out, &table.render(WIDTH))?;
        }
        self.counters_and_checks(out)?;
        writeln!(out)?;
        for line in self.steady.lines() {
            writeln!(out, "  {line}")?;
        }
        self.remarks(out)
    }

    fn counts(&self, out: &mut String) -> std::fmt::Result {
        let mut rate = |name: &str, count: u64| -> std::fmt::Result {
            let per_second = count as f64 / self.duration_s.max(1e-9);
            let count = quantity::count(count);
            writeln!(out, "  {name:<16}{count:>19}{per_second:>14.1} /s")
        };
        if let Some(backlog) = &self.backlog {
            rate("offered", backlog.offered)?;
            rate("dropped", backlog.dropped)?;
        }
        rate("transactions", self.transactions)?;
        rate("queries", self.queries)?;
        rate("  reads", self.reads)?;
        rate("  writes", self.writes)?;
        rate("  other", self.other)?;
        rate("errors", self.errors)?;
        for (errno, error) in &self.errors_by_code {
            rate(&format!("  error {errno}"), error.count)?;
        }
        for (errno, error) in &self.errors_by_code {
            let first = one_line(&error.example);
            if !first.is_empty() {
                writeln!(out, "  first error {errno}: {first}")?;
            }
        }
        if self.downtime_s > 0.0 {
            let each = self.downtime_s / f64::from(self.threads.max(1));
            writeln!(
                out,
                "  without a connection: {:.2} s in all, {each:.2} s a thread",
                self.downtime_s
            )?;
        }
        Ok(())
    }

    /// Response time, and in an open loop what it is made of.
    fn latencies(&self) -> Table {
        let mut columns = Vec::from([("transaction", &self.response_us)]);
        if let (Some(service), Some(wait)) = (&self.service_us, &self.wait_us) {
            columns = vec![
                ("response", &self.response_us),
                ("service", service),
                ("wait", wait),
            ];
        }
        let mut table = Table::new().text("latency");
        for (title, _) in &columns {
            table = table.number(title, "ms");
        }
        let mut row = |name: String, of: &dyn Fn(&Percentiles) -> Option<f64>| {
            let cells = columns.iter().map(|(_, latency)| milliseconds(of(latency)));
            table.row(std::iter::once(name).chain(cells));
        };
        row("mean".to_owned(), &|latency| latency.mean);
        for &percentile in &self.percentiles {
            row(format!("p{percentile}"), &|latency| {
                latency.of_percentile(percentile)
            });
        }
        row("max".to_owned(), &|latency| latency.max);
        table
    }

    fn operations_table(&self) -> Option<Table> {
        let mut table = self.latency_table("operation", true);
        for (name, operation) in &self.operations {
            let rate = format!("{:.1}", operation.per_second);
            let row = [name.clone(), quantity::count(operation.count), rate];
            table.row(row.into_iter().chain(self.cells(&operation.response_us)));
        }
        (!self.operations.is_empty()).then_some(table)
    }

    fn statements_table(&self) -> Option<Table> {
        let mut table = self.latency_table("statement", false);
        for (name, latency) in &self.statements {
            let row = [one_line(name), quantity::count(latency.count)];
            table.row(row.into_iter().chain(self.cells(latency)));
        }
        (!self.statements.is_empty()).then_some(table)
    }

    fn latency_table(&self, what: &str, with_rate: bool) -> Table {
        let mut table = Table::new().flexible(what).number("count", "");
        if with_rate {
            table = table.number("rate", "/s");
        }
        table = table.number("mean", "ms");
        for percentile in &self.percentiles {
            table = table.number(&format!("p{percentile}"), "ms");
        }
        table.number("max", "ms")
    }

    fn cells(&self, latency: &Percentiles) -> Vec<String> {
        let at = self.percentiles.iter();
        let middle = at.map(|&percentile| latency.of_percentile(percentile));
        std::iter::once(latency.mean)
            .chain(middle)
            .chain([latency.max])
            .map(milliseconds)
            .collect()
    }

    fn counters_and_checks(&self, out: &mut String) -> std::fmt::Result {
        if !self.user_counters.is_empty() {
            let mut table = Table::new()
                .text("counter")
                .number("sum", "")
                .number("rate", "/s");
            for (name, &sum) in &self.user_counters {
                let rate = format!("{:.1}", sum / self.duration_s.max(1e-9));
                table.row([name.clone(), short(sum), rate]);
            }
            writeln!(out)?;
            indented(out, &table.render(WIDTH))?;
        }
        if self.checks.0.is_empty() {
            return Ok(());
        }
        let mut table = Table::new()
            .flexible("check")
            .number("value", "")
            .text("unit")
            .text("must be")
            .text("")
            .flexible("note");
        for check in &self.checks.0 {
            table.row([
                check.name.clone(),
                check.value(),
                check.unit.clone().unwrap_or_default(),
                check.range(),
                check.verdict().to_owned(),
                check.note.clone().unwrap_or_default(),
            ]);
        }
        writeln!(out)?;
        indented(out, &table.render(WIDTH))
    }

    fn remarks(&self, out: &mut String) -> std::fmt::Result {
        match (&self.backlog, &self.lag_us) {
            (Some(backlog), Some(lag)) => self.open_loop(out, backlog, lag)?,
            _ => writeln!(
                out,
                "  closed loop: the next transaction waits for the last one, so these latencies \
                 hide what\n  a stall would have done to requests that were never sent \
                 (coordinated omission)"
            )?,
        }
        writeln!(
            out,
            "  client CPU {:.2} s, {:.2} us a query",
            self.client_cpu_s, self.client_cpu_us_per_query
        )?;
        if let Some(questions) = self.server.questions {
            let questions = quantity::count(questions);
            writeln!(
                out,
                "  the server counted {questions} statements from all its clients"
            )?;
        }
        if let Some(failure) = &self.failure {
            writeln!(out, "\n  failed: {failure}")?;
        }
        if let Some(run) = &self.run {
            writeln!(out, "\nrecorded in {run}")?;
        }
        Ok(())
    }

    fn open_loop(
        &self,
        out: &mut String,
        backlog: &Backlog,
        lag: &Percentiles,
    ) -> std::fmt::Result {
        let waiting = quantity::count(backlog.waiting_at_end);
        write!(
            out,
            "  open loop: response counts from when a transaction was due; at most {} waited at \
             a time,\n  {waiting} at the end",
            quantity::count(backlog.waiting_max)
        )?;
        if backlog.waiting_at_end > 0 {
            write!(
                out,
                " (the oldest for {} ms), which are in no latency above",
                milliseconds(Some(backlog.oldest_us))
            )?;
        }
        match backlog.drain_s {
            Some(s) => writeln!(out, "; the end was put off by {s:.2} s to run them down")?,
            None => writeln!(out)?,
        }
        writeln!(
            out,
            "  the generator's own lag: p99 {} ms, max {} ms",
            milliseconds(self.lag_p99),
            milliseconds(lag.max)
        )?;
        if self.generator_was_late {
            writeln!(
                out,
                "  WARNING: the generator itself was late, so the server is not all that was \
                 measured: take more\n  CPU for waggle, or fewer threads"
            )?;
        }
        Ok(())
    }
}

/// Two spaces before each line.
fn indented(out: &mut String, block: &str) -> std::fmt::Result {
    block.lines().try_for_each(|line| writeln!(out, "  {line}"))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
