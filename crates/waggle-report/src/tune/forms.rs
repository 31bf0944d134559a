//! A tuning run as Markdown and as CSV.

use super::text::{ABSENT, ends, figure, guard_words, place, ratio};
use super::{TuneInterval, TuneReport, TuneStage};
use crate::csv::{Lines, cell_text, number};
use crate::lab::LabServer;
use crate::markdown::{Grid, bullets, code, environment, escape, paragraph, titles};

/// The run as Markdown.
pub fn markdown(report: &TuneReport) -> String {
    let mut text = format!(
        "# {}\n\n{}\n",
        escape(&report.question),
        paragraph(&report.answer)
    );
    let load = match report.workload.rate {
        Some(rate) => format!("{rate} transactions a second"),
        None => "closed loop".to_owned(),
    };
    text.push_str(&paragraph(&format!(
        "{} with {} threads, {load}; objective {} in {}; strategy {}.",
        report.workload.name,
        report.workload.threads,
        report.objective.name,
        report.objective.unit,
        report.strategy,
    )));
    for stage in &report.stages {
        text.push_str(&format!("\n## {}\n\n", escape(&stage.name)));
        text.push_str(&paragraph(&stage.answer));
        text.push('\n');
        text.push_str(&table(stage, report));
        text.push('\n');
        text.push_str(&paragraph(&format!(
            "{} blocks; a sweep of as many rounds as were allowed takes {}. {}",
            stage.blocks, stage.blocks_of_sweep, stage.ended
        )));
    }
    if !report.notes.is_empty() || report.error.is_some() {
        text.push('\n');
        let error = report
            .error
            .iter()
            .map(|error| format!("The run ended early: {error}"));
        let all: Vec<String> = report.notes.iter().cloned().chain(error).collect();
        text.push_str(&bullets(&all));
    }
    text.push('\n');
    let server = LabServer {
        flavour: report.server.flavour.clone(),
        version: report.server.version.clone(),
        build_id: report.server.build_id.clone(),
        settings: report.server.variables.clone(),
    };
    text.push_str(&environment(
        &report.environment,
        &server,
        &[],
        &report.waggle_version,
    ));
    text.push('\n');
    text.push_str(&code(&report.command));
    text
}

fn table(stage: &TuneStage, report: &TuneReport) -> String {
    let mut heads = titles(&["configuration", "blocks", "objective", "95% interval"]);
    heads.extend(titles(&["against present (95%)", "place"]));
    heads.extend(report.guards.iter().map(|guard| guard.name.clone()));
    heads.push("why".to_owned());
    let mut grid = Grid::new(&heads);
    for config in stage.ranked() {
        let level = config.level.filter(TuneInterval::is_finite);
        let mut row = vec![
            config.label.clone(),
            config.blocks.to_string(),
            level.map_or(ABSENT.to_owned(), |level| figure(&level)),
            level.map_or(ABSENT.to_owned(), |level| ends(&level)),
            ratio(config),
            place(config).to_owned(),
        ];
        for guard in &report.guards {
            let reading = config
                .guards
                .iter()
                .find(|reading| reading.name == guard.name);
            row.push(reading.map_or(ABSENT.to_owned(), guard_words));
        }
        row.push(config.why.clone().unwrap_or_default());
        grid.row(&row);
    }
    grid.text()
}

/// Every block, a line each.
pub fn blocks_csv(report: &TuneReport) -> String {
    let guards: Vec<&str> = report
        .guards
        .iter()
        .map(|guard| guard.name.as_str())
        .collect();
    let mut head = vec![
        "stage",
        "round",
        "configuration",
        "t_s",
        "seconds",
        "objective",
        "unit",
    ];
    head.push("restarted");
    head.extend(&guards);
    let mut lines = Lines::new(&head);
    for stage in &report.stages {
        for block in &stage.samples {
            let label = stage
                .configuration(block.config)
                .map_or("", |config| &config.label);
            let mut line = vec![
                cell_text(&stage.name),
                (block.round + 1).to_string(),
                cell_text(label),
                number(block.t_s),
                number(block.seconds),
                number(block.objective),
                cell_text(&report.objective.unit),
                block.restarted.to_string(),
            ];
            line.extend(guards.iter().map(|guard| {
                let value = block.guards.get(*guard).copied();
                value.map_or(String::new(), number)
            }));
            lines.line(&line);
        }
    }
    lines.text
}

/// Every configuration with its intervals, a line each.
pub fn configurations_csv(report: &TuneReport) -> String {
    let mut lines = Lines::new(&[
        "stage",
        "rank",
        "configuration",
        "present",
        "place",
        "blocks",
        "level",
        "level_low",
        "level_high",
        "unit",
        "ratio",
        "ratio_low",
        "ratio_high",
        "recommended",
        "failure",
        "why",
    ]);
    let parts = |interval: Option<TuneInterval>| match interval {
        Some(i) => [number(i.estimate), number(i.low), number(i.high)],
        None => [const { String::new() }; 3],
    };
    for stage in &report.stages {
        for config in stage.ranked() {
            let mut line = vec![
                cell_text(&stage.name),
                config.rank.map_or(String::new(), |rank| rank.to_string()),
                cell_text(&config.label),
                config.present.to_string(),
                cell_text(&config.place),
                config.blocks.to_string(),
            ];
            line.extend(parts(config.level));
            line.push(cell_text(&report.objective.unit));
            line.extend(parts(config.ratio));
            line.push((stage.recommended == Some(config.id)).to_string());
            line.push(cell_text(config.failure.as_deref().unwrap_or_default()));
            line.push(cell_text(config.why.as_deref().unwrap_or_default()));
            lines.line(&line);
        }
    }
    lines.text
}
