//! Throw-away servers, and finding servers, against real MariaDB and MySQL.

mod binlog;
mod bulk;
mod discovery;
mod foreign_user;
mod load_local;
mod login;
mod needs;
mod parent_killed;
mod sandbox;
mod servers;
mod topology;
mod wire_results;
