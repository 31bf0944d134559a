//! A fake `mysqld` of any user: waggle looks at it as root, and neither takes much memory, nor
//! hangs, nor dies.

use waggle_need::is_root;

use super::fake::{Fake, Made, Section};
use super::{Ended, waggle};

const GIB: u64 = 1 << 30;
const PROGBITS: u32 = 1;
const SYMTAB: u32 = 2;
const STRTAB: u32 = 3;
const NOTE: u32 = 7;
const DYNSYM: u32 = 11;

/// Every way to look at a program: by itself, while it runs, and as one of all.
fn looked_at(made: &Made) -> Vec<Ended> {
    let running = made.run(&[]);
    let pid = running.pid().to_string();
    let path = made.path.to_str().expect("a path of text");
    vec![
        waggle(&["doctor"]),
        waggle(&["doctor", "--binary", path]),
        waggle(&["watch", "--pid", &pid, "--duration", "1"]),
        waggle(&["watch", "--all", "--duration", "1"]),
        waggle(&["profile", "--pid", &pid, "--duration", "1"]),
        waggle(&["trace", "waits", "--pid", &pid, "--duration", "1"]),
        waggle(&["trace", "func", "--pid", &pid, "--duration", "1", "main"]),
    ]
}

#[test]
fn five_gigabytes_of_nothing_are_not_read() {
    if !is_root() {
        return;
    }
    let mut fake = Fake::new().with_marks();
    fake.section(Section {
        name: ".rodata",
        kind: PROGBITS,
        size: 5 * GIB,
        ..Section::default()
    });
    looked_at(&fake.finish(5 * GIB));
    // The same without any section that says where its constants are.
    let mut fake = Fake::new();
    fake.section(Section {
        name: ".text",
        kind: PROGBITS,
        size: 5 * GIB,
        ..Section::default()
    });
    looked_at(&fake.finish(5 * GIB));
}

#[test]
fn sections_that_lie_are_not_believed() {
    if !is_root() {
        return;
    }
    let names = [
        ".rodata",
        ".text",
        ".eh_frame",
        ".eh_frame_hdr",
        ".note.stapsdt",
        ".stapsdt.base",
        ".gnu_debugdata",
        ".gnu_debuglink",
        ".debug_info",
        ".debug_line",
        ".rela.dyn",
        ".plt",
    ];
    for size in [1 << 60, u64::MAX, 4 * GIB, 3 * GIB] {
        let mut fake = Fake::new().with_marks();
        for (kind, name) in names.map(|name| (PROGBITS, name)).into_iter().chain([
            (DYNSYM, ".dynsym"),
            (SYMTAB, ".symtab"),
            (STRTAB, ".strtab"),
            (NOTE, ".note.gnu.build-id"),
        ]) {
            fake.section(Section {
                name,
                kind,
                size,
                entry: 24,
                link: 3,
                ..Section::default()
            });
        }
        looked_at(&fake.finish(4 * GIB));
    }
}

#[test]
fn a_million_symbols_with_long_names_are_bounded() {
    if !is_root() {
        return;
    }
    let mut fake = Fake::new().with_marks();
    let mut names = vec![b'a'; 8 << 20];
    names.extend(b"\0");
    let strings = fake.put(&names);
    let mut symbols = Vec::with_capacity(24 << 20);
    for number in 0..1_u32 << 20 {
        // Each of them ends where all do, so that its name is of 4000 bytes and its own.
        let name = (8 << 20) - 4000 + number % 3900;
        symbols.extend(name.to_le_bytes());
        symbols.extend([0x12, 0, 1, 0]);
        symbols.extend(u64::from(number).to_le_bytes());
        symbols.extend(64_u64.to_le_bytes());
    }
    let table = fake.put(&symbols);
    fake.section(Section {
        name: ".dynstr",
        kind: STRTAB,
        offset: strings,
        size: names.len() as u64,
        ..Section::default()
    });
    for (kind, name) in [(DYNSYM, ".dynsym"), (SYMTAB, ".symtab")] {
        fake.section(Section {
            name,
            kind,
            offset: table,
            size: symbols.len() as u64,
            link: 2,
            entry: 24,
        });
    }
    looked_at(&fake.finish(0));
}

#[test]
fn frames_of_sixty_million_rows_are_bounded() {
    if !is_root() {
        return;
    }
    let mut fake = Fake::new().with_marks();
    let mut frames = Vec::new();
    // What all have in common: version 1, no augmentation, the return address in register 16.
    let common = [1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1, 0, 0, 0, 0, 0, 0];
    frames.extend((4 + common.len() as u32).to_le_bytes());
    frames.extend(0_u32.to_le_bytes());
    frames.extend(common);
    // One function, every byte of whose description is a row of its own.
    let rows = vec![0x41_u8; 30 << 20];
    let at = frames.len() as u32;
    frames.extend((4 + 16 + rows.len() as u32).to_le_bytes());
    frames.extend((at + 4).to_le_bytes());
    frames.extend(0x1000_u64.to_le_bytes());
    frames.extend(0x4000_0000_u64.to_le_bytes());
    frames.extend(rows);
    frames.extend(0_u32.to_le_bytes());
    let offset = fake.put(&frames);
    fake.section(Section {
        name: ".eh_frame",
        kind: PROGBITS,
        offset,
        size: frames.len() as u64,
        ..Section::default()
    });
    looked_at(&fake.finish(0));
}

#[test]
fn a_thousand_servers_of_one_user_are_not_all_opened() {
    if !is_root() {
        return;
    }
    let made = Fake::new().with_marks().finish(0);
    let running: Vec<_> = (0..1000).map(|_| made.run(&[])).collect();
    let ended = waggle(&["watch", "--all", "--duration", "1"]);
    let crowded = ended
        .stderr()
        .matches("programs that are called a server")
        .count();
    assert_eq!(crowded, 1, "{}", ended.stderr());
    waggle(&["doctor"]);
    drop(running);
}
