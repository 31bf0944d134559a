//! Whom a throw-away server runs as: a user and group id of its own, without an account.
//!
//! `rundir` gives it its files, `child` changes to it before the server is executed. Numbers come
//! from the range that systemd gives dynamic users; the lock on `/run/waggle/uids/<number>`, held
//! by the maker and by the guardian, says that one is taken. Invariant: no two live servers have
//! one number, and none has one that an account or systemd has or this user namespace lacks.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::rundir::{random_number, try_lock};

/// What systemd picks dynamic users from: no account is ever made with such a number.
pub(crate) const NUMBERS: std::ops::RangeInclusive<u32> = 61_184..=65_519;
/// Where a number is locked.
const CLAIMS: &str = "/run/waggle/uids";
/// The rights that making and leaving such a user takes: chown, kill, setgid, setuid.
const RIGHTS: u64 = 1 << 0 | 1 << 5 | 1 << 6 | 1 << 7;

/// A number that is the server's user and group, as long as this lives or the guardian does.
#[derive(Debug)]
pub(super) struct Account {
    id: u32,
    claim: File,
}

impl Account {
    /// Takes a free number. `None`: this process is not root, or its user namespace has no other
    /// users, in which case servers run as the user it runs as.
    ///
    /// # Errors
    /// Root that has given up the rights to change users: a server would be root, too.
    pub(super) fn take() -> io::Result<Option<Self>> {
        // SAFETY: geteuid has no arguments and cannot fail.
        let is_root = unsafe { libc::geteuid() } == 0;
        let mapped = Mapped::own()?;
        if !is_root || !NUMBERS.into_iter().any(|id| mapped.has(id)) {
            return Ok(None);
        }
        if !has_rights()? {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "root may not change users here (CAP_SETUID, CAP_SETGID, CAP_CHOWN, CAP_KILL)",
            ));
        }
        let dir = Path::new(CLAIMS);
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)?;
        if fs::symlink_metadata(dir)?.uid() != 0 {
            return Err(io::Error::other(format!("{CLAIMS} is not root's")));
        }
        let count = NUMBERS.end() - NUMBERS.start() + 1;
        let first = random_number();
        for offset in 0..count {
            let id = NUMBERS.start() + first.wrapping_add(offset) % count;
            if !mapped.has(id) || is_known(id) {
                continue;
            }
            let claim = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW)
                .open(dir.join(id.to_string()))?;
            if try_lock(&claim)? {
                return Ok(Some(Self { id, claim }));
            }
        }
        Err(io::Error::other(
            "every user id from 61184 to 65519 is in use",
        ))
    }

    /// The number: user and group.
    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// The lock, for the guardian.
    pub(super) fn claim(&self) -> &File {
        &self.claim
    }
}

/// Whether this thread has the rights that it takes.
fn has_rights() -> io::Result<bool> {
    let status = fs::read_to_string("/proc/thread-self/status")?;
    let rights = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let rights = rights.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    Ok(rights.is_some_and(|rights| rights & RIGHTS == RIGHTS))
}

/// Whether somebody else has the number: an account, or a unit of systemd.
fn is_known(id: u32) -> bool {
    if Path::new("/run/systemd/dynamic-uid")
        .join(id.to_string())
        .exists()
    {
        return true;
    }
    let mut buffer = vec![0; 64 * 1024];
    // SAFETY: both records are plain data, filled by the calls, whose strings go into a buffer of
    // the length that is passed; everything lives in this frame.
    unsafe {
        let (mut user, mut group): (libc::passwd, libc::group) =
            (std::mem::zeroed(), std::mem::zeroed());
        let (mut found_user, mut found_group) = (std::ptr::null_mut(), std::ptr::null_mut());
        let (at, len) = (buffer.as_mut_ptr(), buffer.len());
        libc::getpwuid_r(id, &raw mut user, at, len, &raw mut found_user);
        libc::getgrgid_r(id, &raw mut group, at, len, &raw mut found_group);
        !found_user.is_null() || !found_group.is_null()
    }
}

