//! Where does a tracepoint of the kernel keep its fields?
//!
//! The kernel says so itself, in a `format` file under tracefs.

use std::fs;

use waggle_probes::point::{Base, Value};

/// The fields of a tracepoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fields(Vec<(String, Value)>);

impl Fields {
    pub(super) fn read(category: &str, name: &str) -> Result<Self, String> {
        let folders = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
        let read = |folder: &&str| {
            fs::read_to_string(format!("{folder}/events/{category}/{name}/format")).ok()
        };
        let text = folders.iter().find_map(read);
        let text = text.ok_or_else(|| {
            format!(
                "the kernel has no tracepoint {category}:{name}, or tracefs is not mounted \
                 (mount -t tracefs none /sys/kernel/tracing)"
            )
        })?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(field).collect())
    }

    pub(super) fn get(&self, name: &str) -> Result<Value, String> {
        let found = self.0.iter().find(|(field, _)| field == name);
        found.map(|(_, value)| value.clone()).ok_or_else(|| {
            let names: Vec<&str> = self.0.iter().map(|(name, _)| name.as_str()).collect();
            format!(
                "the tracepoint has no number `{name}`: it has {}",
                names.join(", ")
            )
        })
    }
}

/// `field:int prev_pid; offset:24; size:4; signed:1;`
fn field(line: &str) -> Option<(String, Value)> {
    let mut parts = line.trim().split(';').map(str::trim);
    let declared = parts.next()?.strip_prefix("field:")?;
    let mut number = |name: &str| -> Option<u16> { parts.next()?.strip_prefix(name)?.parse().ok() };
    let (offset, size, signed) = (number("offset:")?, number("size:")?, number("signed:")?);
    let name = declared.rsplit([' ', '*']).next()?;
    let bytes = u8::try_from(size)
        .ok()
        .filter(|s| matches!(s, 1 | 2 | 4 | 8))?;
    let value = Value {
        base: Base::Field {
            offset,
            bytes,
            signed: signed != 0,
        },
        ..Value::default()
    };
    (!name.contains('[')).then(|| (name.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read() {
        let text = "name: x\nformat:\n\
                    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                    \n\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
                    \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\nprint fmt: \"%d\"\n";
        let fields = Fields::parse(text);
        let Base::Field {
            offset,
            bytes,
            signed,
        } = fields.get("pid").unwrap().base
        else {
            panic!("a field");
        };
        assert_eq!((offset, bytes, signed), (24, 4, true));
        assert!(fields.get("comm").unwrap_err().contains("common_type, pid"));
        for length in 0..text.len() {
            if let Some(cut) = text.get(..length) {
                assert!(Fields::parse(cut).0.len() <= 2);
            }
        }
    }
}
