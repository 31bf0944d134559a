//! Everything has a row in `docs/commands/sysbench-compat.md`.

use std::collections::BTreeSet;

use super::{ours, scripts};

const PAGE: &str = include_str!("../../../../../docs/commands/sysbench-compat.md");

/// The names in the first column.
fn rows() -> BTreeSet<String> {
    let cells = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    cells
        .filter_map(|cell| Some(cell.split_once('`')?.0.to_owned()))
        .collect()
}

#[test]
fn every_option_has_a_row_and_every_row_an_option() {
    let scripts = scripts();
    let mut options = BTreeSet::new();
    for dialect in ["--dialect=1.0", "--dialect=1.1"] {
        let help = ours(&[dialect, "--help"], scripts.path()).stdout;
        let lines = help.lines().filter_map(|line| line.strip_prefix("  --"));
        let names = lines.map(|line| line.split(['=', '[', ' ']).next().unwrap_or(line));
        options.extend(names.map(|name| format!("--{name}")));
    }
    let rows: BTreeSet<String> = rows()
        .into_iter()
        .filter(|row| row.starts_with("--"))
        .collect();
    assert_eq!(options, rows);
}

/// Prints every name a script can reach below `sysbench`, a line each.
const WALK: &str = "
    local function walk(prefix, value)
      for name, inner in pairs(value) do
        if type(name) == 'string' and name:sub(1, 1) ~= '_' then
          print(prefix .. name)
          if prefix == 'sysbench.' and name == 'cmdline' then walk('sysbench.cmdline.', inner) end
        end
      end
    end
    walk('sysbench.', sysbench)
";

#[test]
fn every_name_of_the_interface_has_a_row() {
    let scripts = scripts();
    std::fs::write(scripts.path().join("walk.lua"), WALK).unwrap();
    let rows = rows();
    for dialect in ["--dialect=1.0", "--dialect=1.1"] {
        let said = ours(&[dialect, "walk.lua"], scripts.path());
        let names = said
            .stdout
            .lines()
            .filter(|line| line.starts_with("sysbench."));
        let names: Vec<&str> = names.collect();
        assert!(names.contains(&"sysbench.cmdline.argv"), "{said:?}");
        for name in names {
            let group = |row: &String| {
                let stem = row.trim_end_matches('*').trim_end_matches('.');
                row.ends_with('*') && name.starts_with(stem)
            };
            let below = format!("{name}.");
            let has_row = rows.contains(name)
                || rows.iter().any(group)
                || rows.iter().any(|row| row.starts_with(&below));
            assert!(has_row, "{name} has no row");
        }
    }
}
