//! Which servers the tests can have; a missing one is skipped aloud or, if required, a failure.

use waggle_need::need;
use waggle_server::Flavour;
use waggle_server::install::installed_servers;

/// The flavours that are installed. `WAGGLE_REQUIRE=mariadb,mysql` turns skips into failures.
pub(crate) fn flavours() -> Vec<Flavour> {
    let installed = installed_servers();
    [Flavour::MariaDb, Flavour::MySql]
        .into_iter()
        .filter(|&flavour| {
            let found = installed.iter().any(|server| server.flavour == flavour);
            need(flavour.name(), found, "no such server is installed")
        })
        .collect()
}
