//! What is polled rather than probed, against real MySQL and MariaDB: the samplers,
//! PERFORMANCE_SCHEMA, the slow log.

mod bed;
mod perfschema;
mod samplers;
mod slowlog;
