//! Which servers the tests can have; a missing one is skipped aloud or, if required, a failure.

use std::io::Write;

use waggle_server::Flavour;
use waggle_server::install::installed_servers;

/// The flavours that are installed. `WAGGLE_REQUIRE=mariadb,mysql` turns skips into failures.
pub(crate) fn flavours() -> Vec<Flavour> {
    let installed = installed_servers();
    let required = std::env::var("WAGGLE_REQUIRE").unwrap_or_default();
    [Flavour::MariaDb, Flavour::MySql]
        .into_iter()
        .filter(|&flavour| {
            let found = installed.iter().any(|server| server.flavour == flavour);
            if !found {
                let skip = format!("skipped: no {flavour} server is installed");
                assert!(
                    !required.split(',').any(|need| need == flavour.name()),
                    "{skip}"
                );
                // Past the capture of the test harness: a skip must be seen.
                let _ = writeln!(std::io::stderr(), "{skip}");
            }
            found
        })
        .collect()
}
