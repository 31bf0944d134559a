//! Throw-away servers, and finding servers, against real MariaDB and MySQL.

mod needs;
mod parent_killed;
mod sandbox;
mod servers;
