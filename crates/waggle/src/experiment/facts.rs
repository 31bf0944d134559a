//! Which server an experiment was on: what a report says of it.
//!
//! Neighbours: `lab` and `tune` start the server and name the variables that its figures are judged
//! by. Invariant: a variable that the server does not have is not told.

use waggle_report::run::ServerFacts;
use waggle_server::{Flavour, process, status};
use waggle_wire::{Connection, Error};

/// The server of the process `pid`, with those of its variables that are in `names`.
///
/// # Errors
/// It does not answer.
pub(crate) fn of_server(
    admin: &mut Connection,
    flavour: Flavour,
    pid: u32,
    names: &[&str],
) -> Result<ServerFacts, Error> {
    let mut variables = status::variables(admin)?;
    let version = variables.get("version").cloned().unwrap_or_default();
    variables.retain(|name, _| names.contains(&name.as_str()));
    let process = process::from_pid(pid).ok();
    Ok(ServerFacts {
        flavour: flavour.to_string(),
        version,
        build_id: process.and_then(|process| process.build_id),
        variables,
    })
}
