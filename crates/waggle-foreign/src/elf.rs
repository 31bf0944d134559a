//! An ELF file of anyone, opened for the parser with all that its headers may claim bounded.
//!
//! Neighbour: [`FileBytes`], which bounds what is read. Here is bounded how often: parts of the
//! file that overlap, or are described a million times, cost as much time as they are looked at.

use object::{BinaryFormat, Object, ObjectSection, ObjectSegment, SectionKind};

use crate::FileBytes;

/// Most sections; servers have 30 to 45, with debug information 50.
const SECTIONS_MAX: usize = 1024;
/// Most segments; servers have 10 to 13.
const SEGMENTS_MAX: usize = 128;
/// Longest section of notes that is looked through for the build id, bytes; most have 36.
const NOTES_BYTES_MAX: u64 = 4096;
/// Longest build id, bytes: what linkers make has 8 to 20, what people give them may have more.
const BUILD_ID_BYTES_MAX: usize = 64;
/// Type of the note with the build id.
const NT_GNU_BUILD_ID: u32 = 3;

/// What the parser makes of a file.
pub type Elf<'a> = object::File<'a, &'a FileBytes>;

impl FileBytes {
    /// The file as an ELF file.
    ///
    /// # Errors
    /// It is none, is damaged, or claims to have more parts than any program has; in words.
    pub fn elf(&self) -> Result<Elf<'_>, String> {
        let elf = object::File::parse(self).map_err(|error| self.why(&error))?;
        if elf.format() != BinaryFormat::Elf {
            return Err("not an ELF file".into());
        }
        if elf.sections().nth(SECTIONS_MAX).is_some() {
            return Err(format!("it has more than {SECTIONS_MAX} sections"));
        }
        if elf.segments().map(|s| s.size()).nth(SEGMENTS_MAX).is_some() {
            return Err(format!("it has more than {SEGMENTS_MAX} segments"));
        }
        Ok(elf)
    }

    /// What a failure of the parser was, in words.
    pub fn why(&self, error: &object::Error) -> String {
        match self.is_exhausted() {
            true => "its tables are larger than those of any server, and were not read".into(),
            false => error.to_string(),
        }
    }
}

/// The GNU build id of a file, if it has one of a sane length.
pub fn build_id<'a>(elf: &Elf<'a>) -> Option<&'a [u8]> {
    let notes = elf
        .sections()
        .filter(|s| s.kind() == SectionKind::Note && s.size() <= NOTES_BYTES_MAX);
    notes
        .filter_map(|section| section.data().ok())
        .find_map(build_id_in)
}

/// The build id in a section of notes: name's and description's length, type; both padded.
fn build_id_in(mut notes: &[u8]) -> Option<&[u8]> {
    loop {
        let word = |at: usize| {
            let word = notes.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_le_bytes(word))
        };
        let length = |at| usize::try_from(word(at)?).ok();
        let (name_bytes, bytes, kind) = (length(0)?, length(4)?, word(8)?);
        let name = notes.get(12..12_usize.checked_add(name_bytes)?)?;
        let start = 12 + name_bytes.checked_next_multiple_of(4)?;
        let description = notes.get(start..start.checked_add(bytes)?)?;
        let is_sane = (1..=BUILD_ID_BYTES_MAX).contains(&description.len());
        if kind == NT_GNU_BUILD_ID && name == b"GNU\0" && is_sane {
            return Some(description);
        }
        notes = notes.get(start + bytes.checked_next_multiple_of(4)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_is_found_and_an_odd_one_is_none() {
        let note = |name: &[u8], kind: u32, description: &[u8]| {
            let mut bytes = (name.len() as u32).to_le_bytes().to_vec();
            bytes.extend((description.len() as u32).to_le_bytes());
            bytes.extend(kind.to_le_bytes());
            for part in [name, description] {
                bytes.extend(part);
                bytes.resize(bytes.len().next_multiple_of(4), 0);
            }
            bytes
        };
        let other = note(b"stapsdt\0", 3, b"abc");
        let id = note(b"GNU\0", 3, b"\x01\x02\x03");
        let both = [other.clone(), id.clone()].concat();
        assert_eq!(build_id_in(&both), Some(&b"\x01\x02\x03"[..]));
        assert_eq!(build_id_in(&other), None);
        assert_eq!(build_id_in(&note(b"GNU\0", 3, b"")), None);
        assert_eq!(build_id_in(&note(b"GNU\0", 3, &[7; 65])), None);
        for cut in 0..id.len() - 1 {
            assert_eq!(build_id_in(&id[..cut]), None, "{cut}");
        }
        for at in 0..both.len() {
            let mut bad = both.clone();
            bad[at] = 0xff;
            let _ = build_id_in(&bad);
        }
    }

    #[test]
    fn own_program() {
        let file = crate::open_regular(&std::env::current_exe().unwrap()).unwrap();
        let bytes = FileBytes::new(&file).unwrap();
        assert!(bytes.elf().is_ok());
        let text = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let text = crate::open_regular(std::path::Path::new(text)).unwrap();
        assert!(FileBytes::new(&text).unwrap().elf().is_err());
    }
}
