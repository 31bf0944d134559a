//! Finding servers that are installed.

use waggle_server::Flavour;
use waggle_server::install::installed_servers;

use crate::needs::flavours;

#[test]
fn installed_servers_have_a_version_and_a_build() {
    let installed = installed_servers();
    for flavour in flavours() {
        let server = installed
            .iter()
            .find(|server| server.flavour == flavour)
            .unwrap();
        println!("{server:?}");
        let version = server.version.as_deref().unwrap();
        assert_eq!(version.contains("MariaDB"), flavour == Flavour::MariaDb);
        assert!(server.build_id.as_ref().is_some_and(|id| id.len() >= 32));
    }
}
