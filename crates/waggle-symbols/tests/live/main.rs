//! Is each field what the server says it is? Live servers, one thread stopped at each statement's
//! end, every decoded field read there and held against what is known by other means.

mod origin;
mod stage;
mod thread;
mod waits;
mod work;
