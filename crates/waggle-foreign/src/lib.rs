//! What others wrote: text that is made safe to print, and files that are read without a hang and
//! within bounds.
//!
//! waggle runs as root and looks at programs, files, servers and names of any user. Neighbours:
//! everyone who reads such a thing reads it through here: `server` the processes, `symbols` and
//! `trace` their programs, `report` run directories, `wire` what servers say.
//!
//! Invariants: opening never waits and never opens what is no ordinary file; reading is bounded
//! before memory is taken; no file is mapped, since its owner could cut it short under the mapping
//! (SIGBUS); and what is [`Printable`] moves no cursor and turns no line around.

mod bytes;
mod elf;
mod file;
mod text;

pub use bytes::FileBytes;
pub use elf::{Elf, build_id};
pub use file::{
    is_safe_to_map, open_in_root, open_own, open_regular, read_bounded, read_maps, read_proc,
    read_text,
};
pub use text::{Printable, is_harmful, printable, printable_bytes, printable_lines};
