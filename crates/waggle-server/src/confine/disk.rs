//! Which disk a file is on, and how a group's traffic with it is throttled.
//!
//! Neighbours: `group` makes the groups, the parent chooses the version. Invariant: what is said to
//! be kept was read back from the kernel.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::IoRates;

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

/// Limits the traffic of a group of version 1 with `disk`; says what the kernel made of it.
pub(super) fn throttle_v1(group: &Path, disk: &str, rates: &IoRates) -> io::Result<String> {
    let mut kept = Vec::new();
    for (file, rate) in [
        ("blkio.throttle.read_bps_device", rates.read_bytes_s),
        ("blkio.throttle.write_bps_device", rates.write_bytes_s),
        ("blkio.throttle.read_iops_device", rates.read_ops_s),
        ("blkio.throttle.write_iops_device", rates.write_ops_s),
    ] {
        let Some(rate) = rate else { continue };
        fs::write(group.join(file), format!("{disk} {rate}"))?;
        let text = fs::read_to_string(group.join(file))?;
        let name = file.trim_start_matches("blkio.throttle.");
        kept.push(format!("{name} {}", text.trim()));
    }
    Ok(kept.join(", "))
}

/// The same of version 2.
pub(super) fn throttle_v2(group: &Path, disk: &str, rates: &IoRates) -> io::Result<String> {
    let rate = |name: &str, rate: Option<u64>| rate.map(|rate| format!(" {name}={rate}"));
    let parts = [
        rate("rbps", rates.read_bytes_s),
        rate("wbps", rates.write_bytes_s),
        rate("riops", rates.read_ops_s),
        rate("wiops", rates.write_ops_s),
    ];
    let line: String = parts.into_iter().flatten().collect();
    fs::write(group.join("io.max"), format!("{disk}{line}"))?;
    let text = fs::read_to_string(group.join("io.max"))?;
    Ok(format!("io.max {}", text.trim()))
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