/// The numbers that are users and groups in this user namespace.
struct Mapped {
    users: Vec<(u64, u64)>,
    groups: Vec<(u64, u64)>,
}

impl Mapped {
    fn own() -> io::Result<Self> {
        let read = |name: &str| fs::read_to_string(format!("/proc/self/{name}"));
        Ok(Self {
            users: ranges(&read("uid_map")?),
            groups: ranges(&read("gid_map")?),
        })
    }

    fn has(&self, id: u32) -> bool {
        let id = u64::from(id);
        let within = |ranges: &[(u64, u64)]| {
            let mut ranges = ranges.iter();
            ranges.any(|(first, count)| id >= *first && id - first < *count)
        };
        within(&self.users) && within(&self.groups)
    }
}

/// First and count of each line of a map of ids.
fn ranges(map: &str) -> Vec<(u64, u64)> {
    map.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let first = words.next()?.parse().ok()?;
            let count = words.nth(1)?.parse().ok()?;
            Some((first, count))
        })
        .collect()
}

/// Gives a path to a user and group; a link itself, not what it points to.
pub(super) fn give(path: &Path, account: Option<u32>) -> io::Result<()> {
    match account {
        Some(id) => std::os::unix::fs::lchown(path, Some(id), Some(id)),
        None => Ok(()),
    }
}

/// The first part of a path that other users cannot go through, if there is one.
pub(super) fn barred_at(path: &Path) -> Option<&Path> {
    let mut parts: Vec<&Path> = path.ancestors().collect();
    parts.reverse();
    parts
        .into_iter()
        .find(|part| fs::metadata(part).is_ok_and(|facts| facts.mode() & 0o001 == 0))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_map_says_which_numbers_are_users() {
        let whole = Mapped {
            users: ranges("         0          0 4294967295\n"),
            groups: ranges("0 0 4294967295\n"),
        };
        assert!(whole.has(61_184) && whole.has(65_519));
        let rootless = Mapped {
            users: ranges("0 1000 1\n"),
            groups: ranges("0 1000 1\n"),
        };
        assert!(rootless.has(0) && !NUMBERS.into_iter().any(|id| rootless.has(id)));
        let container = Mapped {
            users: ranges("0 1000 1\n1 100000 65536\n"),
            groups: ranges("0 1000 1\n1 100000 61184\n"),
        };
        assert!(container.has(61_184) && !container.has(61_185));
    }

    #[test]
    fn a_number_is_taken_once_and_belongs_to_nobody() {
        let Some(first) = Account::take().unwrap() else {
            return waggle_need::skip("root", "only root makes users for servers");
        };
        let second = Account::take().unwrap().unwrap();
        assert_ne!(first.id(), second.id());
        assert!(NUMBERS.contains(&first.id()) && !is_known(first.id()));
        // What is known is not taken: root, and nobody.
        assert!(is_known(0) && is_known(65_534));
    }

    #[test]
    fn root_without_rights_starts_no_server_as_root() {
        // SAFETY: geteuid has no arguments and cannot fail.
        let is_root = unsafe { libc::geteuid() } == 0;
        if !waggle_need::need("root", is_root, "only root can give up its rights") {
            return;
        }
        let error = std::thread::spawn(|| {
            let (header, nothing) = ([0x2008_0522_u32, 0], [0_u32; 6]);
            // SAFETY: both are alive during the call, which changes this thread alone.
            let given =
                unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), nothing.as_ptr()) };
            assert_eq!(given, 0);
            Account::take().err()
        });
        let error = error.join().unwrap().expect("it starts as root");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_private_directory_on_the_way_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("a/b");
        fs::create_dir_all(&below).unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(barred_at(&below), Some(dir.path()));
        assert_eq!(barred_at(Path::new("/tmp")), None);
    }
}
