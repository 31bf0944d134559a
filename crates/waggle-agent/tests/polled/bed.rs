//! Real servers for a test, and waiting for a value with a deadline.

use std::time::{Duration, Instant};

use waggle_need::need;
use waggle_server::Flavour;
use waggle_server::install::installed_servers;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::Connection;

/// The flavours that are installed; a missing one is skipped aloud, or fails the test if
/// `WAGGLE_REQUIRE` names it.
pub(crate) fn flavours() -> Vec<Flavour> {
    let installed = installed_servers();
    [Flavour::MariaDb, Flavour::MySql]
        .into_iter()
        .filter(|&flavour| {
            let is_here = installed.iter().any(|server| server.flavour == flavour);
            need(flavour.name(), is_here, "no such server is installed")
        })
        .collect()
}

/// A throw-away server with these settings.
pub(crate) fn server(flavour: Flavour, settings: &[(&str, &str)]) -> Sandbox {
    let mut spec = SandboxSpec::new(flavour);
    for (name, value) in settings {
        spec = spec.set(*name, *value);
    }
    Sandbox::start(&spec).unwrap()
}

/// A connection to it.
pub(crate) fn connect(server: &Sandbox) -> Connection {
    Connection::connect(&server.dsn()).unwrap()
}

/// Looks until there is something, at most for a minute.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: waited in vain");
        // sleep: between two looks at a value
        std::thread::sleep(Duration::from_millis(5));
    }
}
