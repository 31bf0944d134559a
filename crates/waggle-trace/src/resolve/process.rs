//! A process that is to be traced: its binary, where that is mapped, and what can be read of it.
//!
//! Invariant: the binary is the one that runs (`/proc/PID/exe`), also if its file was replaced, or
//! is in another root. Memory is only read.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use waggle_probes::point::{Base, Value};
use waggle_symbols::function::Program;
use waggle_symbols::{ElfError, mapped};

/// Why a process cannot be traced.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It is gone, or may not be looked at.
    #[error("looking at process {pid}: {source}")]
    Gone {
        /// Its id.
        pid: u32,
        /// What the system said.
        source: io::Error,
    },
    /// Its binary cannot be read.
    #[error(transparent)]
    Binary(#[from] ElfError),
    /// Its binary is not mapped as the file says.
    #[error("process {0} does not have its binary's code mapped")]
    NotMapped(u32),
}

/// A process.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    binary: PathBuf,
    program: Program,
    image: u64,
    memory: File,
}

impl Process {
    /// Looks at process `pid`.
    ///
    /// # Errors
    /// It is gone, may not be looked at, or its binary cannot be read.
    pub fn open(pid: u32) -> Result<Self, ProcessError> {
        let gone = |source| ProcessError::Gone { pid, source };
        let binary = PathBuf::from(format!("/proc/{pid}/exe"));
        let inode = fs::metadata(&binary).map_err(gone)?.ino();
        let program = Program::open(&binary)?;
        let code = mapped::code_of(pid).map_err(gone)?;
        let mut own = code.iter().filter(|m| m.file.1 == inode);
        let image = own.find_map(|m| program.image(m.start, m.end, m.file_offset));
        let memory = File::open(format!("/proc/{pid}/mem")).map_err(gone)?;
        Ok(Self {
            pid,
            binary,
            program,
            image: image.ok_or(ProcessError::NotMapped(pid))?,
            memory,
        })
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its binary, as this process can open it.
    pub fn binary(&self) -> &PathBuf {
        &self.binary
    }

    /// What the binary says.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Where it has its binary's address 0.
    pub fn image(&self) -> u64 {
        self.image
    }

    /// What a value is right now, if it is one of memory and not of a moment.
    ///
    /// # Errors
    /// It is of a moment, or its memory cannot be read.
    pub fn value(&self, value: &Value) -> Result<u64, String> {
        let mut sum = match value.base {
            Base::Zero => 0,
            Base::Image => self.image,
            _ => return Err("it depends on a thread at a point".into()),
        };
        for step in &value.steps {
            sum = sum.wrapping_add_signed(step.add);
            if step.load > 0 {
                let mut bytes = [0; 8];
                let wanted = &mut bytes[..usize::from(step.load.min(8))];
                self.memory
                    .read_exact_at(wanted, sum)
                    .map_err(|error| format!("reading the process at {sum:#x}: {error}"))?;
                sum = narrow(u64::from_le_bytes(bytes), step.load, step.signed);
            }
        }
        Ok(narrow(sum, value.keep, value.signed))
    }
}

/// The low bytes of a number.
fn narrow(number: u64, bytes: u8, signed: bool) -> u64 {
    let unused = match bytes {
        1 | 2 | 4 => 64 - 8 * u32::from(bytes),
        _ => return number,
    };
    let shifted = number << unused;
    if signed {
        (shifted.cast_signed() >> unused).cast_unsigned()
    } else {
        shifted >> unused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use waggle_probes::point::Step;

    static NUMBER: [u32; 2] = [0xffff_fffe, 7];

    #[test]
    fn a_process_reads_itself() {
        let own = Process::open(std::process::id()).unwrap();
        let load = |add: u64, load, signed| Value {
            base: Base::Zero,
            steps: vec![Step {
                add: add.cast_signed(),
                load,
                signed,
            }],
            ..Value::default()
        };
        let at = NUMBER.as_ptr() as u64;
        assert_eq!(own.value(&load(at, 4, false)), Ok(0xffff_fffe));
        assert_eq!(own.value(&load(at, 4, true)), Ok(u64::MAX - 1));
        assert_eq!(own.value(&load(at + 4, 1, false)), Ok(7));
        assert!(
            own.value(&load(8, 8, false))
                .unwrap_err()
                .contains("reading")
        );
        // Its own function, where the image says that it is.
        let function = own.program().function("main").unwrap();
        let code = own.value(&load(own.image() + function.address, 1, false));
        assert_eq!(code, Ok(u64::from(function.code[0])));
    }

    #[test]
    fn numbers_are_narrowed() {
        assert_eq!(narrow(0x1ff, 1, false), 0xff);
        assert_eq!(narrow(0x1ff, 1, true), u64::MAX);
        assert_eq!(narrow(0x1ff, 8, true), 0x1ff);
        assert_eq!(narrow(0x1ff, 0, false), 0x1ff);
    }
}
