//! The options that a script declares, out of Lua, and their values, into it.
//!
//! Neighbour: `crate::options` has their types, and makes values of what the user gave. Invariant:
//! what the caller has by a name stays the caller's.

use std::collections::BTreeMap;

use mlua::{Lua, Table, Value};

use super::{Setup, broken};
use crate::LoadError;
use crate::options::{DeclaredOption, OptionKind, OptionValue, canonical_name, general};
use crate::prelude::{self, Prelude};

/// Whether the script has declared any, in `sysbench.cmdline.options`.
pub(super) fn has_options(lua: &Lua) -> mlua::Result<bool> {
    let cmdline: Table = prelude::sysbench(lua)?.get("cmdline")?;
    Ok(cmdline.get::<Option<Table>>("options")?.is_some())
}

/// The options that the script declares, without those that the caller has by the same name.
pub(super) fn options(prelude: &Prelude, setup: &Setup) -> Result<Vec<DeclaredOption>, LoadError> {
    let broken = broken(setup);
    let list = prelude.function("declared_options").map_err(broken)?;
    let list: Table = list.call(()).map_err(broken)?;
    let builtin = general(setup.dialect);
    let mut declared = Vec::new();
    for entry in list.sequence_values::<Table>() {
        let option = declared_option(&entry.map_err(broken)?).map_err(broken)??;
        let taken = setup.general.contains_key(&option.name)
            || builtin.iter().any(|builtin| builtin.name == option.name);
        if !taken {
            declared.push(option);
        }
    }
    Ok(declared)
}

fn declared_option(entry: &Table) -> mlua::Result<Result<DeclaredOption, LoadError>> {
    let kind = OptionKind::by_number(entry.get("kind")?);
    let is_number = matches!(
        kind,
        OptionKind::Int | OptionKind::Size | OptionKind::Double
    );
    let mut option = DeclaredOption {
        name: canonical_name(&entry.get::<String>("name")?),
        description: entry.get("description")?,
        default: OptionValue::Text(String::new()),
        kind,
    };
    option.default = match entry.get::<Value>("default")? {
        Value::Boolean(value) => OptionValue::Bool(value),
        Value::Integer(value) => OptionValue::Number(value as f64),
        Value::Number(value) => OptionValue::Number(value),
        Value::Table(list) => {
            OptionValue::List(list.sequence_values().collect::<mlua::Result<_>>()?)
        }
        // A type that the script names: the default is in the words of a command line.
        Value::String(value) => match option.parse(&value.to_string_lossy()) {
            Ok(value) => value,
            Err(error) => return Ok(Err(error)),
        },
        _ if is_number => OptionValue::Number(0.0),
        _ => OptionValue::Text(String::new()),
    };
    Ok(Ok(option))
}

/// Gives the script the values of its options.
pub(super) fn hand_over(
    lua: &Lua,
    setup: &Setup,
    declared: &[DeclaredOption],
    values: &BTreeMap<String, OptionValue>,
    is_legacy: bool,
) -> mlua::Result<()> {
    let mut shown = values.clone();
    for option in declared
        .iter()
        .filter(|option| option.kind == OptionKind::File)
    {
        shown.remove(&option.name);
    }
    let opt: Table = prelude::sysbench(lua)?.get("opt")?;
    prelude::set_values(lua, &opt, &shown)?;
    if is_legacy {
        let globals = lua.globals();
        prelude::set_values(lua, &globals, &setup.general)?;
        prelude::set_values(lua, &globals, &shown)?;
    }
    Ok(())
}
