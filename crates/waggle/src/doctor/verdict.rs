//! The one line everybody reads: can statements be watched here, and why not?

use serde::Serialize;
use waggle_probes::capability::Kernel;

use super::servers::{HOW_TO_GET_ONE, NO_SITE, PROBE, Server, Unreadable};

/// The answer; `reason` says why also when it is yes.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) ok: bool,
    pub(super) reason: String,
    pub(super) remedy: Option<String>,
}

impl Verdict {
    pub(super) fn of(kernel: &Kernel, servers: &[Server], unreadable: &[Unreadable]) -> Self {
        if let Some(fact) = kernel.in_the_way().next() {
            let reason = fact.reason.clone().unwrap_or_else(|| fact.name.to_owned());
            return Self {
                ok: false,
                reason,
                remedy: fact.remedy.clone(),
            };
        }
        let verdict = Self::of_servers(servers, unreadable.len());
        let cost = kernel.trap_ns.filter(|_| verdict.ok);
        let cost = cost.map(|ns| format!("; a bare hit takes {:.2} us", ns / 1e3));
        Self {
            reason: verdict.reason + &cost.unwrap_or_default(),
            ..verdict
        }
    }

    /// The answer of a kernel that refuses nothing.
    fn of_servers(servers: &[Server], hidden: usize) -> Self {
        let count = |servers: &mut dyn Iterator<Item = &Server>| {
            servers.fold((0, 0), |(programs, pids), s| {
                (programs + 1, pids + s.pids.len())
            })
        };
        let (programs, running) = count(&mut servers.iter());
        let (fitting, reached) = count(&mut servers.iter().filter(|s| s.fits()));
        let partly = servers
            .iter()
            .filter(|s| s.fits() && !s.is_complete())
            .count();
        let yes = |reason: String| Self {
            ok: true,
            reason,
            remedy: None,
        };
        let no = |reason: String| Self {
            ok: false,
            reason,
            remedy: Some(NO_SITE.to_owned()),
        };
        let mut verdict = match (programs, fitting, running, reached) {
            (0, ..) => {
                let remedy = Some(HOW_TO_GET_ONE.to_owned());
                let reason = "the kernel lets the probe in, but no server was found".to_owned();
                return Self {
                    ok: true,
                    reason,
                    remedy,
                };
            }
            (_, 0, ..) => no(format!(
                "no server here has a place for the probe at {PROBE}"
            )),
            (_, _, 0, _) => yes(format!(
                "the probe fits {fitting} of {programs} servers, none seen running"
            )),
            (_, _, _, 0) => no(format!(
                "no running server has a place for the probe at {PROBE}"
            )),
            _ => yes(format!(
                "the probe fits {reached} of {running} running servers"
            )),
        };
        if verdict.ok && partly > 0 {
            verdict.reason += &format!(", {partly} with fields missing");
        }
        if hidden > 0 {
            verdict.reason += &format!(" ({hidden} more may not be looked into)");
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use waggle_symbols::site::Register;
    use waggle_symbols::{Site, TrapCost};

    fn fit() -> Result<Site, String> {
        Ok(Site {
            function: "f".into(),
            file_offset: 0,
            function_offset: 0,
            bytes: vec![0x55],
            instruction: "push".into(),
            register: Register(7),
            trap: TrapCost::Emulated,
        })
    }

    fn verdict(servers: &[(Result<Site, String>, &[u32])], hidden: usize) -> (bool, String) {
        let servers: Vec<Server> = servers
            .iter()
            .map(|(site, pids)| Server::example(site.clone(), pids))
            .collect();
        let verdict = Verdict::of_servers(&servers, hidden);
        (verdict.ok, verdict.reason)
    }

    #[test]
    fn running_servers_decide() {
        let unfit = || Err("stripped bare".to_owned());
        let (ok, reason) = verdict(&[(fit(), &[1, 2]), (unfit(), &[3])], 0);
        assert_eq!(
            reason,
            "the probe fits 2 of 3 running servers, 1 with fields missing"
        );
        assert!(ok);
        let (ok, reason) = verdict(&[(fit(), &[]), (unfit(), &[3])], 1);
        let expected = "no running server has a place for the probe at log_slow_statement \
                        (1 more may not be looked into)";
        assert_eq!((ok, reason.as_str()), (false, expected));
    }

    #[test]
    fn without_running_servers_those_installed_do() {
        let (ok, reason) = verdict(&[(fit(), &[]), (Err(String::new()), &[])], 0);
        assert!(
            ok && reason.starts_with("the probe fits 1 of 2 servers, none seen running"),
            "{reason}"
        );
        assert!(!verdict(&[(Err(String::new()), &[])], 0).0);
        let (ok, reason) = verdict(&[], 0);
        assert!(ok && reason.ends_with("no server was found"), "{reason}");
    }
}
