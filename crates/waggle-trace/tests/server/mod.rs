//! A throw-away server to trace.

use waggle_need::{can_probe, had};
use waggle_server::install::installed_servers;
use waggle_server::sandbox::{Sandbox, SandboxSpec};

/// The server; `None`, aloud, where there is none or it may not be traced.
pub(crate) fn server(spec: &SandboxSpec) -> Option<Sandbox> {
    can_probe().then_some(())?;
    let mut installed = installed_servers().into_iter();
    let found = installed.find(|server| server.flavour == spec.flavour);
    had(
        spec.flavour.name(),
        found.ok_or("no such server is installed"),
    )?;
    Some(Sandbox::start(spec).expect("a throw-away server"))
}
