//! Which disk a file is on, as the kernel's throttle names it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// `major:minor` of the whole disk that holds `path`.
pub(super) fn of(path: &Path) -> Result<String, String> {
    let facts = fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (major, minor) = (libc::major(facts.dev()), libc::minor(facts.dev()));
    let number = format!("{major}:{minor}");
    let device = PathBuf::from("/sys/dev/block").join(&number);
    if !device.exists() {
        return Err(format!(
            "{} is on no disk of its own (device {number}): a file system in memory, of the \
             network, or one over several disks",
            path.display()
        ));
    }
    if !device.join("partition").exists() {
        return Ok(number);
    }
    // A partition lies in the directory of its disk; only whole disks can be throttled.
    let disk = fs::canonicalize(&device)
        .ok()
        .and_then(|partition| fs::read_to_string(partition.parent()?.join("dev")).ok());
    disk.map(|number| number.trim().to_owned())
        .ok_or_else(|| format!("the disk of partition {number} is not known"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_in_memory_is_on_no_disk() {
        let error = of(Path::new("/proc")).unwrap_err();
        assert!(error.contains("on no disk of its own"), "{error}");
        assert!(of(Path::new("/not/there")).is_err());
    }
}
