//! What may this process do: its capabilities, and whether they count outside its container.

use std::fs;

use serde::Serialize;

use super::Fact;

/// Capabilities that watching uses, with their numbers and what they are for.
const WANTED: [(&str, u32, &str); 4] = [
    ("CAP_BPF", 39, "load programs"),
    ("CAP_PERFMON", 38, "attach probes"),
    ("CAP_SYS_PTRACE", 19, "look at other users' servers"),
    ("CAP_DAC_READ_SEARCH", 2, "read their program files"),
];
const CAP_SYS_ADMIN: u32 = 21;

/// How somebody who is not root gets them, and nobody else: rights on a program that all may run
/// would be everybody's. `chgrp` takes them off again, so it comes first.
const REMEDY: &str = "run as root; or as a service: contrib/waggle-watch.service; or, for watch, \
                      trace, profile, doctor and bench --profile, let a group run it, as root: \
                      groupadd --system waggle; chgrp waggle /usr/local/bin/waggle; \
                      chmod 0750 /usr/local/bin/waggle; setcap \
                      cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search+ep \
                      /usr/local/bin/waggle; then usermod -aG waggle NAME for whoever may look \
                      into every process of this host";

/// The inode of the first user namespace, the host's (`PROC_USER_INIT_INO`).
const HOST_USER_NAMESPACE: &str = "user:[4026531837]";

/// Effective rights of this process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rights {
    /// Effective user id.
    pub uid: u32,
    /// May load and attach programs.
    pub can_load: bool,
    /// The capabilities waggle uses and this process lacks.
    pub missing: Vec<&'static str>,
    /// A seccomp filter is active, which may refuse single system calls.
    pub seccomp_filter: bool,
    /// In the host's user namespace; rights of another one do not count for the kernel.
    pub host_user_namespace: bool,
    /// This program's file carries rights, and every user of the host may run it.
    pub open_to_all: bool,
}

impl Rights {
    pub(super) fn gather() -> Self {
        let namespace = fs::read_link("/proc/self/ns/user").ok();
        let is_host = namespace.is_none_or(|link| link.as_os_str() == HOST_USER_NAMESPACE);
        Self {
            open_to_all: is_open_to_all(),
            ..Self::parse(
                &fs::read_to_string("/proc/self/status").unwrap_or_default(),
                is_host,
            )
        }
    }

    /// From the text of `/proc/PID/status`.
    fn parse(status: &str, host_user_namespace: bool) -> Self {
        let field = |name: &str| {
            let rest = status.lines().find_map(|line| line.strip_prefix(name));
            rest.map(str::trim).unwrap_or_default()
        };
        let effective = u64::from_str_radix(field("CapEff:"), 16).unwrap_or(0);
        let has = |bit: u32| effective & 1 << bit != 0;
        // CAP_SYS_ADMIN was split into the first two in 5.8 and still includes them.
        let missing: Vec<_> = WANTED
            .iter()
            .filter(|&&(_, bit, _)| !(has(bit) || bit >= 38 && has(CAP_SYS_ADMIN)))
            .map(|&(name, ..)| name)
            .collect();
        let second = |text: &str| {
            text.split_whitespace()
                .nth(1)
                .and_then(|id| id.parse().ok())
        };
        Self {
            uid: second(field("Uid:")).unwrap_or(u32::MAX),
            can_load: host_user_namespace
                && !missing.contains(&"CAP_BPF")
                && !missing.contains(&"CAP_PERFMON"),
            missing,
            seccomp_filter: field("Seccomp:") == "2",
            host_user_namespace,
            open_to_all: false,
        }
    }

