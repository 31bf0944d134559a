//! The studies that are shipped: space files that are part of the program.
//!
//! Invariant: each can be read, and has something to tune on at least one family of servers.

use super::space_file::SpaceFile;

/// Name and text of each.
const STUDIES: [(&str, &str); 4] = [
    ("buffer-pool", include_str!("studies/buffer-pool.toml")),
    (
        "log-writer-threads",
        include_str!("studies/log-writer-threads.toml"),
    ),
    (
        "redo-durability",
        include_str!("studies/redo-durability.toml"),
    ),
    (
        "replica-workers",
        include_str!("studies/replica-workers.toml"),
    ),
];

/// Names of all studies.
pub(super) fn names() -> Vec<&'static str> {
    STUDIES.iter().map(|(name, _)| *name).collect()
}

/// A study by its name.
///
/// # Errors
/// There is none of this name.
pub(super) fn study(name: &str) -> Result<SpaceFile, String> {
    let (_, text) = STUDIES
        .iter()
        .find(|(known, _)| *known == name)
        .ok_or_else(|| format!("'{name}' is no study; there are {}", names().join(", ")))?;
    let mut file = SpaceFile::parse(text)?;
    file.name.get_or_insert_with(|| name.to_owned());
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use waggle_server::Flavour;

    #[test]
    fn every_study_can_be_read_and_tunes_something() {
        for name in names() {
            let file = study(name).expect(name);
            let of = |flavour| file.stages(flavour).expect(name);
            let stages = [of(Flavour::MySql), of(Flavour::MariaDb)].concat();
            assert!(!stages.is_empty(), "{name}");
            for stage in stages {
                stage.space.configurations().expect(name);
            }
            file.settings(Flavour::MySql).expect(name);
            file.settings(Flavour::MariaDb).expect(name);
            assert!(file.question.is_some(), "{name}");
        }
        assert!(study("nothing").is_err());
    }
}
