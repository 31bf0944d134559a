//! Attaches the places of a probe: together where the kernel can, and then one by one those that
//! were refused, so that each has its own reason.
//!
//! Invariant: the bytes at a place have been compared right before.

use std::path::Path;

use libbpf_rs::{Link, TracepointCategory, TracepointOpts};

use super::spec::{Attach, Place};
use super::watch::Watch;
use super::{PointProbe, Process, Refused};
use crate::kernel;
use crate::object::{ProbeError, Uprobe, check_bytes};

/// The program that runs at such a place.
pub(super) fn program(attach: &Attach) -> &'static str {
    match attach {
        Attach::At { .. } => "point_at",
        Attach::Return(_) => "point_return",
        Attach::Watch { .. } => "point_watch",
        Attach::Tracepoint { .. } => "point_trace",
    }
}

/// A place of a spec, and how it is passed.
#[derive(Debug, Clone, Copy)]
struct Wanted<'a> {
    spec: usize,
    place: &'a Place,
    semaphore: u64,
    is_return: bool,
}

impl PointProbe {
    pub(super) fn attach_all(&mut self, processes: &[Process]) {
        let specs = std::mem::take(&mut self.specs);
        let mut uprobes = Vec::new();
        for (spec, wanted) in specs.iter().enumerate() {
            let (place, semaphore, is_return) = match &wanted.attach {
                Attach::At { place, semaphore } => (place, semaphore.unwrap_or(0), false),
                Attach::Return(place) => (place, 0, true),
                Attach::Watch { address, bytes } => {
                    self.watch(spec, *address, *bytes);
                    continue;
                }
                Attach::Tracepoint { category, name } => {
                    self.tracepoint(spec, category, name);
                    continue;
                }
            };
            match check_bytes(&place.binary, place.file_offset, &place.bytes) {
                Ok(()) => uprobes.push(Wanted {
                    spec,
                    place,
                    semaphore,
                    is_return,
                }),
                Err(error) => self.refused.push(Refused { spec, error }),
            }
        }
        // Returns first and ends before starts, so that no start is without its end for long.
        for is_return in [true, false] {
            let mut binaries: Vec<&Path> = Vec::new();
            for uprobe in uprobes.iter().filter(|u| u.is_return == is_return) {
                if !binaries.contains(&uprobe.place.binary.as_path()) {
                    binaries.push(&uprobe.place.binary);
                }
            }
            for binary in binaries {
                let same: Vec<Wanted<'_>> = uprobes
                    .iter()
                    .filter(|u| u.is_return == is_return && u.place.binary == binary)
                    .copied()
                    .collect();
                for process in processes {
                    self.uprobes(*process, binary, &same);
                }
            }
        }
        self.specs = specs;
    }

    /// These uprobes in one process: by one link, or else one by one.
    fn uprobes(&mut self, process: Process, binary: &Path, uprobes: &[Wanted<'_>]) {
        let pid = i32::try_from(process.pid).unwrap_or(i32::MAX);
        if kernel::has_uprobe_multi()
            && let Ok(link) = self.link(pid, binary, uprobes)
        {
            self.links.push(link);
            return;
        }
        for uprobe in uprobes {
            match self.link(pid, binary, std::slice::from_ref(uprobe)) {
                Ok(link) => self.links.push(link),
                Err(source) => self.refused.push(Refused {
                    spec: uprobe.spec,
                    error: ProbeError::Attach {
                        path: binary.to_path_buf(),
                        site: uprobe.place.to_string(),
                        source,
                    },
                }),
            }
        }
    }

    fn link(
        &self,
        pid: i32,
        binary: &Path,
        uprobes: &[Wanted<'_>],
    ) -> Result<Link, libbpf_rs::Error> {
        let is_return = uprobes.first().is_some_and(|u| u.is_return);
        let name = if is_return {
            "point_return"
        } else {
            "point_at"
        };
        let places = uprobes.iter().map(|wanted| Uprobe {
            offset: wanted.place.file_offset,
            cookie: wanted.spec as u64,
            semaphore: wanted.semaphore,
        });
        let places: Vec<Uprobe> = places.collect();
        self.object.uprobes(pid, binary, name, &places, is_return)
    }

    fn tracepoint(&mut self, spec: usize, category: &str, name: &str) {
        let options = TracepointOpts {
            cookie: spec as u64,
            ..Default::default()
        };
        let category = TracepointCategory::Custom(category.to_owned());
        let site = format!("tracepoint {}:{name}", category.as_ref());
        let program = self.object.program("point_trace");
        match program.attach_tracepoint_with_opts(category, name, options) {
            Ok(link) => self.links.push(link),
            Err(source) => self.refused.push(Refused {
                spec,
                error: ProbeError::Attach {
                    path: "the kernel".into(),
                    site,
                    source,
                },
            }),
        }
    }

    fn watch(&mut self, spec: usize, address: u64, bytes: u8) {
        let program = self.object.program("point_watch");
        match Watch::on_every_processor(&program, address, bytes, spec as u64) {
            Ok(watches) => self.watches.extend(watches),
            Err(error) => self.refused.push(Refused { spec, error }),
        }
    }
}
