//! What are the kernel's functions called?
//!
//! Names come from `/proc/kallsyms`, which shows addresses to those with the rights alone.
//! Invariant: an address outside of the functions that are listed has no name.

use std::fs;
use std::sync::Arc;

/// A function of the kernel may be so long, bytes; beyond is another part of memory.
const FUNCTION_BYTES_MAX: u64 = 1 << 20;

/// The kernel's functions.
#[derive(Debug, Default)]
pub struct Kallsyms {
    /// Address, name and, for what a module brought, its name; by address.
    functions: Vec<(u64, Arc<str>, Option<Arc<str>>)>,
}

impl Kallsyms {
    /// Of the running kernel; without any if it hides them.
    pub fn read() -> Self {
        Self::parse(&fs::read_to_string("/proc/kallsyms").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let functions = text.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let kind = words.next()?;
            let name = words.next()?;
            let module = words.next().map(|m| Arc::from(m.trim_matches(['[', ']'])));
            (address != 0 && matches!(kind, "t" | "T" | "w" | "W"))
                .then(|| (address, Arc::from(name), module))
        });
        let mut functions: Vec<_> = functions.collect();
        // Of several names for one function, the first is the one that is in its source.
        functions.sort_by_key(|(address, ..)| *address);
        functions.dedup_by_key(|(address, ..)| *address);
        Self { functions }
    }

    /// True if there are no names.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The function at an address, and the module it is of, if it is of one.
    pub fn name(&self, address: u64) -> Option<(Arc<str>, Option<Arc<str>>)> {
        let after = self.functions.partition_point(|(at, ..)| *at <= address);
        let (at, name, module) = self.functions.get(after.checked_sub(1)?)?;
        (address - at < FUNCTION_BYTES_MAX).then(|| (Arc::clone(name), module.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_their_addresses() {
        let text = "ffffffff81000000 T _stext\nffffffff81000000 T other_name\n\
                    ffffffff81000100 t do_work\nffffffff81000180 d data\nbad line\n\
                    ffffffffc0000000 t helper\t[nf_nat]\n0000000000000000 T hidden\n";
        let symbols = Kallsyms::parse(text);
        let name = |address| {
            symbols
                .name(address)
                .map(|(name, module)| (name.to_string(), module))
        };
        assert_eq!(name(0xffff_ffff_8100_0004), Some(("_stext".into(), None)));
        assert_eq!(name(0xffff_ffff_8100_01ff), Some(("do_work".into(), None)));
        let (helper, module) = name(0xffff_ffff_c000_0010).unwrap();
        assert_eq!(
            (helper.as_str(), module.as_deref()),
            ("helper", Some("nf_nat"))
        );
        assert_eq!(name(0x1000), None);
        assert_eq!(name(0xffff_ffff_ffff_0000), None);
        assert!(Kallsyms::parse("").is_empty());
    }
}
