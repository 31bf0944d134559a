//! As whom scripts run: the user who called sudo, `nobody`, or one who was named.
//!
//! Invariant: never root, and never with a group that only root's own session has.

use std::ffi::{CStr, CString};
use std::fmt;
use std::io;

/// `nobody` and its group, by the kernel's number for whom it does not know.
const NOBODY: u32 = 65534;

/// Bytes for an entry of the user database, which may list long names.
const ENTRY_BYTES: usize = 64 << 10;

/// Most groups that a user is in.
const GROUPS_MAX: usize = 1 << 16;

/// Who a process becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// `None`: stays who it is, without any right.
    pub(super) ids: Option<Ids>,
    name: String,
}

/// The numbers of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ids {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) groups: Vec<u32>,
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ids {
            Some(ids) => write!(f, "{} (user {})", self.name, ids.uid),
            None => write!(f, "{}", self.name),
        }
    }
}

impl User {
    /// The user of this name; without one who called sudo, or `nobody`.
    ///
    /// # Errors
    /// There is no such user, it is root, or this process is not root and cannot become another.
    pub fn choose(name: Option<&str>) -> Result<User, String> {
        let variable = |name| std::env::var(name).ok();
        User::chosen(
            name,
            rustix::process::geteuid().as_raw(),
            [variable("SUDO_UID"), variable("SUDO_GID")],
        )
    }

    fn chosen(
        name: Option<&str>,
        own: u32,
        [sudo_uid, sudo_gid]: [Option<String>; 2],
    ) -> Result<User, String> {
        if own != 0 {
            return match name {
                Some(name) => Err(format!(
                    "only root can run the load as another user, such as {name}"
                )),
                None => Ok(User {
                    ids: None,
                    name: format!("user {own}, without rights"),
                }),
            };
        }
        if let Some(name) = name {
            let entry = Entry::named(name).ok_or_else(|| format!("there is no user {name}"))?;
            return match entry.uid {
                0 => Err(format!(
                    "{name} is root: a workload is a program, and runs without root's rights"
                )),
                _ => Ok(entry.user(None)),
            };
        }
        let number = |text: Option<String>| text?.parse::<u32>().ok().filter(|id| *id != 0);
        let Some(uid) = number(sudo_uid).filter(|uid| *uid != u32::MAX) else {
            return Ok(User::nobody());
        };
        let gid = number(sudo_gid).filter(|gid| *gid != u32::MAX);
        Ok(match (Entry::numbered(uid), gid) {
            (Some(entry), gid) => entry.user(gid),
            (None, gid) => {
                let gid = gid.unwrap_or(NOBODY);
                User {
                    ids: Some(Ids {
                        uid,
                        gid,
                        groups: vec![gid],
                    }),
                    name: "the caller of sudo".to_owned(),
                }
            }
        })
    }

    fn nobody() -> User {
        User {
            ids: Some(Ids {
                uid: NOBODY,
                gid: NOBODY,
                groups: Vec::new(),
            }),
            name: "nobody".to_owned(),
        }
    }
}

/// A line of the user database.
struct Entry {
    name: CString,
    uid: u32,
    gid: u32,
}

impl Entry {
    fn named(name: &str) -> Option<Entry> {
        let name = CString::new(name).ok()?;
        // SAFETY: the name ends with a zero byte; `find` gives places that live through the call.
        Entry::find(|entry, bytes, length, found| unsafe {
            libc::getpwnam_r(name.as_ptr(), entry, bytes, length, found)
        })
    }

    fn numbered(uid: u32) -> Option<Entry> {
        // SAFETY: `find` gives places that live through the call.
        Entry::find(|entry, bytes, length, found| unsafe {
            libc::getpwuid_r(uid, entry, bytes, length, found)
        })
    }

    fn find(
        look: impl FnOnce(
            *mut libc::passwd,
            *mut libc::c_char,
            usize,
            *mut *mut libc::passwd,
        ) -> libc::c_int,
    ) -> Option<Entry> {
        let mut bytes = vec![0; ENTRY_BYTES];
        // SAFETY: numbers and pointers, for which zero bytes are valid.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        let failed = look(&mut entry, bytes.as_mut_ptr(), bytes.len(), &mut found);
        if failed != 0 || found.is_null() {
            return None;
        }
        // SAFETY: the entry was found: its name is text in `bytes`, which are still there.
        let name = unsafe { CStr::from_ptr(entry.pw_name) }.to_owned();
        Some(Entry {
            name,
            uid: entry.pw_uid,
            gid: entry.pw_gid,
        })
    }

    fn user(&self, gid: Option<u32>) -> User {
        let gid = gid.unwrap_or(self.gid);
        User {
            ids: Some(Ids {
                uid: self.uid,
                gid,
                groups: groups(&self.name, gid).unwrap_or_else(|_| vec![gid]),
            }),
            name: self.name.to_string_lossy().into_owned(),
        }
    }
}

/// The groups of a user.
fn groups(name: &CStr, gid: u32) -> io::Result<Vec<u32>> {
    let mut count = 64;
    loop {
        let mut groups = vec![0; count];
        let mut found = count as libc::c_int;
        // SAFETY: as many places as told are written to, and the number of groups to `found`.
        let done =
            unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &mut found) };
        if done >= 0 {
            groups.truncate(found.max(0) as usize);
            return Ok(groups);
        }
        if count >= GROUPS_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        count *= 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(name: Option<&str>, own: u32, sudo: [&str; 2]) -> Result<User, String> {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        User::chosen(name, own, sudo.map(given))
    }

    fn uid(user: Result<User, String>) -> u32 {
        user.unwrap().ids.expect("another user").uid
    }

    #[test]
    fn root_becomes_the_caller_of_sudo_or_nobody_and_never_stays_root() {
        assert_eq!(uid(chosen(None, 0, ["", ""])), NOBODY);
        assert_eq!(uid(chosen(None, 0, ["0", "0"])), NOBODY);
        assert_eq!(uid(chosen(None, 0, ["4294967295", "5"])), NOBODY);
        assert_eq!(uid(chosen(None, 0, ["-1", "5"])), NOBODY);
        let ids = chosen(None, 0, ["54321", "54322"]).unwrap().ids.unwrap();
        assert_eq!((ids.uid, ids.gid, ids.groups), (54321, 54322, vec![54322]));
        // A group that only root is in is not passed on.
        let ids = chosen(None, 0, ["54321", "0"]).unwrap().ids.unwrap();
        assert_eq!((ids.gid, ids.groups), (NOBODY, vec![NOBODY]));
    }

    #[test]
    fn a_user_may_be_named_but_not_root() {
        let error = chosen(Some("root"), 0, ["54321", "5"]).unwrap_err();
        assert!(error.contains("root is root"), "{error}");
        assert!(chosen(Some("no such user"), 0, ["", ""]).is_err());
        // Every system has it.
        assert_ne!(uid(chosen(Some("daemon"), 0, ["", ""])), 0);
    }

    #[test]
    fn who_is_not_root_stays_who_he_is() {
        assert_eq!(chosen(None, 1000, ["54321", "5"]).unwrap().ids, None);
        assert!(chosen(Some("daemon"), 1000, ["", ""]).is_err());
    }
}