    pub(super) fn fact(&self) -> Fact {
        let who = if self.uid == 0 {
            "root".to_owned()
        } else {
            format!("uid {}", self.uid)
        };
        let uses = |names: &[&str]| {
            let used = WANTED.iter().filter(|(name, ..)| names.contains(name));
            used.map(|(name, _, what)| format!("{name} ({what})"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        if self.open_to_all {
            return Fact::no(
                "rights",
                "the program's file carries rights, and every user of this host may run it",
                "let a group run it, as root: groupadd --system waggle; chgrp waggle FILE; \
                 chmod 0750 FILE; then setcap again, as chgrp takes the rights off",
            );
        }
        if !self.host_user_namespace {
            return Fact::no(
                "rights",
                format!(
                    "this is {who} of a user namespace only, which does not count for the kernel"
                ),
                "run waggle on the host, or in a container without user remapping (--userns=host)",
            )
            .needed();
        }
        match (self.can_load, self.missing.as_slice()) {
            (true, []) => Fact::yes("rights", format!("{who}, with every capability needed")),
            (true, missing) => {
                let mut fact = Fact::yes("rights", format!("{who}, without {}", uses(missing)));
                fact.remedy = Some(REMEDY.to_owned());
                fact
            }
            (false, missing) => Fact::no(
                "rights",
                format!("{who} may not load programs: lacks {}", missing.join(", ")),
                REMEDY,
            ),
        }
        .needed()
    }

    /// What an answer that needs rights says without them.
    pub(super) fn not_tried(&self, name: &'static str) -> Fact {
        Fact::unknown(name, "not tried: needs root", "run waggle doctor as root")
    }
}

/// True if everybody has the rights that this program's file carries.
fn is_open_to_all() -> bool {
    use std::os::unix::fs::MetadataExt;
    let file = "/proc/self/exe";
    let carries = rustix::fs::getxattr(file, "security.capability", &mut [0_u8; 64]).is_ok();
    carries && fs::metadata(file).is_ok_and(|file| file.mode() & 0o001 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(uid: u32, effective: &str, seccomp: u8) -> String {
        format!("Name:\tx\nUid:\t0\t{uid}\t0\t0\nCapEff:\t{effective}\nSeccomp:\t{seccomp}\n")
    }

    #[test]
    fn root_has_everything() {
        let rights = Rights::parse(&status(0, "000001ffffffffff", 0), true);
        assert_eq!((rights.uid, rights.can_load), (0, true));
        assert_eq!(rights.missing, [""; 0]);
        assert_eq!(rights.fact().ok, Some(true));
    }

    #[test]
    fn a_plain_user_lacks_all_four() {
        let rights = Rights::parse(&status(65534, "0000000000000000", 2), true);
        assert_eq!(
            (rights.uid, rights.can_load, rights.seccomp_filter),
            (65534, false, true)
        );
        assert_eq!(rights.missing.len(), 4);
        assert!(rights.fact().is_in_the_way());
    }

    #[test]
    fn rights_are_for_a_group_and_never_for_a_file_that_all_may_run() {
        let lacks = Rights::parse(&status(1000, "0", 0), true);
        let remedy = lacks.fact().remedy.expect("what to do");
        let group = remedy.find("chgrp waggle").expect("a group");
        let mode = remedy.find("chmod 0750").expect("a mode without others");
        let given = remedy.find("setcap").expect("the rights");
        assert!(group < given && mode < given, "{remedy}");
        assert!(remedy.contains("contrib/waggle-watch.service"), "{remedy}");
        let open = Rights {
            open_to_all: true,
            ..Rights::parse(&status(1000, "000001ffffffffff", 0), true)
        };
        assert_eq!(open.fact().ok, Some(false));
        assert!(open.fact().reason.unwrap().contains("every user"));
    }

    #[test]
    fn sys_admin_includes_the_two_it_was_split_into() {
        let rights = Rights::parse(&status(1000, "0000000000200000", 0), true);
        assert!(rights.can_load);
        assert_eq!(rights.missing, ["CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"]);
    }

    #[test]
    fn root_of_a_container_with_remapped_users_is_nobody() {
        let rights = Rights::parse(&status(0, "000001ffffffffff", 0), false);
        assert!(!rights.can_load && rights.fact().is_in_the_way());
        assert!(rights.fact().reason.unwrap().contains("user namespace"));
    }
}
